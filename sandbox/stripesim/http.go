package stripesim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	id      string
	method  string
	path    string // as the client sent it below the API base: /v1/…
	key     string
	account *account
	params  params
	now     time.Time
	base    string // public base address, for the hosted page
	refuse  *decline
}

// endpoint runs under the simulator's lock and returns the object to render.
type endpoint func(s *Sim, r *request, id string) (any, *apiError)

func id(prefix string) string { return prefix + "_" + rand.Text()[:24] }

// accountName is the account a key opens. What follows a plus sign tells keys of one account apart, as after a rotation.
func accountName(key string) string {
	key, _, _ = strings.Cut(key, "+")
	sum := sha256.Sum256([]byte(key))
	return "acct_" + hex.EncodeToString(sum[:8])
}

// route finds the endpoint of a method and a path below /v1/.
func route(method, path string) (endpoint, string) {
	part := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	if !strings.HasPrefix(path, "/v1/") || part[0] == "" {
		return nil, ""
	}
	shape, object := method+" "+part[0], ""
	if len(part) > 1 {
		object = part[1]
		shape += "/*"
		if method == http.MethodGet && part[0] == "payment_intents" && object == "search" {
			shape = "GET payment_intents/search"
		}
	}
	if len(part) > 2 {
		shape += "/" + strings.Join(part[2:], "/")
	}
	switch shape {
	case "POST payment_intents":
		return create, ""
	case "POST payment_intents/*/confirm":
		return confirm, object
	case "POST payment_intents/*/capture":
		return capture, object
	case "POST payment_intents/*/cancel":
		return cancel, object
	case "GET payment_intents":
		return listIntents, ""
	case "GET payment_intents/search":
		return searchIntents, ""
	case "GET payment_intents/*":
		return getIntent, object
	case "POST refunds":
		return createRefund, ""
	case "GET refunds":
		return listRefunds, ""
	case "GET refunds/*":
		return getRefund, object
	case "GET disputes":
		return listDisputes, ""
	case "GET charges":
		return listCharges, ""
	case "GET charges/*":
		return getCharge, object
	case "GET events":
		return listEvents, ""
	case "GET events/*":
		return getEvent, object
	}
	return nil, ""
}

// ServeHTTP serves /v1/….
func (s *Sim) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			s.fail(w, "", badParameter("", "", "The request body is larger than 1 MB."))
		}
		return // the caller went away while sending
	}
	r := &request{id: id("req"), method: hr.Method, path: hr.URL.Path, key: strings.TrimSpace(hr.Header.Get("Idempotency-Key")), now: s.cfg.Now(), base: s.base(hr)}
	r.account = s.authenticate(hr)
	if r.account == nil {
		e := &apiError{Type: "invalid_request_error", Message: "Invalid API Key provided.", status: http.StatusUnauthorized}
		entry := s.arrive(r, body, nil)
		s.mu.Lock()
		entry.Status = e.status
		s.mu.Unlock()
		s.fail(w, r.id, e)
		return
	}
	fault := s.cfg.Faults.Take(faults.Stripe, r.method, r.path, body)
	entry := s.arrive(r, body, fault)
	s.cfg.Faults.Carry(w, hr, faults.Stripe, fault, func() faults.Answer {
		a := s.answer(r, hr, body, fault, entry)
		s.cfg.Logger.Debug("stripe", "method", r.method, "path", r.path, "status", a.Status, "request", r.id)
		return a
	})
}

func (s *Sim) base(hr *http.Request) string { return parts.Base(s.cfg.PublicURL, hr) }

func (s *Sim) authenticate(hr *http.Request) *account {
	plain, ok := strings.CutPrefix(hr.Header.Get("Authorization"), "Bearer ")
	if !ok {
		plain, _, ok = hr.BasicAuth()
	}
	if !ok {
		return nil
	}
	for _, c := range s.keys {
		if c.key.Equal(strings.TrimSpace(plain)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.accounts[c.name]
		}
	}
	return nil
}

