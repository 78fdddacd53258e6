package tosssim

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/parts"
)

const (
	maxBody = 1 << 20
	maxKey  = 300
)

// request is one authenticated call, decoded.
type request struct {
	trace   string
	method  string
	path    string // as the client sent it below the API base: /v1/…
	query   map[string][]string
	key     string
	body    []byte
	account *account
	now     time.Time
	base    string // public base address, for the buyer's page
	refuse  string // the code that a fault or the test header forces
}

func (r *request) param(name string) string {
	if v := r.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// endpoint runs under the simulator's lock and returns the object to render.
type endpoint func(s *Sim, r *request, object string) (any, *apiError)

// route finds the endpoint of a method and a path.
func route(method, path string) (endpoint, string) {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return nil, ""
	}
	part := strings.Split(rest, "/")
	shape := method + " " + part[0]
	switch {
	case shape == "GET transactions" && len(part) == 1:
		return listTransactions, ""
	case shape == "POST payments" && len(part) == 2 && part[1] == "confirm":
		return confirm, ""
	case shape == "POST payments" && len(part) == 3 && part[2] == "cancel":
		return cancel, part[1]
	case shape == "GET payments" && len(part) == 3 && part[1] == "orders":
		return getByOrder, part[2]
	case shape == "GET payments" && len(part) == 2:
		return getByKey, part[1]
	}
	return nil, ""
}

// ServeHTTP serves /v1/….
func (s *Sim) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	r := &request{
		trace: strings.ToLower(rand.Text()), method: hr.Method, path: hr.URL.Path, query: hr.URL.Query(), body: body,
		key: strings.TrimSpace(hr.Header.Get("Idempotency-Key")), now: s.cfg.Now(), base: s.base(hr),
	}
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			s.fail(w, r, invalid("The request body is larger than 1 MB."))
		}
		return // the caller went away while sending
	}
	var bad *apiError
	if r.account, bad = s.enter(hr); bad != nil {
		entry := s.arrive(r, nil)
		s.mu.Lock()
		entry.Status = bad.status
		s.mu.Unlock()
		s.fail(w, r, bad)
		return
	}
	if code := hr.Header.Get("TossPayments-Test-Code"); !r.account.live && hr.Method == http.MethodPost {
		r.refuse = code
	}
	fault := s.cfg.Faults.Take(faults.Toss, r.method, r.path, body)
	entry := s.arrive(r, fault)
	s.cfg.Faults.Carry(w, hr, faults.Toss, fault, func() faults.Answer {
		a := s.answer(r, fault, entry)
		s.cfg.Logger.Debug("toss", "method", r.method, "status", a.Status, "trace", r.trace)
		return a
	})
}

func (s *Sim) base(hr *http.Request) string { return parts.Base(s.cfg.PublicURL, hr) }

// enter checks Basic authentication: the secret key as user, and the colon that is easily forgotten.
func (s *Sim) enter(hr *http.Request) (*account, *apiError) {
	encoded, basic := strings.CutPrefix(hr.Header.Get("Authorization"), "Basic ")
	plain, err := base64.StdEncoding.DecodeString(encoded)
	key, colon := strings.CutSuffix(string(plain), ":")
	if !basic || err != nil || !colon {
		return nil, coded("INCORRECT_BASIC_AUTH_FORMAT", "The authorization header must be Basic base64(secret key + colon).")
	}
	for _, c := range s.keys {
		if c.key.Equal(key) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.accounts[c.name], nil
		}
	}
	return nil, coded("UNAUTHORIZED_KEY", "The secret key is not authenticated.")
}

func (s *Sim) header(r *request) map[string]string {
	h := map[string]string{"X-Tosspayments-Trace-Id": r.trace}
	if r.key != "" && r.method == http.MethodPost {
		h["Idempotency-Key"] = r.key
	}
	return h
}

func (s *Sim) fail(w http.ResponseWriter, r *request, e *apiError) {
	faults.Answer{Status: e.status, Header: s.header(r), Body: encode(e.body())}.Write(w)
}

// answer guards by the idempotency key, runs and renders.
func (s *Sim) answer(r *request, f *faults.Fault, entry *WriteEntry) faults.Answer {
	run, object := route(r.method, r.path)
	var out faults.Answer
	switch {
	case run == nil:
		out = render(nil, &apiError{http.StatusNotFound, "NOT_FOUND", "No such address."})
	case r.method == http.MethodPost && len(r.key) > maxKey:
		out = render(nil, coded("INVALID_IDEMPOTENCY_KEY", "The idempotency key is longer than 300 characters."))
	case r.method == http.MethodPost:
		out = s.write(r, run, object, f, entry)
	default:
		out = s.read(r, run, object, f)
	}
	if out.Header == nil {
		out.Header = s.header(r)
	}
	s.mu.Lock()
	entry.Status = f.Answered(out.Status)
	messages := s.drain()
	s.mu.Unlock()
	s.publish(messages)
	return out
}

func (s *Sim) read(r *request, run endpoint, object string, f *faults.Fault) faults.Answer {
	if f.Is(faults.Slow) {
		s.cfg.Faults.Wait(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.Is(faults.StoreError), f.Is(faults.Refuse):
		return render(nil, serverError(f))
	}
	return render(run(s, r, object))
}

// write runs a POST under its idempotency key.
func (s *Sim) write(r *request, run endpoint, object string, f *faults.Fault, entry *WriteEntry) faults.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.now = s.cfg.Now()
	rec, bad := s.claim(r)
	if bad != nil {
		return render(nil, bad)
	}
	if rec != nil {
		entry.Replayed = true
		h := s.header(r)
		h["X-Tosspayments-Trace-Id"] = r.trace + "," + rec.trace
		return faults.Answer{Status: rec.status, Body: rec.body, Header: h}
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
	out := s.run(r, run, object, f)
	s.settle(r, out.Status, out.Body)
	return out
}

func (s *Sim) run(r *request, run endpoint, object string, f *faults.Fault) faults.Answer {
	switch {
	case f.Is(faults.StoreError):
		if f.Effect {
			_, _ = run(s, r, object)
		}
		return render(nil, serverError(f))
	case f.Is(faults.Refuse):
		if r.refuse = f.Code; r.refuse == "" {
			r.refuse = "REJECT_CARD_PAYMENT"
		}
	case r.refuse != "": // the test header answers without touching the payment
		return render(nil, coded(r.refuse, "Forced by the test header."))
	}
	return render(run(s, r, object))
}

// serverError is the answer of a provider that failed inside, by default one of Toss's 500s.
func serverError(f *faults.Fault) *apiError {
	if f.Code != "" {
		return coded(f.Code, "A fault of the sandbox.")
	}
	return coded("FAILED_INTERNAL_SYSTEM_PROCESSING", "Internal system processing failed. Please try again later.")
}

// render makes the answer of an object or an error.
func render(v any, e *apiError) faults.Answer {
	if e != nil {
		return faults.Answer{Status: e.status, Body: encode(e.body())}
	}
	return faults.Answer{Status: http.StatusOK, Body: encode(v)}
}

func decodeBody(r *request, into any) *apiError {
	if json.Unmarshal(r.body, into) != nil {
		return invalid("The request body is not the JSON that this address takes.")
	}
	return nil
}
