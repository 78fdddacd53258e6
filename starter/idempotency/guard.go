// Package idempotency makes a POST safe to repeat: one key, one effect, one answer (IETF draft Idempotency-Key).
//
// It must not know what the request does: a handler validates first, then asks Begin, and works for the subject it is
// given. It may import store for the key's row, internal/seal for the stored answers, and nothing of the API's.
package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/store"
)

// Header and ReplayedHeader are the names on the wire.
const (
	Header         = "Idempotency-Key"
	ReplayedHeader = "Idempotency-Replayed"
)

// Refusal says why the guard answers instead of the handler.
type Refusal string

// The refusals.
const (
	KeyMissing   Refusal = "key_missing"
	KeyMalformed Refusal = "key_malformed"
	KeyReused    Refusal = "key_reused"  // the same key came with another request before
	Running      Refusal = "running"     // the first request with this key is not finished
	Unavailable  Refusal = "unavailable" // the key's row could not be read or written
)

// Outcome is what became of one guarded request, for metrics.
type Outcome string

// The outcomes beside the refusals.
const (
	Completed Outcome = "completed" // answered and stored
	Released  Outcome = "released"  // answered and not stored: the same key may come again
	Replayed  Outcome = "replayed"
	Unclaimed Outcome = "unclaimed" // refused by the handler before the key was claimed: no row
	Overtaken Outcome = "overtaken" // the lease had passed on before the answer was ready
)

// Keys is the part of the store the guard needs.
type Keys interface {
	KeyClaim(ctx context.Context, k store.Key, fingerprint []byte, subject, token string, lease time.Duration) (store.KeyState, error)
	KeyComplete(ctx context.Context, k store.Key, token string, status int, sealed []byte) (bool, error)
	KeyRelease(ctx context.Context, k store.Key, token string) error
}

// Options are what the guard works with.
type Options struct {
	Keys  Keys
	Box   *seal.Box
	Lease time.Duration // how long one request holds its key; its handler is stopped then
	// Caller says who asks, and Operation which operation it is ("POST /v1/orders"): a key never counts without both.
	Caller    func(*http.Request) order.ClientID
	Operation func(*http.Request) string
	// Body gives the raw body, already read and bounded.
	Body func(*http.Request) []byte
	// Refuse writes a refusal. retryAfter is set for Running and Unavailable.
	Refuse func(w http.ResponseWriter, r *http.Request, why Refusal, retryAfter time.Duration)
	// Count is told every outcome; nil = nobody counts.
	Count func(*http.Request, Outcome)
	Log   *slog.Logger
}

// Guard is one request's hold on its key. Handlers reach it with From.
type Guard struct {
	o           Options
	key         store.Key
	fingerprint []byte
	token       string

	state   store.KeyState
	claimed bool    // this request holds the lease
	refusal Refusal // the guard answers instead of the handler
	retry   time.Duration
	replay  bool
}

// ErrAnswered tells a handler to return: the guard answers for it.
var ErrAnswered = errors.New("the idempotency guard answers this request")

type contextKey struct{}

// From returns the request's guard; nil where none was put.
func From(ctx context.Context) *Guard {
	g, _ := ctx.Value(contextKey{}).(*Guard)
	return g
}

// Key is the caller's key, for rows that must be found by it.
func (g *Guard) Key() string { return g.key.Key }

// Begin claims the key. Call it after everything that can be refused by the request alone: what is refused before leaves
// no row. It returns the subject to work for: a fresh one of newSubject, or, after a crashed or released try, the one that
// try was bound to. On ErrAnswered the handler returns at once.
func (g *Guard) Begin(ctx context.Context, newSubject func() string) (string, error) {
	st, err := g.o.Keys.KeyClaim(ctx, g.key, g.fingerprint, newSubject(), g.token, g.o.Lease)
	if err != nil {
		g.o.Log.WarnContext(ctx, "idempotency key cannot be claimed", "error", err)
		g.refusal, g.retry = Unavailable, time.Second
		return "", ErrAnswered
	}
	g.state = st
	switch {
	case st.Mine:
		g.claimed = true
		return st.Subject, nil
	case !st.SameRequest:
		g.refusal = KeyReused
	case st.Status != 0:
		g.replay = true
	default:
		g.refusal, g.retry = Running, retryAfter(st.LeaseLeft)
	}
	return "", ErrAnswered
}

// retryAfter is short: most requests end long before their lease.
func retryAfter(left time.Duration) time.Duration {
	return min(max(left.Round(time.Second), time.Second), 2*time.Second)
}

// Middleware guards every request that comes through it.
func Middleware(o Options) func(http.Handler) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Count == nil {
		o.Count = func(*http.Request, Outcome) {}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, missing, ok := ParseKey(r.Header.Values(Header))
			switch {
			case missing:
				o.refuse(w, r, KeyMissing, 0)
				return
			case !ok:
				o.refuse(w, r, KeyMalformed, 0)
				return
			}
			g := &Guard{o: o, key: store.Key{Client: o.Caller(r), Operation: o.Operation(r), Key: key}, fingerprint: o.fingerprint(r), token: newToken()}
			g.serve(w, r, next)
		})
	}
}

