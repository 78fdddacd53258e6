package omisesim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"orderflow/sandbox/notify"
)

// event is one change, with the object as it was then, rendered in the account's version of that moment.
type event struct {
	id      string
	kind    string
	created time.Time
	body    json.RawMessage
	signed  bool
}

// emit is the one way an event about a charge comes into being. It expects the lock to be held.
func (s *Sim) emit(r *request, kind string, c *charge) { s.record(r, kind, c.view(r.account.live)) }

func (s *Sim) emitRefund(r *request, f *refund) { s.record(r, "refund.create", f.view(r.account.live)) }

func (s *Sim) record(r *request, kind string, object map[string]any) {
	a := r.account
	e := &event{id: r.newID("evnt"), kind: kind, created: r.now, signed: s.webhookKey != nil && !s.settings.Unsigned}
	v := map[string]any{
		"object": "event", "id": e.id, "livemode": a.live, "location": "/events/" + e.id, "key": kind,
		"created_at": stamp(r.now), "data": object, "webhook_deliveries": []any{},
	}
	if s.settings.AccountVersion != APIVersion {
		v["data"] = older(object)
		v = older(v)
	}
	body, err := json.Marshal(v)
	if err != nil {
		s.cfg.Logger.Error("an event cannot be encoded", "event", e.id, "error", err)
		return
	}
	e.body = body
	a.events = append(a.events, e)
	if keep := s.settings.EventsKept; keep > 0 && len(a.events) > 2*keep {
		a.events = append([]*event(nil), a.events[len(a.events)-keep:]...)
	}
	if s.cfg.OnNotice != nil {
		a.unsent = append(a.unsent, e)
	}
}

// publish hands out what nobody was told of, in order. It must be called without the lock.
func (s *Sim) publish(a *account) {
	if s.cfg.OnNotice == nil || a == nil {
		return
	}
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.mu.Lock()
	unsent := a.unsent
	a.unsent = nil
	s.mu.Unlock()
	for _, e := range unsent {
		s.cfg.OnNotice(notify.Message{
			Gateway: "omise", Account: a.name, Kind: e.kind, Body: e.body,
			Header: func(at time.Time, _ int) http.Header { return s.headers(e, at) },
		})
	}
}

func (s *Sim) headers(e *event, at time.Time) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if e.signed {
		stamp := strconv.FormatInt(at.Unix(), 10)
		h.Set("Omise-Signature-Timestamp", stamp)
		h.Set("Omise-Signature", sign(s.webhookKey, stamp, e.body))
	}
	return h
}

func sign(key []byte, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
