package twoctwopsim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/parts"
)

const (
	maxBody = 1 << 20
	apiRoot = "/payment/4.3/"
)

// request is one decoded call.
type request struct {
	path     string // below the API root, in the standard spelling
	fields   object
	raw      []byte // the decoded claims or fields
	wrapped  bool
	merchant string // as far as the request or its payment token tells
	invoice  string
	now      time.Time
	base     string // public base address, for the buyer's page
	proven   bool   // the signature was right
	refuse   string // a code to decline with, from a fault
}

// result is one answer before wrapping. A code other than success is an error.
type result struct {
	code     string
	fields   map[string]any
	executed bool
	isError  bool
}

func failed(code string) result { return result{code: code, isError: true} }

type endpoint func(s *Sim, r *request) result

// endpoints by path; signed ones are always tokens.
var endpoints = map[string]struct {
	run    endpoint
	signed bool
	writes bool
}{
	"paymentToken":      {run: makeToken, signed: true, writes: true},
	"paymentInquiry":    {run: inquire, signed: true},
	"payment":           {run: doPayment, writes: true},
	"transactionStatus": {run: transactionStatus},
	"cancelTransaction": {run: cancelTransaction, writes: true},
}

// ServeHTTP serves /payment/4.3/… and /maintenance.
func (s *Sim) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, "the request body is larger than 1 MB", http.StatusRequestEntityTooLarge)
		}
		return // otherwise the caller went away while sending
	}
	if strings.TrimSuffix(hr.URL.Path, "/") == "/maintenance" {
		s.serveMaintenance(w, hr, body)
		return
	}
	path, ok := s.pathOf(hr.URL.Path)
	if !ok || hr.Method != http.MethodPost {
		http.NotFound(w, hr)
		return
	}
	r := s.decode(path, body)
	r.base = s.base(hr)
	fault := s.cfg.Faults.Take(faults.TwoCTwoP, hr.Method, hr.URL.Path, r.raw)
	entry := s.arrive(r, hr.URL.Path, body, fault)
	defer s.flush()
	s.cfg.Faults.Carry(w, hr, faults.TwoCTwoP, fault, func() faults.Answer { return s.answer(r, fault, entry) })
}

// pathOf finds the standard spelling. Only one spelling is served at a time, so that a client shows which it speaks.
func (s *Sim) pathOf(full string) (string, bool) {
	path, ok := strings.CutPrefix(full, apiRoot)
	if !ok {
		return "", false
	}
	if s.Settings().OtherPaths {
		switch path {
		case "doPayment":
			return "payment", true
		case "transactionStatusInquiry":
			return "transactionStatus", true
		case "canceltransaction":
			return "cancelTransaction", true
		case "payment", "transactionStatus", "cancelTransaction":
			return "", false
		}
	}
	_, ok = endpoints[path]
	return path, ok
}

func (s *Sim) base(hr *http.Request) string { return parts.Base(s.cfg.PublicURL, hr) }

// decode reads a body, wrapped or plain, and finds whose it is.
func (s *Sim) decode(path string, body []byte) *request {
	r := &request{path: path, raw: body, now: s.cfg.Now()}
	outer, ok := decodeObject(body)
	if !ok {
		return r
	}
	r.fields = outer
	jwt := outer.text("payload")
	if jwt != "" {
		r.wrapped, r.fields = true, nil
		if claims, ok := peek(jwt); ok {
			r.raw = claims
			r.fields, _ = decodeObject(claims)
		}
	}
	r.merchant, r.invoice = r.fields.text("merchantID"), r.fields.text("invoiceNo")
	s.mu.Lock()
	if t := s.tokens[r.fields.text("paymentToken")]; t != nil {
		r.merchant, r.invoice = t.of.merchant, t.of.no
	}
	s.mu.Unlock()
	if m, ok := s.merchant(r.merchant); ok && r.wrapped {
		r.proven = verified(m.Secret, jwt)
	}
	return r
}

