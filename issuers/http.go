package issuers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"orderflow/internal/cleantext"
	"orderflow/internal/fault"
)

const (
	defaultMaxAnswer = 64 << 10
	maxOperationID   = 128
	maxField         = 256  // characters of an id that comes or goes
	maxReference     = 2048 // characters of what the buyer gets to hold
)

// httpIssuer speaks the HTTP contract:
//
//	POST {base}/v1/issuances                        201 or 200 issued | 202 processing | 409 in progress | 422 {code} refused
//	GET  {base}/v1/issuances/{operation_id}         200 | 404 not found, maybe only not yet
//	POST {base}/v1/issuances/{operation_id}/revoke  200 | 404 | 409
type httpIssuer struct {
	config HTTPConfig
	base   string // without a slash at the end
	client *http.Client
}

// NewHTTP makes an issuer from its configuration, or refuses with a sentence that says what to set. It sends nothing.
func NewHTTP(config HTTPConfig) (Issuer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Timeout = config.timeout()
	config.Capabilities.SendTimeout = config.Timeout
	if config.MaxAnswer == 0 {
		config.MaxAnswer = defaultMaxAnswer
	}
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: config.Timeout}).DialContext,
		// A connection that the other side closes while it rests costs the next write its answer. Where a lost answer can
		// be resolved that is a lookup; an opaque issuer gets a new connection each time, since there it is a person's work.
		DisableKeepAlives:      config.Capabilities.Opaque(),
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        20 * time.Second,
		TLSHandshakeTimeout:    config.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // the size cap counts what is read
	}
	return &httpIssuer{
		config: config,
		base:   strings.TrimRight(config.BaseURL, "/"),
		client: &http.Client{
			Transport:     transport,
			Timeout:       config.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Name implements Issuer.
func (h *httpIssuer) Name() string { return h.config.Name }

// Capabilities implements Issuer.
func (h *httpIssuer) Capabilities() Capabilities { return h.config.Capabilities }

// Freeze implements Issuer. A request the issuer could not read is issuance_invalid and names the field, not its content.
func (h *httpIssuer) Freeze(r Request) ([]byte, error) {
	refuse := func(field, rule string) error {
		f := fault.Wrap(fault.IssuanceInvalid, opFreeze, fmt.Errorf("%s must be %s", field, rule))
		f.Provider = fault.Provider{Name: h.config.Name, Code: "bad_" + field}
		return f
	}
	if !isWord(r.OperationID, maxOperationID) {
		return nil, refuse("operation_id", "1 to 128 letters, digits or _-.:")
	}
	for _, f := range []struct {
		name, value string
		required    bool
	}{
		{"order_id", r.OrderID, true}, {"unit_id", r.UnitID, true}, {"sku", r.SKU, true}, {"recipient_ref", r.RecipientRef, false},
	} {
		if (f.required && f.value == "") || cleantext.Text(f.value, maxField) != nil {
			return nil, refuse(f.name, "1 to 256 characters without control characters")
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, h.misuse(opFreeze, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Issue implements Issuer.
func (h *httpIssuer) Issue(ctx context.Context, operationID string, frozen []byte) (Observation, error) {
	var named struct {
		OperationID string `json:"operation_id"`
	}
	if !isWord(operationID, maxOperationID) || json.Unmarshal(frozen, &named) != nil || named.OperationID != operationID {
		return Observation{}, h.misuse(opIssue, errors.New("the frozen request belongs to another operation"))
	}
	a, err := h.exchange(ctx, http.MethodPost, "", operationID, frozen)
	if err != nil {
		return Observation{}, h.faultOf(opIssue, a, err)
	}
	switch a.status {
	case http.StatusOK, http.StatusCreated:
		return h.stated(opIssue, operationID, a, Issued)
	case http.StatusAccepted:
		return h.stated(opIssue, operationID, a, Processing)
	case http.StatusUnprocessableEntity:
		return h.refused(operationID, a)
	}
	return Observation{}, h.faultOf(opIssue, a, nil)
}

// Lookup implements Issuer.
func (h *httpIssuer) Lookup(ctx context.Context, operationID string) (Observation, error) {
	if !h.config.Capabilities.Lookup {
		return Observation{}, h.misuse(opLookup, errors.New("this issuer has no lookup"))
	}
	if !isWord(operationID, maxOperationID) {
		return Observation{}, h.misuse(opLookup, errors.New("not an operation id"))
	}
	a, err := h.exchange(ctx, http.MethodGet, "/"+operationID, "", nil)
	if err != nil {
		return Observation{}, h.faultOf(opLookup, a, err)
	}
	switch a.status {
	case http.StatusOK:
		return h.stated(opLookup, operationID, a, Issued, Processing, Refused, Revoked)
	case http.StatusNotFound:
		return Observation{OperationID: operationID, Outcome: NotFound}, nil
	}
	return Observation{}, h.faultOf(opLookup, a, nil)
}

// Revoke implements Issuer. Its answers are Revoked and NotFound; a 409 is issuance_in_progress, since it cannot be told
// from here whether the issuance is still being made or can no longer be taken back.
func (h *httpIssuer) Revoke(ctx context.Context, operationID string) (Observation, error) {
	if !h.config.Capabilities.Revoke {
		return Observation{}, h.misuse(opRevoke, errors.New("this issuer cannot revoke"))
	}
	if !isWord(operationID, maxOperationID) {
		return Observation{}, h.misuse(opRevoke, errors.New("not an operation id"))
	}
	a, err := h.exchange(ctx, http.MethodPost, "/"+operationID+"/revoke", "", nil)
	if err != nil {
		return Observation{}, h.faultOf(opRevoke, a, err)
	}
	switch a.status {
	case http.StatusOK:
		return h.revoked(operationID, a)
	case http.StatusNotFound:
		return Observation{OperationID: operationID, Outcome: NotFound}, nil
	}
	return Observation{}, h.faultOf(opRevoke, a, nil)
}

// stated reads an answer that has to name one of the given outcomes as its status.
func (h *httpIssuer) stated(op, operationID string, a answer, allowed ...Outcome) (Observation, error) {
	if err := h.aboutAnother(op, operationID, a); err != nil {
		return Observation{}, err
	}
	unusable := func(why string) (Observation, error) {
		return Observation{}, h.coded(noAnswer(op), op, a, errors.New(why))
	}
	status, _ := a.text("status")
	for _, outcome := range allowed {
		if status != string(outcome) {
			continue
		}
		o := Observation{OperationID: operationID, Outcome: outcome}
		o.IssuanceID, _ = a.text("issuance_id")
		o.Reference, _ = a.text("reference")
		if outcome == Refused {
			if o.Code = a.code(); o.Code == "" {
				return unusable("a refusal without a readable code")
			}
		}
		if outcome != Issued {
			return o, nil
		}
		if named, ok := a.text("operation_id"); !ok || named != operationID {
			return unusable("the answer names no operation")
		}
		if o.IssuanceID == "" || o.Reference == "" {
			return unusable("the answer lacks issuance_id or reference")
		}
		return o, nil
	}
	return unusable("the answer's status is not one of the contract")
}

// revoked reads a 200 to a revoke. The contract asks for no body; one that is there has to agree.
func (h *httpIssuer) revoked(operationID string, a answer) (Observation, error) {
	if err := h.aboutAnother(opRevoke, operationID, a); err != nil {
		return Observation{}, err
	}
	status, named := a.text("status")
	if (a.fields == nil && !a.empty) || (named && status != string(Revoked)) {
		return Observation{}, h.coded(fault.IssuanceUnknown, opRevoke, a, errors.New("the answer does not say that it is revoked"))
	}
	issuance, _ := a.text("issuance_id")
	return Observation{OperationID: operationID, IssuanceID: issuance, Outcome: Revoked}, nil
}

// refused reads a 422, which is definite only with a readable code: a proxy can answer 422 as well.
func (h *httpIssuer) refused(operationID string, a answer) (Observation, error) {
	if err := h.aboutAnother(opIssue, operationID, a); err != nil {
		return Observation{}, err
	}
	code := a.code()
	if code == "" {
		return Observation{}, h.coded(fault.IssuanceUnknown, opIssue, a, errors.New("a 422 without a readable code"))
	}
	return Observation{OperationID: operationID, Outcome: Refused, Code: code}, nil
}

// aboutAnother faults an answer that names another operation than the one asked about: such an answer is somebody else's
// goods.
func (h *httpIssuer) aboutAnother(op, operationID string, a answer) error {
	switch named, ok := a.text("operation_id"); {
	case !ok || named == operationID:
		return nil
	case named == "":
		return h.coded(noAnswer(op), op, a, errors.New("the answer's operation_id is no text"))
	}
	return h.coded(fault.IssuanceMismatch, op, a, errors.New("the answer is about another operation"))
}

// exchange is the only place that sends. A write goes out once: with GetBody removed, net/http has no way to repeat it of
// its own accord when a resting connection dies, which it otherwise does for a request that carries an Idempotency-Key. A
// read may be repeated so; that is harmless.
func (h *httpIssuer) exchange(ctx context.Context, method, path, key string, body []byte) (answer, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, h.base+"/v1/issuances"+path, reader)
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+h.config.Token.Reveal())
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "orderflow")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{header: resp.Header}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, h.config.MaxAnswer+1))
	if err != nil {
		return a, err // without its status: half an answer decides nothing
	}
	if int64(len(raw)) > h.config.MaxAnswer {
		return a, errors.New("the answer is too long")
	}
	a.status = resp.StatusCode
	a.empty = len(raw) == 0
	a.fields = decode(raw)
	return a, nil
}

// answer is one whole answer. fields is nil unless the body is one clean JSON object.
type answer struct {
	status int
	header http.Header
	empty  bool
	fields map[string]json.RawMessage
}

// decode is strict about form (one object, no doubled or look-alike names, valid text) and open to fields it does not
// know: an issuer that adds one must not turn what it issued into an unknown.
func decode(raw []byte) map[string]json.RawMessage {
	if cleantext.Check(raw) != nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// text is a non-empty text under exactly this name. A name with something else under it, or with more than can be
// stored, is reported as present and empty, so that it matches nothing.
func (a answer) text(name string) (string, bool) {
	raw, ok := a.fields[name]
	if !ok || string(raw) == "null" {
		return "", false
	}
	limit := maxField
	if name == "reference" {
		limit = maxReference
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || cleantext.Text(s, limit) != nil {
		return "", true
	}
	return s, true
}

// code is the issuer's error code, if it is one word.
func (a answer) code() string {
	if code, _ := a.text("code"); isWord(code, 64) {
		return code
	}
	return ""
}

func (a answer) requestID() string {
	if id := a.header.Get("X-Request-Id"); isWord(id, 128) {
		return id
	}
	return ""
}
