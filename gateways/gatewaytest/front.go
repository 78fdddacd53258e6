package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"orderflow/gateways"
)

// Front stands on the wire before a simulated provider. It records every write as it arrives and carries out those faults
// that need no knowledge of the provider: LoseAnswer, CutBefore, Hang and Answer.
type Front struct {
	inner  http.Handler
	kindOf func(*http.Request, []byte) gateways.Kind

	mu      sync.Mutex
	writes  []Write
	armed   []*armed
	changed chan struct{}
	closed  chan struct{}
}

type armed struct {
	Fault
	left, hit int
}

// NewFront serves a provider over real HTTP until the end of the test and returns its address. kindOf names what a
// request asks for; Lookup or RefundLookup for everything that is no write.
func NewFront(t *testing.T, inner http.Handler, kindOf func(*http.Request, []byte) gateways.Kind) (*Front, string) {
	t.Helper()
	f := &Front{inner: inner, kindOf: kindOf, changed: make(chan struct{}), closed: make(chan struct{})}
	srv := httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.closed)
		srv.CloseClientConnections()
		srv.Close()
	})
	return f, srv.URL
}

// Arm makes the next matching requests meet a fault.
func (f *Front) Arm(fault Fault) (await func(ctx context.Context, n int) error) {
	a := &armed{Fault: fault, left: max(fault.Times, 1)}
	f.mu.Lock()
	f.armed = append(f.armed, a)
	f.mu.Unlock()
	return func(ctx context.Context, n int) error {
		for {
			f.mu.Lock()
			hit, changed := a.hit, f.changed
			f.mu.Unlock()
			if hit >= n {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			case <-f.closed:
				return errors.New("the provider was taken down before the fault was met")
			}
		}
	}
}

// Writes are the write requests received so far.
func (f *Front) Writes() []Write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// ServeHTTP carries one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	kind := f.kindOf(r, body)
	met := f.take(kind, r, body)
	// The effect never depends on whether the caller is still there.
	inner := r.Clone(context.WithoutCancel(r.Context()))
	inner.Body = io.NopCloser(bytes.NewReader(body))
	if met == nil {
		f.inner.ServeHTTP(w, inner)
		return
	}
	if met.Kind != CutBefore && (met.Kind != Answer || met.Effect) {
		f.inner.ServeHTTP(httptest.NewRecorder(), inner)
	}
	f.hit(met)
	switch met.Kind {
	case Hang:
		select {
		case <-r.Context().Done():
		case <-f.closed:
		}
		panic(http.ErrAbortHandler)
	case Answer:
		status := met.Status
		if status == 0 {
			status = http.StatusOK
		}
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.Header().Set("Content-Type", "application/json")
		maps.Copy(w.Header(), met.Header)
		w.WriteHeader(status)
		_, _ = w.Write(met.Body)
	default:
		panic(http.ErrAbortHandler)
	}
}

func (f *Front) take(kind gateways.Kind, r *http.Request, body []byte) *armed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind != Lookup && kind != RefundLookup {
		f.writes = append(f.writes, Write{Kind: kind, Key: r.Header.Get("Idempotency-Key"), Body: body})
	}
	for _, a := range f.armed {
		if a.On == kind && a.left > 0 {
			a.left--
			return a
		}
	}
	return nil
}

// hit reports a fault as met once its effect is done, so that a test which then cancels knows what the books hold.
func (f *Front) hit(a *armed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.hit++
	close(f.changed)
	f.changed = make(chan struct{})
}