// arrive books a write before anything is done about it, so that a lost one is in the books too.
func (s *Sim) arrive(r *request, path string, body []byte, f *faults.Fault) *WriteEntry {
	e := &WriteEntry{At: r.now, Account: r.merchant, Path: path, InvoiceNo: r.invoice, Body: string(body), Claims: string(r.raw)}
	e.Fault, e.Status = parts.Met(f)
	if !endpoints[r.path].writes {
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

// answer runs a call and wraps its result.
func (s *Sim) answer(r *request, f *faults.Fault, entry *WriteEntry) faults.Answer {
	s.mu.Lock()
	era := s.era
	if f.Is(faults.Slow) {
		s.mu.Unlock()
		going := s.cfg.Faults.Wait(f)
		s.mu.Lock()
		if !going || s.era != era { // a reset has begun new books meanwhile
			s.mu.Unlock()
			return faults.Answer{Status: http.StatusServiceUnavailable}
		}
	}
	r.now = s.cfg.Now()
	s.advance(r.now)
	res := s.run(r, f)
	entry.RespCode, entry.Executed = res.code, res.executed
	out := s.render(r, res)
	entry.Status = f.Answered(out.Status)
	first := s.settings.NoticeFirst
	s.mu.Unlock()
	if first {
		s.flush()
	}
	s.cfg.Logger.Debug("2c2p", "path", r.path, "code", res.code, "invoice", r.invoice)
	return out
}

// run expects the lock to be held.
func (s *Sim) run(r *request, f *faults.Fault) result {
	e := endpoints[r.path]
	must := s.settings.Wrapping == Wrapped || e.signed
	mustNot := s.settings.Wrapping == Plain && !e.signed
	switch {
	case r.fields == nil:
		return failed("6101")
	case (must && !r.wrapped) || (mustNot && r.wrapped):
		return failed("6102")
	case e.signed && r.merchant == "":
		return failed("6104")
	case r.wrapped && !r.proven:
		if _, known := s.merchant(r.merchant); !known && e.signed {
			return failed("6107")
		}
		return failed("9042")
	case f.Is(faults.StoreError) && !f.Effect:
		return failed("9991")
	case f.Is(faults.Refuse):
		if r.refuse = f.Code; r.refuse == "" {
			r.refuse = "4005"
		}
		if r.path != "payment" {
			return failed(r.refuse)
		}
	}
	res := e.run(s, r)
	if f.Is(faults.StoreError) {
		res.code, res.fields, res.isError = "9991", nil, true
	}
	return res
}

// render wraps an answer as the settings say. It expects the lock to be held.
func (s *Sim) render(r *request, res result) faults.Answer {
	claims := map[string]any{"respCode": res.code, "respDesc": describeCode(res.code)}
	for k, v := range res.fields {
		claims[k] = v
	}
	m, known := s.merchant(r.merchant)
	signed := r.wrapped && known && (!res.isError || s.settings.SignedErrors)
	status := http.StatusOK
	if res.isError {
		status = s.settings.ErrorStatus
	}
	if !signed {
		return faults.JSON(status, claims)
	}
	key := m.Secret
	if s.settings.WrongSignature {
		key = s.wrongs
	}
	jwt, err := sign(key, claims)
	if err != nil {
		return faults.Answer{Status: http.StatusInternalServerError}
	}
	return faults.JSON(status, map[string]string{"payload": jwt})
}

// flush tells of the notices that nobody was told of yet, outside of the lock and in order.
func (s *Sim) flush() {
	s.mu.Lock()
	out := s.outbox
	s.outbox = nil
	s.mu.Unlock()
	if s.cfg.OnNotice == nil {
		return
	}
	for _, m := range out {
		s.cfg.OnNotice(m)
	}
}

// notice queues a backend notification. It expects the lock to be held.
func (s *Sim) notice(in *invoice) {
	m, _ := s.merchant(in.merchant)
	key := m.Secret
	if s.settings.ForgedNotices {
		key = s.wrongs
	}
	claims := s.facts(in)
	claims["respCode"], claims["respDesc"] = in.code, describeCode(in.code)
	jwt, err := sign(key, claims)
	if err != nil {
		s.cfg.Logger.Error("a notice cannot be encoded", "invoice", in.no, "error", err)
		return
	}
	body, err := json.Marshal(map[string]string{"payload": jwt})
	if err != nil {
		return
	}
	s.outbox = append(s.outbox, notify.Message{
		Gateway: "twoctwop", Account: in.merchant, Kind: "payment." + in.code, Body: body,
		Header: func(time.Time, int) http.Header { return http.Header{"Content-Type": {"application/json"}} },
	})
}
