package faults

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Answer is what a simulated party says, before a fault decides how it travels.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte // JSON unless Header says otherwise
}

// Write puts an answer on the wire.
func (a Answer) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for k, v := range a.Header {
		h.Set(k, v)
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

// JSON makes an answer of a value that always encodes.
func JSON(status int, v any) Answer {
	b, err := json.Marshal(v)
	if err != nil {
		return Answer{Status: http.StatusInternalServerError, Body: []byte(`{"error":"the sandbox could not encode its answer"}`)}
	}
	return Answer{Status: status, Body: b}
}

// Answered is the status that travels when the party itself would say `own`; 0 when the connection is cut.
func (f *Fault) Answered(own int) int {
	if f == nil {
		return own
	}
	switch f.Action {
	case LoseAnswer, Drop, Hang:
		return 0
	case Status:
		return f.Status
	case Garbage:
		return f.answer().Status
	default:
		return own
	}
}

// Does reports whether a fault leaves the request to the party at all.
func (f *Fault) Does() bool {
	if f == nil {
		return true
	}
	switch f.Action {
	case Drop, Status:
		return false
	case Garbage, Hang:
		return f.Effect
	default:
		return true
	}
}

// Is reports the action of a fault that may be nil.
func (f *Fault) Is(a Action) bool { return f != nil && f.Action == a }

// Carry brings a request to the party and its answer back, as the fault wants it. `do` is called at most once and never
// depends on whether the caller is still there; the actions slow, store_500, refuse and accept are the party's own work.
// It ends with a panic that the HTTP server understands (http.ErrAbortHandler) where the connection is to be cut.
func (in *Injector) Carry(w http.ResponseWriter, r *http.Request, target Target, f *Fault, do func() Answer) {
	if !in.Wait(&Fault{Delay: in.Latency(target)}) {
		Cut()
	}
	var own Answer
	if f.Does() {
		own = do()
	}
	if f == nil {
		own.Write(w)
		return
	}
	switch f.Action {
	case LoseAnswer, Drop:
		Cut()
	case Hang:
		select {
		case <-r.Context().Done():
		case <-in.closed:
		}
		Cut()
	case Status, Garbage:
		f.answer().Write(w)
	case Late:
		if !in.Wait(f) {
			Cut()
		}
		own.Write(w)
	default:
		own.Write(w)
	}
}

// Cut ends the request without a byte of answer and closes the connection.
func Cut() { panic(http.ErrAbortHandler) }

// answer is the made-up answer of status and garbage.
func (f *Fault) answer() Answer {
	a := Answer{Status: f.Status, Header: f.Header, Body: []byte(f.Body)}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	switch {
	case f.Body != "":
	case f.Action == Garbage:
		a.Body = []byte("<html><body>The quick brown proxy jumps over the lazy")
	case f.Target == Stripe:
		a.Body = stripeError(f.Status, f.Code)
	case f.Target == Omise:
		a.Body, _ = json.Marshal(map[string]string{"object": "error", "location": "", "code": f.Code, "message": "a fault of the sandbox"})
	default:
		a.Body, _ = json.Marshal(map[string]string{"code": f.Code, "message": "a fault of the sandbox"})
	}
	return a
}

// stripeError has the shape that Stripe's client libraries take for an error of the API. A gateway's 502, 503 and 504
// carry no body.
func stripeError(status int, code string) []byte {
	if status >= 502 && code == "" {
		return nil
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusPaymentRequired:
		kind = "card_error"
	case status >= 500:
		kind = "api_error"
	}
	e := map[string]string{"type": kind, "message": "A fault of the sandbox."}
	if code != "" {
		e["code"] = code
	}
	b, _ := json.Marshal(map[string]any{"error": e})
	return b
}