// arrive books a write before anything is done about it, so that a lost one is in the books too.
func (s *Sim) arrive(r *request, body []byte, f *faults.Fault) *WriteEntry {
	e := &WriteEntry{At: r.now, RequestID: r.id, Method: r.method, Path: r.path, Key: r.key, Body: string(body)}
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

func (s *Sim) fail(w http.ResponseWriter, requestID string, e *apiError) {
	a := faults.JSON(e.status, e.body())
	a.Header = map[string]string{"Request-Id": requestID, "Stripe-Version": APIVersion}
	a.Write(w)
}

// answer decodes, guards by the idempotency key, runs and renders.
func (s *Sim) answer(r *request, hr *http.Request, body []byte, f *faults.Fault, entry *WriteEntry) faults.Answer {
	run, object, bad := s.decode(r, hr, body)
	var out faults.Answer
	switch {
	case bad != nil:
		out = faults.JSON(bad.status, bad.body())
	case r.method == http.MethodPost:
		out = s.write(r, run, object, f, entry)
	default:
		out = s.read(r, run, object, f)
	}
	if out.Header == nil {
		out.Header = map[string]string{}
	}
	out.Header["Request-Id"] = r.id
	out.Header["Stripe-Version"] = APIVersion
	s.mu.Lock()
	if s.settings.OddStatuses {
		out.Status = oddStatus(out.Status)
	}
	entry.Status = f.Answered(out.Status)
	events := s.drainEvents(r.account)
	s.mu.Unlock()
	s.publish(r.account, events)
	return out
}

func (s *Sim) decode(r *request, hr *http.Request, body []byte) (endpoint, string, *apiError) {
	run, object := route(r.method, r.path)
	if run == nil {
		e := badParameter("", "", "Unrecognized request URL (%s: %s).", r.method, r.path)
		e.status = http.StatusNotFound
		return nil, "", e
	}
	if v := hr.Header.Get("Stripe-Version"); v != "" && v != APIVersion {
		return nil, "", badParameter("", "", "Invalid Stripe API version: the sandbox speaks %s only.", APIVersion)
	}
	encoded := hr.URL.RawQuery
	if r.method == http.MethodPost {
		kind, _, _ := strings.Cut(hr.Header.Get("Content-Type"), ";")
		if len(body) > 0 && strings.TrimSpace(kind) != "application/x-www-form-urlencoded" {
			return nil, "", badParameter("", "", "Invalid request (check that your POST content type is application/x-www-form-urlencoded).")
		}
		if len(r.key) > 255 {
			return nil, "", badParameter("", "", "Idempotency keys can be at most 255 characters long.")
		}
		encoded = string(body)
	}
	p, bad := parseParams(encoded)
	r.params = p
	return run, object, bad
}

func (s *Sim) read(r *request, run endpoint, object string, f *faults.Fault) faults.Answer {
	if f.Is(faults.Slow) {
		s.cfg.Faults.Wait(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.now = s.cfg.Now()
	if f.Is(faults.StoreError) {
		out, _ := render(nil, serverError())
		return out
	}
	s.lapse(r)
	out, _ := render(run(s, r, object))
	return out
}

// write runs a POST under its idempotency key.
func (s *Sim) write(r *request, run endpoint, object string, f *faults.Fault, entry *WriteEntry) faults.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.now = s.cfg.Now() // under the lock, so that objects are in order of creation
	rec, bad := s.claim(r)
	if bad != nil {
		return faults.JSON(bad.status, bad.body())
	}
	if rec != nil {
		entry.Replayed = true
		return faults.Answer{Status: rec.status, Body: rec.body, Header: map[string]string{
			"Idempotency-Key": r.key, "Idempotent-Replayed": "true", "Original-Request": rec.requestID,
		}}
	}
	if f.Is(faults.Slow) {
		s.mu.Unlock()
		going := s.cfg.Faults.Wait(f)
		s.mu.Lock()
		if !going || s.accounts[r.account.name] != r.account { // a reset has begun new books meanwhile
			return faults.Answer{Status: http.StatusServiceUnavailable}
		}
		r.now = s.cfg.Now()
	}
	entry.Executed = true
	s.lapse(r)
	out, stored := s.run(r, run, object, f)
	s.settle(r, out.Status, out.Body, stored)
	if r.key != "" {
		out.Header = map[string]string{"Idempotency-Key": r.key, "Original-Request": r.id}
	}
	return out
}

func (s *Sim) run(r *request, run endpoint, object string, f *faults.Fault) (faults.Answer, bool) {
	switch {
	case f.Is(faults.StoreError):
		if f.Effect {
			_, _ = run(s, r, object)
		}
		return render(nil, serverError())
	case f.Is(faults.Refuse):
		d := cardDeclined("generic_decline")
		if f.Code != "" {
			d = cardDeclined(f.Code)
		}
		r.refuse = &d
	}
	return render(run(s, r, object))
}

// oddStatus takes the statuses that Stripe does not document per code another way.
func oddStatus(status int) int {
	switch status {
	case http.StatusPaymentRequired, http.StatusNotFound, http.StatusConflict:
		return http.StatusBadRequest
	}
	return status
}

// render makes the answer of an object or an error, and says whether it belongs under the idempotency key.
func render(v any, e *apiError) (faults.Answer, bool) {
	status, stored := http.StatusOK, true
	if e != nil {
		v, status, stored = e.body(), e.status, e.stored
	}
	b, err := json.Marshal(v)
	if err != nil {
		return render(nil, serverError())
	}
	return faults.Answer{Status: status, Body: b}, stored
}
