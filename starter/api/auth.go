package api

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store"
)

// The scopes a key may have.
const (
	scopeCheckout = store.ScopeCheckout
	scopeView     = store.ScopeView
	scopeOperate  = store.ScopeOperate
	scopeApprove  = store.ScopeApprove
)

// keyCacheFor is how long a key is believed without asking the database: the longest a revoked key goes on working.
const keyCacheFor = 2 * time.Second

// keyCacheMax bounds the cache; keys in use are few.
const keyCacheMax = 10_000

type callerKey struct{}

// callerOf returns who asks.
func callerOf(ctx context.Context) store.Caller {
	c, _ := ctx.Value(callerKey{}).(store.Caller)
	return c
}

// clientOf is the client whose orders a request may touch.
func clientOf(r *http.Request) order.ClientID { return callerOf(r.Context()).Client }

// keyRing finds callers by their keys' hashes, remembering them for a moment.
type keyRing struct {
	find func(ctx context.Context, hash []byte) (store.Caller, error)
	now  func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]seenCaller
}

type seenCaller struct {
	caller store.Caller
	until  time.Time
}

func (k *keyRing) caller(ctx context.Context, key string) (store.Caller, error) {
	hash := sha256.Sum256([]byte(key))
	k.mu.Lock()
	seen, there := k.known[hash]
	k.mu.Unlock()
	if there && k.now().Before(seen.until) {
		return seen.caller, nil
	}
	c, err := k.find(ctx, hash[:])
	if err != nil {
		return store.Caller{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= keyCacheMax {
		clear(k.known)
	}
	k.known[hash] = seenCaller{c, k.now().Add(keyCacheFor)}
	return c, nil
}

// authenticate lets requests with a valid key and the scope through. It runs before anything reads the body.
func (a *API) authenticate(scopes ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, ok := bearer(r)
			if !ok {
				unauthorized(w)
				return
			}
			c, err := a.keys.caller(r.Context(), key)
			switch {
			case fault.IsCode(err, fault.NotFound):
				unauthorized(w)
			case err != nil:
				a.d.Log.WarnContext(r.Context(), "api key cannot be checked", "error", err)
				problem(typeUnavailable, "").after(time.Second).write(w)
			case !slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(c.Scopes, s) }):
				problem(typeForbidden, "").write(w)
			default:
				if log := entryOf(r.Context()); log != nil {
					log.client = string(c.Client)
				}
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
			}
		})
	}
}

func unauthorized(w http.ResponseWriter) {
	p := problem(typeUnauthorized, "")
	p.header.Set("WWW-Authenticate", "Bearer")
	p.write(w)
}

func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, key, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" || len(key) > 500 {
		return "", false
	}
	return key, true
}
