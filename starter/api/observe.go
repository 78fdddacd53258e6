package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// entry is what one request leaves in the log: no bodies, no query, no header, no order id but through the route.
type entry struct {
	id     string
	route  string
	client string
	guard  string
}

type entryKey struct{}

func entryOf(ctx context.Context) *entry {
	e, _ := ctx.Value(entryKey{}).(*entry)
	return e
}

// observe gives a request its id, counts and logs it, and turns a panic into a 500 that says nothing of its inside.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		b := make([]byte, 12)
		_, _ = rand.Read(b)
		e := &entry{id: hex.EncodeToString(b), route: "none"}
		sw := &statusWriter{ResponseWriter: w}
		h := sw.Header()
		h.Set("X-Request-Id", e.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil {
				// The value may quote input; its type and the stack are what is needed.
				a.d.Log.ErrorContext(r.Context(), "panic", "request_id", e.id, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
				if sw.status == 0 {
					problem(typeInternal, "").write(sw)
				}
			}
			took := time.Since(began)
			a.d.Metrics.request(e.route, r.Method, sw.status, took)
			a.d.Log.InfoContext(r.Context(), "request", "request_id", e.id, "method", r.Method, "route", e.route, "status", sw.status,
				"ms", float64(took.Microseconds())/1000, "client", e.client, "guard", e.guard)
		}()
		next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), entryKey{}, e)))
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// route answers paths and methods that the mux does not have as problems, and notes the pattern of those it has.
func (a *API) route(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unclean(r.URL.EscapedPath()) {
			problem(typeNotFound, "").write(w) // the mux would redirect
			return
		}
		h, pattern := a.mux.Handler(r)
		if pattern != "" {
			entryOf(r.Context()).route = pattern
			next.ServeHTTP(w, r)
			return
		}
		probe := &silent{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status != http.StatusMethodNotAllowed {
			problem(typeNotFound, "").write(w)
			return
		}
		p := problem(typeMethod, "")
		p.header.Set("Allow", probe.header.Get("Allow"))
		p.write(w)
	})
}

// unclean reports empty and dot segments, written plainly.
func unclean(path string) bool {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == "." || s == ".." || (s == "" && i > 0 && i < len(segments)-1) {
			return true
		}
	}
	return path == "" || path[0] != '/'
}

// silent takes the mux's own answer, of which only status and headers are used.
type silent struct {
	header http.Header
	status int
}

func (s *silent) Header() http.Header         { return s.header }
func (s *silent) Write(b []byte) (int, error) { return len(b), nil }
func (s *silent) WriteHeader(status int)      { s.status = status }
