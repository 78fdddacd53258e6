package scripts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"orderflow/sandbox/server"
)

// Answer is one answer of our API.
type Answer struct {
	Status int
	Body   map[string]any
	Raw    []byte
}

func (a Answer) oneOf(statuses ...int) error {
	if slices.Contains(statuses, a.Status) {
		return nil
	}
	return fmt.Errorf("answered %d: %s", a.Status, a.Raw)
}

// World is the product and the outside around it, whatever way it runs.
type World struct {
	API     func(ctx context.Context, method, path, key string, body any) (Answer, error)
	Post    func(ctx context.Context, gateway string, header http.Header, body []byte) (status int, err error) // a provider's notice to us
	Calm    func(ctx context.Context) error                                                                    // returns when nothing moves by itself any more
	Sweep   func(ctx context.Context) error                                                                    // the sweep has run once more
	Look    func(ctx context.Context) error                                                                    // providers' books were compared with ours
	Sandbox *server.Server
	Owner   *pgxpool.Pool // reads our rows, and sets clocks

	StripeKey string // of the merchant's dashboard
	OmiseKey  string // the same
	Merchant  string // 2C2P's name of ours

	box  *postbox
	mu   sync.Mutex
	back map[string]wentBack // at 2C2P, by reference
}

// notice is one webhook as a provider sent it.
type notice struct {
	gateway string
	header  http.Header
	body    []byte
}

// postbox takes all webhooks and keeps them by the ids in them, for scripts to hand on as they like.
type postbox struct {
	srv *httptest.Server

	mu  sync.Mutex
	got map[string][]*notice // by every id they name
}

// ids are what payments are known by at the four providers.
var ids = regexp.MustCompile(`\b(pi_[A-Za-z0-9]+|chrg_[a-z0-9_]+|OF[A-Z0-9]{8,}|pay_[a-z]+__[A-Za-z0-9_-]+|ref-s[0-9]+-[0-9]+)\b`)

// Open leads the sandbox's webhooks to a postbox of the world's own, until Close.
func (w *World) Open() error {
	w.box, w.back = &postbox{got: map[string][]*notice{}}, map[string]wentBack{}
	w.box.srv = httptest.NewServer(w.box)
	for _, p := range providers {
		if err := w.Sandbox.Webhooks().SetTarget(p.gateway, w.box.srv.URL+"/"+p.gateway); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the postbox.
func (w *World) Close() { w.box.srv.Close() }

// ServeHTTP keeps one webhook.
func (b *postbox) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	n := &notice{gateway: strings.TrimPrefix(r.URL.Path, "/"), header: r.Header.Clone(), body: body}
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{}
	for _, id := range ids.FindAllString(readable(body), -1) {
		if !seen[id] {
			seen[id] = true
			b.got[id] = append(b.got[id], n)
		}
	}
}

// readable opens what 2C2P wraps in a token.
func readable(body []byte) string {
	var wrapped struct{ Payload string }
	if json.Unmarshal(body, &wrapped) != nil || wrapped.Payload == "" {
		return string(body)
	}
	parts := strings.Split(wrapped.Payload, ".")
	if len(parts) != 3 {
		return string(body)
	}
	plain, _ := base64.RawURLEncoding.DecodeString(parts[1])
	return string(plain)
}

// take gives what has come about any of these ids and was not taken before, in order of arrival.
func (b *postbox) take(known []string) []*notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*notice
	for _, id := range known {
		for _, n := range b.got[id] {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
		delete(b.got, id)
	}
	return out
}