// fingerprint covers method, path and raw body. The content type is left out: it says how to read the body, not what it
// says. The key of the digest keeps guessed tokens from being tried against a stolen table.
func (o Options) fingerprint(r *http.Request) []byte {
	body := sha256.Sum256(o.Body(r))
	var b bytes.Buffer
	for _, part := range []string{r.Method, r.URL.EscapedPath()} {
		_ = binary.Write(&b, binary.BigEndian, uint32(len(part)))
		b.WriteString(part)
	}
	b.Write(body[:])
	return o.Box.Fingerprint(b.Bytes())
}

func newToken() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func (o Options) refuse(w http.ResponseWriter, r *http.Request, why Refusal, after time.Duration) {
	o.Count(r, Outcome(why))
	o.Refuse(w, r, why, after)
}

// serve runs the handler against a buffer, so that the answer is stored before the caller can see it.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	// The effect does not hang on the caller's patience: a client that hangs up finds the answer with the same key. Past
	// the lease somebody else may be at work, so the handler stops there.
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(r.Context()), contextKey{}, g), g.o.Lease)
	defer cancel()
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	done := false
	defer func() {
		if !done && g.claimed { // a panic on its way up
			g.release(ctx)
		}
	}()
	next.ServeHTTP(rec, r.WithContext(ctx))
	done = true
	switch {
	case g.refusal != "":
		g.o.refuse(w, r, g.refusal, g.retry)
	case g.replay:
		g.answerStored(w, r, g.state)
	case !g.claimed:
		g.o.Count(r, Unclaimed)
		rec.send(w)
	case !final(rec.status, rec.header):
		g.release(ctx)
		g.o.Count(r, Released)
		rec.send(w)
	default:
		g.complete(ctx, w, r, rec)
	}
}

// final tells an answer for good from one that says to come again. A 409 with Retry-After may pass; one without will not.
func final(status int, h http.Header) bool {
	switch {
	case status == http.StatusAccepted, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return false
	case status >= 400:
		return h.Get("Retry-After") == ""
	}
	return true
}

// finishFor bounds the last round trip, which also runs when the handler has used up its time.
const finishFor = 5 * time.Second

func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishFor)
}

func (g *Guard) release(ctx context.Context) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	if err := g.o.Keys.KeyRelease(ctx, g.key, g.token); err != nil {
		g.o.Log.WarnContext(ctx, "idempotency key is not released and waits for its lease", "error", err)
	}
}

// complete stores the answer and sends it. When the lease has passed on, the other process's answer is the one that counts.
func (g *Guard) complete(ctx context.Context, w http.ResponseWriter, r *http.Request, rec *recorder) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	won, err := g.o.Keys.KeyComplete(ctx, g.key, g.token, rec.status, g.seal(rec))
	switch {
	case err != nil:
		// The effect is there and the answer is true. A repeat goes on with the same subject and finds it.
		g.o.Log.WarnContext(ctx, "idempotency answer is not stored", "error", err)
		g.o.Count(r, Released)
		rec.send(w)
	case won:
		g.o.Count(r, Completed)
		rec.send(w)
	default:
		g.o.Count(r, Overtaken)
		st, err := g.o.Keys.KeyClaim(ctx, g.key, g.fingerprint, g.state.Subject, newToken(), 0)
		if err == nil && !st.Mine && st.Status != 0 {
			g.answerStored(w, r, st)
			return
		}
		g.o.Refuse(w, r, Running, time.Second)
	}
}

// stored is a kept answer. Only headers that mean something to a client at another time are kept.
type stored struct {
	ContentType string `json:"content_type,omitempty"`
	Location    string `json:"location,omitempty"`
	Body        []byte `json:"body"`
}

func (g *Guard) place() string {
	b, _ := json.Marshal([]string{string(g.key.Client), g.key.Operation, g.key.Key}) // strings always marshal
	return "answer/" + string(b)
}

func (g *Guard) seal(rec *recorder) []byte {
	b, _ := json.Marshal(stored{rec.header.Get("Content-Type"), rec.header.Get("Location"), rec.body.Bytes()})
	return g.o.Box.Seal(b, g.place())
}

func (g *Guard) answerStored(w http.ResponseWriter, r *http.Request, st store.KeyState) {
	var kept stored
	plain, err := g.o.Box.Open(st.SealedResponse, g.place())
	if err == nil {
		err = json.Unmarshal(plain, &kept)
	}
	if err != nil {
		g.o.Log.ErrorContext(r.Context(), "a stored answer cannot be opened", "error", err)
		g.o.refuse(w, r, Unavailable, time.Minute)
		return
	}
	g.o.Count(r, Replayed)
	h := w.Header()
	for name, value := range map[string]string{"Content-Type": kept.ContentType, "Location": kept.Location, ReplayedHeader: "true"} {
		if value != "" {
			h.Set(name, value)
		}
	}
	w.WriteHeader(st.Status)
	_, _ = w.Write(kept.Body)
}

// recorder keeps an answer until it is stored.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.body.Write(b)
}

func (r *recorder) send(w http.ResponseWriter) {
	h := w.Header()
	for name, values := range r.header {
		h[name] = values
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}
