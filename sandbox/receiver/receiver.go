// Package receiver is somebody who takes events: it verifies Standard Webhooks, does each event's effect once, and books
// what came and in which order.
//
// It must not know Orderflow: an outside library judges the signatures, and the books are the oracle of the tests.
// It may import only that library, the standard library, internal/secret and sandbox/faults.
package receiver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
)

const maxBody = 1 << 20

// Config is what a receiver is made of.
type Config struct {
	Secret secret.Value // whsec_…, base64
	Faults *faults.Injector
	Now    func() time.Time // nil = time.Now; signatures are judged by the real clock
	Logger *slog.Logger     // nil = silent
}

// Delivery is one request that reached the receiver.
type Delivery struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	ID       string    `json:"id"` // webhook-id
	Type     string    `json:"type"`
	OrderID  string    `json:"order_id"`
	Body     string    `json:"body"`
	Verified bool      `json:"verified"`
	Problem  string    `json:"problem,omitempty"` // why it was not verified, or what is wrong with a repeated one
	Effect   bool      `json:"effect"`            // the first of its id that was taken
	Status   int       `json:"status"`            // what went out on the wire; 0 = the connection was cut, or the answer is not out yet
	Fault    string    `json:"fault,omitempty"`
}

// Effect is an event that was taken, once per webhook-id.
type Effect struct {
	Position int             `json:"position"` // among the effects of its order, from 1
	At       time.Time       `json:"at"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	OrderID  string          `json:"order_id"`
	Body     json.RawMessage `json:"body"`
	Taken    int             `json:"taken"` // deliveries of this id that were verified and worked on, this one included
}

// Books are everything that happened since the last reset.
type Books struct {
	Deliveries []Delivery `json:"deliveries"`
	Effects    []Effect   `json:"effects"`
}

// Filter narrows the books; empty fields match everything.
type Filter struct {
	OrderID string
	ID      string
	Type    string
}

// Receiver is one receiver. It is safe for concurrent use.
type Receiver struct {
	cfg   Config
	judge *standardwebhooks.Webhook

	mu         sync.Mutex
	deliveries []*Delivery
	effects    []*effect
	byID       map[string]*effect
	perOrder   map[string]int
}

type effect struct {
	Effect
	digest [sha256.Size]byte
}

// New makes a receiver with empty books.
func New(cfg Config) (*Receiver, error) {
	plain := cfg.Secret.Reveal()
	if !strings.HasPrefix(plain, "whsec_") {
		return nil, errors.New("the receiver needs a webhook secret: whsec_ and the base64 of 24 to 64 random bytes")
	}
	judge, err := standardwebhooks.NewWebhook(plain)
	if err != nil {
		return nil, errors.New("the webhook secret is not base64 behind its whsec_")
	}
	if cfg.Faults == nil {
		cfg.Faults = faults.New()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Receiver{cfg: cfg, judge: judge}
	r.Reset()
	return r, nil
}

// Reset forgets everything.
func (r *Receiver) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries, r.effects = nil, nil
	r.byID, r.perOrder = map[string]*effect{}, map[string]int{}
}

// Deliveries returns every request, in order of arrival.
func (r *Receiver) Deliveries(f Filter) []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Delivery{}
	for _, d := range r.deliveries {
		if f.matches(d.OrderID, d.ID, d.Type) {
			out = append(out, *d)
		}
	}
	return out
}

// Effects returns every event that was taken, in order of taking.
func (r *Receiver) Effects(f Filter) []Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Effect{}
	for _, e := range r.effects {
		if f.matches(e.OrderID, e.ID, e.Type) {
			out = append(out, e.Effect)
		}
	}
	return out
}

// Books returns both.
func (r *Receiver) Books(f Filter) Books {
	return Books{Deliveries: r.Deliveries(f), Effects: r.Effects(f)}
}

func (f Filter) matches(order, id, kind string) bool {
	return (f.OrderID == "" || f.OrderID == order) && (f.ID == "" || f.ID == id) && (f.Type == "" || f.Type == kind)
}

// ServeHTTP serves POST /receiver and whatever is below it, so that one process can stand for several receivers.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	if hr.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(http.StatusMethodNotAllowed, "events come by POST").Write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		answer(http.StatusRequestEntityTooLarge, "the event is larger than 1 MB").Write(w)
		return
	}
	fault := r.cfg.Faults.Take(faults.Receiver, hr.Method, hr.URL.Path, body)
	d := r.arrive(hr, body, fault)
	r.cfg.Faults.Carry(w, hr, faults.Receiver, fault, func() faults.Answer {
		if fault.Is(faults.Slow) {
			r.cfg.Faults.Wait(fault)
		}
		a := r.take(d, hr, body, fault)
		r.cfg.Logger.Debug("receiver", "event", d.ID, "status", a.Status)
		return a
	})
}

func answer(status int, sentence string) faults.Answer {
	return faults.JSON(status, map[string]string{"message": sentence})
}

// arrive books a delivery before anything is done about it.
func (r *Receiver) arrive(hr *http.Request, body []byte, f *faults.Fault) *Delivery {
	d := &Delivery{At: r.cfg.Now(), ID: hr.Header.Get(standardwebhooks.HeaderWebhookID), Body: string(body)}
	d.Type, d.OrderID = describe(body)
	if f != nil {
		d.Fault = string(f.Action)
		if !f.Does() {
			d.Status = f.Answered(0)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Seq = int64(len(r.deliveries)) + 1
	r.deliveries = append(r.deliveries, d)
	return d
}

// describe reads the type and the order of an event, where an event has them: at the top or in data.
func describe(body []byte) (kind, order string) {
	var e struct {
		Type    string `json:"type"`
		OrderID string `json:"order_id"`
		Data    struct {
			OrderID string `json:"order_id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &e) != nil {
		return "", ""
	}
	if e.OrderID == "" {
		e.OrderID = e.Data.OrderID
	}
	return e.Type, e.OrderID
}

