package tosssim

import (
	"net/http"
	"strings"
	"time"
)

// keyID is the scope of an idempotency key: the body has no part in it, so a key reused for another amount gives the
// first payment's answer.
type keyID struct{ secret, key, method, path string }

// keyRecord is an idempotency key in use: running until done, then the stored answer.
type keyRecord struct {
	at     time.Time
	done   bool
	trace  string
	status int
	body   []byte
}

func (r *request) keyID() keyID {
	return keyID{secret: r.account.name, key: r.key, method: r.method, path: r.path}
}

// claim decides what a key means: nil, nil = run it now. It expects the lock to be held.
func (s *Sim) claim(r *request) (*keyRecord, *apiError) {
	if r.key == "" {
		return nil, nil
	}
	rec := s.records[r.keyID()]
	if rec != nil && rec.done && r.now.Sub(rec.at) >= s.settings.KeyTTL {
		rec = nil
	}
	switch {
	case rec == nil:
		s.records[r.keyID()] = &keyRecord{at: r.now, trace: r.trace}
		return nil, nil
	case !rec.done:
		return nil, &apiError{http.StatusConflict, "IDEMPOTENT_REQUEST_PROCESSING", "A request with the same idempotency key is being processed."}
	}
	return rec, nil
}

// settle keeps the answer of an executed request under its key, or frees the key where the settings say so.
func (s *Sim) settle(r *request, status int, body []byte) {
	if r.key == "" {
		return
	}
	rec := s.records[r.keyID()]
	if rec == nil || rec.trace != r.trace {
		return // pruned and claimed again while this one was still at work
	}
	server := status >= 500 || (status >= 400 && strings.Contains(string(body), `"PROVIDER_ERROR"`))
	if server && !s.settings.KeepServerErrors {
		delete(s.records, r.keyID())
		return
	}
	rec.done, rec.status, rec.body = true, status, body
}
