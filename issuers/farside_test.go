package issuers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/issuers"
	"orderflow/issuers/issuertest"
)

const token = "mArKeR-token-51c9"

// farSide is a small issuer over real HTTP that keeps its issuances in memory and can be told to misbehave.
type farSide struct {
	caps   issuers.Capabilities
	server *httptest.Server

	mu        sync.Mutex
	troubles  map[issuertest.Call][]issuertest.Trouble
	requests  []wireRequest
	issuances []issuance
}

type wireRequest struct {
	method, path, body string
	header             http.Header
	closes             bool
}

type issuance struct {
	id, operation string
	revoked       bool
}

func newFarSide(t *testing.T, caps issuers.Capabilities) *farSide {
	t.Helper()
	f := &farSide{caps: caps, troubles: map[issuertest.Call][]issuertest.Trouble{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *farSide) issuer(t *testing.T, change func(*issuers.HTTPConfig)) issuers.Issuer {
	t.Helper()
	config := issuers.HTTPConfig{Name: "tickets", BaseURL: f.server.URL, Token: secret.New(token), Capabilities: f.caps, Timeout: 15 * time.Second}
	if change != nil {
		change(&config)
	}
	issuer, err := issuers.NewHTTP(config)
	require.NoError(t, err)
	return issuer
}

func (f *farSide) arm(on issuertest.Call, trouble issuertest.Trouble) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.troubles[on] = append(f.troubles[on], trouble)
}

func (f *farSide) take(on issuertest.Call) (issuertest.Trouble, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := f.troubles[on]
	if len(queue) == 0 {
		return issuertest.Trouble{}, false
	}
	f.troubles[on] = queue[1:]
	return queue[0], true
}

func (f *farSide) seen() []wireRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]wireRequest(nil), f.requests...)
}

func (f *farSide) sent(operation string) int {
	n := 0
	for _, r := range f.seen() {
		if r.path == "/v1/issuances" && r.header.Get("Idempotency-Key") == operation {
			n++
		}
	}
	return n
}

func (f *farSide) issued(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, i := range f.issuances {
		if i.operation == operation {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (f *farSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.requests = append(f.requests, wireRequest{r.Method, r.URL.EscapedPath(), string(body), r.Header.Clone(), r.Close})
	f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	on, operation := issuertest.OnIssue, r.Header.Get("Idempotency-Key")
	do := func() (int, string) { return f.issue(operation) }
	if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/issuances/"); ok {
		on, operation = issuertest.OnLookup, rest
		do = func() (int, string) { return f.find(operation) }
		if id, revoke := strings.CutSuffix(rest, "/revoke"); revoke {
			on, operation = issuertest.OnRevoke, id
			do = func() (int, string) { return f.revoke(operation) }
		}
	}
	trouble, broken := f.take(on)
	if !broken {
		status, answer := do()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
		return
	}
	if trouble.Effect {
		do()
	}
	switch {
	case trouble.Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case trouble.Cut:
		panic(http.ErrAbortHandler)
	}
	for k, v := range trouble.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(trouble.Status)
	_, _ = io.WriteString(w, trouble.Body)
}

func (f *farSide) issue(operation string) (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.caps.Idempotent {
		for _, i := range f.issuances {
			if i.operation == operation {
				return http.StatusOK, i.text()
			}
		}
	}
	i := issuance{id: fmt.Sprintf("iss_%d", len(f.issuances)+1), operation: operation}
	f.issuances = append(f.issuances, i)
	return http.StatusCreated, i.text()
}

func (f *farSide) find(operation string) (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.issuances {
		if i.operation == operation {
			return http.StatusOK, i.text()
		}
	}
	return http.StatusNotFound, `{"code":"not_found"}`
}

func (f *farSide) revoke(operation string) (int, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.issuances {
		if f.issuances[n].operation == operation {
			f.issuances[n].revoked = true
			return http.StatusOK, ""
		}
	}
	return http.StatusNotFound, ""
}

func (i issuance) text() string {
	status := "issued"
	if i.revoked {
		status = "revoked"
	}
	b, _ := json.Marshal(map[string]any{
		"issuance_id": i.id, "operation_id": i.operation, "status": status, "reference": "V-" + i.id, "a_field_added_later": []int{1},
	})
	return string(b)
}
