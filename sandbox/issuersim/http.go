package issuersim

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"orderflow/sandbox/faults"
)

const maxBody = 1 << 20

type issueBody struct {
	OperationID  string `json:"operation_id"`
	OrderID      string `json:"order_id"`
	UnitID       string `json:"unit_id"`
	SKU          string `json:"sku"`
	RecipientRef string `json:"recipient_ref"`
}

type answerBody struct {
	IssuanceID  string `json:"issuance_id,omitempty"`
	OperationID string `json:"operation_id"`
	Status      string `json:"status"` // issued, processing, revoked
	Reference   string `json:"reference,omitempty"`
}

// call is one request on its way through an issuer.
type call struct {
	kind  Kind
	hr    *http.Request
	body  []byte
	fault *faults.Fault
	entry *Request
}

// Handler serves /issuers/{kind}/v1/issuances and what is below it.
func (s *Sim) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, k := range Kinds() {
		base := "/issuers/" + string(k) + "/v1/issuances"
		mux.HandleFunc("POST "+base, s.serve(k, s.issue))
		if k == Opaque {
			continue // GET and revoke: 404 and 405 of the mux below
		}
		mux.HandleFunc("GET "+base+"/{operation}", s.serve(k, s.look))
		mux.HandleFunc("POST "+base+"/{operation}/revoke", s.serve(k, s.revoke))
	}
	mux.HandleFunc("/", s.serve("", func(*call) faults.Answer { return refusal(http.StatusNotFound, "no_such_endpoint") }))
	return mux
}

func refusal(status int, code string) faults.Answer {
	return faults.JSON(status, map[string]string{"code": code})
}

// serve authenticates, books the arrival, and lets the fault carry the request.
func (s *Sim) serve(kind Kind, do func(*call) faults.Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
		if err != nil {
			refusal(http.StatusRequestEntityTooLarge, "too_large").Write(w)
			return
		}
		token, _ := strings.CutPrefix(hr.Header.Get("Authorization"), "Bearer ")
		authentic := s.cfg.Token.Equal(token)
		c := &call{kind: kind, hr: hr, body: body}
		if c.kind == "" {
			c.kind = kindOf(hr.URL.Path)
		}
		if authentic {
			c.fault = s.cfg.Faults.Take(faults.Issuer, hr.Method, hr.URL.Path, body)
		}
		c.entry = s.arrive(c)
		if !authentic {
			s.answered(c, refusal(http.StatusUnauthorized, "unauthorized")).Write(w)
			return
		}
		s.cfg.Faults.Carry(w, hr, faults.Issuer, c.fault, func() faults.Answer {
			if c.fault.Is(faults.Refuse) {
				code := c.fault.Code
				if code == "" {
					code = "sold_out"
				}
				return s.answered(c, refusal(http.StatusUnprocessableEntity, code))
			}
			return s.answered(c, do(c))
		})
	}
}

func kindOf(path string) Kind {
	rest, _ := strings.CutPrefix(path, "/issuers/")
	name, _, _ := strings.Cut(rest, "/")
	return Kind(name)
}

// arrive books a request before anything is done about it.
func (s *Sim) arrive(c *call) *Request {
	e := &Request{
		At: s.cfg.Now(), Kind: c.kind, Method: c.hr.Method, Path: c.hr.URL.Path, Key: unquote(c.hr.Header.Get("Idempotency-Key")),
		OperationID: c.hr.PathValue("operation"), Body: string(c.body),
	}
	if e.OperationID == "" {
		e.OperationID = e.Key
	}
	if c.fault != nil {
		e.Fault = string(c.fault.Action)
		if !c.fault.Does() {
			e.Status = c.fault.Answered(0)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Seq = int64(len(s.requests)) + 1
	s.requests = append(s.requests, e)
	return e
}

// unquote accepts the header as the IETF draft writes it ("a") and bare (a).
func unquote(key string) string {
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		return key[1 : len(key)-1]
	}
	return key
}

func (s *Sim) answered(c *call, a faults.Answer) faults.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.Status = c.fault.Answered(a.Status)
	s.cfg.Logger.Debug("issuer", "kind", c.kind, "method", c.hr.Method, "path", c.hr.URL.Path, "status", a.Status)
	return a
}

func parseIssue(c *call) (issueBody, error) {
	var b issueBody
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("not the JSON of an issuance: %w", err)
	}
	for name, v := range map[string]string{"operation_id": b.OperationID, "order_id": b.OrderID, "unit_id": b.UnitID, "sku": b.SKU} {
		if v == "" {
			return b, fmt.Errorf("%s is missing", name)
		}
	}
	if c.entry.Key == "" {
		return b, fmt.Errorf("the Idempotency-Key header is missing")
	}
	if c.entry.Key != b.OperationID {
		return b, fmt.Errorf("the Idempotency-Key is not the operation_id")
	}
	return b, nil
}

