package stripesim

import (
	"encoding/json"
	"time"
)

// event is one change, with the object as it was then.
type event struct {
	id        string
	kind      string
	object    any
	created   time.Time
	requestID string
	key       string
	published bool
}

type eventView struct {
	ID         string `json:"id"`
	Object     string `json:"object"`
	APIVersion string `json:"api_version"`
	Created    int64  `json:"created"`
	Data       struct {
		Object any `json:"object"`
	} `json:"data"`
	Livemode        bool   `json:"livemode"`
	PendingWebhooks int    `json:"pending_webhooks"`
	Request         origin `json:"request"`
	Type            string `json:"type"`
}

type origin struct {
	ID             *string `json:"id"`
	IdempotencyKey *string `json:"idempotency_key"`
}

func (e *event) view(live bool) eventView {
	v := eventView{
		ID: e.id, Object: "event", APIVersion: APIVersion, Created: e.created.Unix(), Livemode: live, Type: e.kind,
		Request: origin{ID: optional(e.requestID), IdempotencyKey: optional(e.key)},
	}
	v.Data.Object = e.object
	return v
}

// emit is the one way an event comes into being.
func (s *Sim) emit(r *request, kind string, object any) {
	a := r.account
	e := &event{id: id("evt"), kind: kind, object: object, created: r.now, requestID: r.id, key: r.key}
	a.events = append(a.events, e)
	if keep := s.settings.EventsKept; keep > 0 && len(a.events) > 2*keep {
		a.events = append([]*event(nil), a.events[len(a.events)-keep:]...)
	}
}

// drainEvents takes the events nobody has been told of. It expects the lock to be held.
func (s *Sim) drainEvents(a *account) []*event {
	if s.cfg.OnEvent == nil && s.cfg.OnNotice == nil {
		return nil
	}
	first := len(a.events)
	for first > 0 && !a.events[first-1].published {
		first--
		a.events[first].published = true
	}
	return append([]*event(nil), a.events[first:]...)
}

func (s *Sim) publish(a *account, events []*event) {
	for _, e := range events {
		b, err := json.Marshal(e.view(a.live))
		if err != nil {
			s.cfg.Logger.Error("an event cannot be encoded", "event", e.id, "error", err)
			continue
		}
		if s.cfg.OnEvent != nil {
			s.cfg.OnEvent(a.name, b)
		}
		if s.cfg.OnNotice != nil {
			s.cfg.OnNotice(s.Notice(a.name, e.kind, b))
		}
	}
}

func listEvents(_ *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("created", "limit", "starting_after", "ending_before", "type", "types", "delivery_success"); bad != nil {
		return nil, bad
	}
	wanted := map[string]bool{}
	if t := r.params.text("type"); t != "" {
		wanted[t] = true
	}
	for _, t := range r.params.list("types") {
		wanted[t] = true
	}
	all, live := r.account.events, r.account.live
	return r.list(series{
		kind: "event", length: len(all),
		id:      func(i int) string { return all[i].id },
		created: func(i int) time.Time { return all[i].created },
		keep:    func(i int) bool { return len(wanted) == 0 || wanted[all[i].kind] },
		view:    func(i int) any { return all[i].view(live) },
	})
}

func getEvent(_ *Sim, r *request, id string) (any, *apiError) {
	for _, e := range r.account.events {
		if e.id == id {
			return e.view(r.account.live), nil
		}
	}
	return nil, noSuch("event", "id", id)
}
