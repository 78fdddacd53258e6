package stripesim

import (
	"crypto/sha256"
	"net/http"
	"time"
)

// keyRecord is an idempotency key in use: running until done, then the stored answer.
type keyRecord struct {
	fingerprint [sha256.Size]byte
	at          time.Time
	done        bool
	requestID   string
	status      int
	body        []byte
}

// fingerprint is what a repeated request must share with the first one. The order of parameters does not matter.
func (r *request) fingerprint() [sha256.Size]byte {
	return sha256.Sum256([]byte(r.method + " " + r.path + "\n" + r.params.Encode()))
}

// claim decides what a key means: nil, nil = run it now. It expects the lock to be held.
func (s *Sim) claim(r *request) (*keyRecord, *apiError) {
	if r.key == "" {
		return nil, nil
	}
	rec := r.account.keys[r.key]
	if rec != nil && rec.done && r.now.Sub(rec.at) >= s.settings.KeyTTL {
		rec = nil
	}
	print := r.fingerprint()
	switch {
	case rec == nil:
		r.account.keys[r.key] = &keyRecord{fingerprint: print, at: r.now, requestID: r.id}
		return nil, nil
	case rec.fingerprint != print:
		return nil, &apiError{
			Type:    "idempotency_error",
			Message: "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than the one you sent if you meant to execute a different request.",
			status:  http.StatusBadRequest,
		}
	case !rec.done:
		return nil, &apiError{
			Type: "invalid_request_error", Code: "idempotency_key_in_use",
			Message: "There is currently another in-progress request using this Idempotency Key. Please try again later.",
			status:  http.StatusConflict,
		}
	}
	return rec, nil
}

// settle stores the answer of an executed request, or frees the key when execution never began.
func (s *Sim) settle(r *request, status int, body []byte, stored bool) {
	if r.key == "" {
		return
	}
	rec := r.account.keys[r.key]
	if rec == nil || rec.requestID != r.id {
		return // pruned and claimed again while this one was still at work
	}
	if !stored {
		delete(r.account.keys, r.key)
		return
	}
	rec.done, rec.status, rec.body = true, status, body
}
