package omisesim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/parts"
)

const maxBody = 1 << 20

// request is one authenticated call, decoded.
type request struct {
	method  string
	path    string // below the API base: /charges
	public  bool   // made with the public key
	account *account
	params  params
	now     time.Time
	base    string // public base address, for the hosted page
	refuse  string // a fault's failure code
}

// endpoint runs under the simulator's lock and returns the object to render.
type endpoint func(s *Sim, r *request, id string) (any, *apiError)

// newID makes an id as Omise's are: the kind, the mode, and letters and digits in lower case.
func (r *request) newID(kind string) string {
	mode := "test_"
	if r.account.live {
		mode = ""
	}
	return kind + "_" + mode + strings.ToLower(rand.Text()[:19])
}

func accountName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "account_" + hex.EncodeToString(sum[:8])
}

// route finds the endpoint of a method and a path.
func route(method, path string) (run endpoint, object string) {
	part := strings.Split(strings.TrimPrefix(path, "/"), "/")
	shape := method + " " + part[0]
	if len(part) > 1 {
		object = part[1]
		shape += "/*"
	}
	if len(part) > 2 {
		shape += "/" + strings.Join(part[2:], "/")
	}
	switch shape {
	case "POST charges":
		return createCharge, ""
	case "GET charges":
		return listCharges, ""
	case "GET charges/*":
		return getCharge, object
	case "POST charges/*/capture":
		return captureCharge, object
	case "POST charges/*/reverse":
		return reverseCharge, object
	case "POST charges/*/expire":
		return expireCharge, object
	case "POST charges/*/mark_as_paid":
		return markPaid, object
	case "POST charges/*/mark_as_failed":
		return markFailed, object
	case "POST charges/*/refunds":
		return createRefund, object
	case "GET charges/*/refunds":
		return listRefunds, object
	case "POST tokens":
		return createToken, ""
	case "GET tokens/*":
		return getToken, object
	case "POST sources":
		return createSource, ""
	case "GET sources/*":
		return getSource, object
	case "GET events":
		return listEvents, ""
	case "GET events/*":
		return getEvent, object
	}
	return nil, ""
}

// ServeHTTP serves the API: /charges, /tokens, /sources, /events.
func (s *Sim) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			s.write(w, badRequest("the request body is larger than 1 MB"))
		}
		return // the caller went away while sending
	}
	r := &request{method: hr.Method, path: hr.URL.Path, now: s.cfg.Now(), base: s.base(hr)}
	s.authenticate(r, hr)
	if r.account == nil {
		bad := refused(http.StatusUnauthorized, "authentication_failure", "authentication failed")
		entry := s.arrive(r, body, nil)
		s.mu.Lock()
		entry.Status = bad.status
		s.mu.Unlock()
		s.write(w, bad)
		return
	}
	fault := s.cfg.Faults.Take(faults.Omise, r.method, r.path, body)
	entry := s.arrive(r, body, fault)
	s.cfg.Faults.Carry(w, hr, faults.Omise, fault, func() faults.Answer {
		a := s.answer(r, hr, body, fault, entry)
		s.cfg.Logger.Debug("omise", "method", r.method, "path", r.path, "status", a.Status)
		return a
	})
}

func (s *Sim) base(hr *http.Request) string { return parts.Base(s.cfg.PublicURL, hr) }

// authenticate knows the key as a user name with an empty password, as Omise does.
func (s *Sim) authenticate(r *request, hr *http.Request) {
	user, password, ok := hr.BasicAuth()
	if !ok || password != "" {
		return
	}
	for _, c := range s.keys {
		if c.secret.Equal(user) || (c.public != "" && c.public == user) {
			s.mu.Lock()
			defer s.mu.Unlock()
			r.account, r.public = s.accounts[c.name], c.public == user
			return
		}
	}
}

// arrive books a write before anything is done about it, so that a lost one is in the books too.
func (s *Sim) arrive(r *request, body []byte, f *faults.Fault) *WriteEntry {
	e := &WriteEntry{At: r.now, Method: r.method, Path: r.path, Body: string(body)}
	if strings.HasPrefix(r.path, "/tokens") {
		e.Body = ""
	}
	if r.account != nil {
		e.Account = r.account.name
	}
	e.Fault, e.Status = parts.Met(f)
	if r.method == http.MethodGet {
		s.reads.Add(1)
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeSeq++
	e.Seq = s.writeSeq
	s.book.writes = append(s.book.writes, e)
	return e
}

func (s *Sim) write(w http.ResponseWriter, bad *apiError) { render(nil, bad).Write(w) }

// answer decodes, runs and renders.
func (s *Sim) answer(r *request, hr *http.Request, body []byte, f *faults.Fault, entry *WriteEntry) faults.Answer {
	run, object, bad := s.decode(r, hr, body)
	out := render(nil, bad)
	if bad == nil {
		out = s.run(r, run, object, f, entry)
	}
	s.mu.Lock()
	entry.Status = f.Answered(out.Status)
	s.mu.Unlock()
	s.publish(r.account)
	return out
}

func (s *Sim) decode(r *request, hr *http.Request, body []byte) (endpoint, string, *apiError) {
	run, object := route(r.method, r.path)
	tokens := strings.HasPrefix(r.path, "/tokens")
	switch {
	case run == nil:
		return nil, "", refused(http.StatusNotFound, "service_not_found", "you are using API version which does not support this operation")
	case r.public != tokens && !strings.HasPrefix(r.path, "/sources"):
		return nil, "", refused(http.StatusUnauthorized, "authentication_failure", "authentication failed")
	case hr.Header.Get(versionHeader) != "" && hr.Header.Get(versionHeader) != APIVersion:
		return nil, "", badRequest("the sandbox speaks API version %s only", APIVersion)
	}
	p, bad := readParams(hr, body)
	r.params = p
	return run, object, bad
}

// run does the work, whether or not the caller is still there.
func (s *Sim) run(r *request, run endpoint, object string, f *faults.Fault, entry *WriteEntry) faults.Answer {
	if f.Is(faults.Slow) && !s.cfg.Faults.Wait(f) {
		return faults.Answer{Status: http.StatusServiceUnavailable}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts[r.account.name] != r.account { // a reset has begun new books meanwhile
		return faults.Answer{Status: http.StatusServiceUnavailable}
	}
	r.now = s.cfg.Now() // under the lock, so that objects are in order of creation
	entry.Executed = r.method != http.MethodGet
	switch {
	case f.Is(faults.StoreError):
		if f.Effect {
			_, _ = run(s, r, object)
		}
		return render(nil, serverError())
	case f.Is(faults.Refuse):
		if r.refuse = f.Code; r.refuse == "" {
			r.refuse = "payment_rejected"
		}
	}
	return render(run(s, r, object))
}

// render makes the answer of an object or an error.
func render(v any, bad *apiError) faults.Answer {
	if bad != nil {
		return faults.JSON(bad.status, bad)
	}
	return faults.JSON(http.StatusOK, v)
}