func (s *Sim) issue(c *call) faults.Answer {
	b, err := parseIssue(c)
	if err != nil {
		return faults.JSON(http.StatusBadRequest, map[string]string{"code": "invalid_request", "message": err.Error()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ops, epoch := s.ops[c.kind], s.epoch
	op := ops[b.OperationID]
	if op != nil && c.kind == Idempotent {
		return op.again(c, b)
	}
	if op == nil {
		op = &operation{body: string(c.body)}
		ops[b.OperationID] = op
	}
	switch {
	case c.fault.Is(faults.Accept):
		op.running++
		go s.issueLater(c, b, op, epoch)
		return faults.JSON(http.StatusAccepted, answerBody{OperationID: b.OperationID, Status: "processing"})
	case c.fault.Is(faults.Slow):
		op.running++
		s.mu.Unlock()
		going := s.cfg.Faults.Wait(c.fault)
		s.mu.Lock()
		if !going || epoch != s.epoch {
			return faults.Answer{Status: http.StatusServiceUnavailable}
		}
		op.running--
	}
	return faults.JSON(http.StatusCreated, s.handOut(c, b, op).body())
}

// again answers a repeated request of the idempotent issuer. It expects the lock to be held.
func (op *operation) again(c *call, b issueBody) faults.Answer {
	switch {
	case op.body != string(c.body):
		return refusal(http.StatusBadRequest, "operation_differs") // something may have been issued: no definite refusal
	case op.running > 0:
		return refusal(http.StatusConflict, "in_progress")
	}
	return faults.JSON(http.StatusOK, op.made[0].body())
}

// issueLater is the second half of an accepted request.
func (s *Sim) issueLater(c *call, b issueBody, op *operation, epoch int) {
	if !s.cfg.Faults.Wait(c.fault) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == s.epoch {
		op.running--
		s.handOut(c, b, op)
	}
}

// handOut is the moment a thing is issued, into the books as well. It expects the lock to be held.
func (s *Sim) handOut(c *call, b issueBody, op *operation) *Issuance {
	now := s.cfg.Now()
	i := &Issuance{
		At: now, Kind: c.kind, IssuanceID: "iss_" + rand.Text()[:20], OperationID: b.OperationID, OrderID: b.OrderID, UnitID: b.UnitID,
		SKU: b.SKU, RecipientRef: b.RecipientRef, Reference: "V-" + rand.Text()[:12],
	}
	if len(op.made) == 0 {
		op.at = now
	}
	op.made = append(op.made, i)
	s.issuances = append(s.issuances, i)
	c.entry.Issued = true
	return i
}

func (i *Issuance) body() answerBody {
	b := answerBody{IssuanceID: i.IssuanceID, OperationID: i.OperationID, Status: "issued", Reference: i.Reference}
	if i.Revoked {
		b.Status = "revoked"
	}
	return b
}

// look answers the first issuance of an operation. The lookup issuer shows nothing before its lag has passed, not even
// that it is at work.
func (s *Sim) look(c *call) faults.Answer {
	s.waitIfSlow(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.ops[c.kind][c.hr.PathValue("operation")]
	switch {
	case op == nil, c.kind == Lookup && (len(op.made) == 0 || s.cfg.Now().Sub(op.at) < s.lag):
		return refusal(http.StatusNotFound, "not_found")
	case len(op.made) == 0:
		return faults.JSON(http.StatusOK, answerBody{OperationID: c.hr.PathValue("operation"), Status: "processing"})
	}
	return faults.JSON(http.StatusOK, op.made[0].body())
}

// revoke takes back everything that an operation issued. Doing it again answers the same.
func (s *Sim) revoke(c *call) faults.Answer {
	s.waitIfSlow(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.ops[c.kind][c.hr.PathValue("operation")]
	switch {
	case op == nil:
		return refusal(http.StatusNotFound, "not_found")
	case op.running > 0:
		return refusal(http.StatusConflict, "in_progress")
	}
	for _, i := range op.made {
		if !i.Revoked {
			i.Revoked, i.RevokedAt = true, s.cfg.Now()
		}
	}
	return faults.JSON(http.StatusOK, op.made[0].body())
}

func (s *Sim) waitIfSlow(c *call) {
	if c.fault.Is(faults.Slow) {
		s.cfg.Faults.Wait(c.fault)
	}
}