// take verifies a delivery and does its effect if it is the first of its id.
func (r *Receiver) take(d *Delivery, hr *http.Request, body []byte, f *faults.Fault) faults.Answer {
	problem := r.verify(hr, body)
	r.mu.Lock()
	defer r.mu.Unlock()
	var a faults.Answer
	switch {
	case f.Is(faults.Refuse):
		a = answer(http.StatusBadRequest, "refused")
	case problem != "":
		d.Problem = problem
		a = answer(http.StatusUnauthorized, problem)
	default:
		d.Verified = true
		r.effect(d, body)
		a = answer(http.StatusOK, "taken")
	}
	d.Status = f.Answered(a.Status)
	return a
}

// verify says what is wrong with a delivery, "" if nothing.
func (r *Receiver) verify(hr *http.Request, body []byte) string {
	if err := r.judge.Verify(body, hr.Header); err != nil {
		return "the signature does not verify: " + err.Error()
	}
	if kind, _, _ := strings.Cut(hr.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return "the content type is not application/json"
	}
	if !json.Valid(body) {
		return "the body is not JSON"
	}
	return ""
}

// effect expects the lock to be held.
func (r *Receiver) effect(d *Delivery, body []byte) {
	digest := sha256.Sum256(body)
	if e := r.byID[d.ID]; e != nil {
		e.Taken++
		if e.digest != digest {
			d.Problem = "the same webhook-id came with another body"
		}
		return
	}
	r.perOrder[d.OrderID]++
	d.Effect = true
	e := &effect{digest: digest, Effect: Effect{
		Position: r.perOrder[d.OrderID], At: r.cfg.Now(), ID: d.ID, Type: d.Type, OrderID: d.OrderID, Body: bytes.Clone(body), Taken: 1,
	}}
	r.byID[d.ID] = e
	r.effects = append(r.effects, e)
}
