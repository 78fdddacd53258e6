package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"orderflow/order"
	"orderflow/store"
)

// perPage is how many rows one page of a list holds.
const perPage = 50

type queuePage struct {
	Figures   store.Figures
	Failing   int64
	FailingBy []store.ReasonCount
	Items     []store.QueueItem
	Reasons   []store.ReasonCount
	Open      int64
	Filter    store.QueueFilter
	Filtered  bool
	Owner     string
	Age       string
	Ages      []string
	Sides     []string
	Later     bool // this is not the first page
	First     string
	Next      string
	Live      string // where the page asks for its newest state
}

// ages are the least ages one can ask for.
var ages = map[string]time.Duration{"any": 0, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}

func (o *Operator) queue(w http.ResponseWriter, r *http.Request, s *screen) {
	q := r.URL.Query()
	p := queuePage{Ages: []string{"any", "hour", "day", "week"}, Age: "any", Sides: o.d.Sides, Owner: q.Get("owner")}
	p.Filter = store.QueueFilter{Reason: order.ReviewReason(clean(q.Get("reason"))), Gateway: clean(q.Get("side")), Proposed: q.Get("proposed") != ""}
	switch p.Owner {
	case "mine":
		p.Filter.AssignedTo = s.Who.Login
	case "nobody":
		p.Filter.Unassigned = true
	}
	if d, known := ages[q.Get("age")]; known {
		p.Age, p.Filter.MinAge = q.Get("age"), d
	}
	p.Filtered = p.Filter != store.QueueFilter{}
	after, ok := keyOf(q.Get("after"), q.Get("at"))
	p.Later = ok
	if err := o.readQueue(r, &p, after); err != nil {
		o.d.Log.WarnContext(r.Context(), "the queue cannot be read", "error", err)
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	q.Del("after")
	q.Del("at")
	q.Del("said")
	q.Del("seen")
	p.First = address("/operator", q)
	if p.Next != "" {
		last := p.Items[len(p.Items)-1].Key()
		q.Set("after", string(last.ID))
		q.Set("at", last.OpenedAt.UTC().Format(time.RFC3339Nano))
		p.Next = address("/operator", q)
	}
	print := fingerprint(p, s.Now.Truncate(time.Minute)) // ages are shown in minutes
	if unchanged(w, r, print) {
		return
	}
	p.Live = withSeen(s.Here, print)
	o.show(w, s, http.StatusOK, "queue", p)
}

func (o *Operator) readQueue(r *http.Request, p *queuePage, after store.QueueKey) error {
	var err error
	if p.Figures, err = o.d.Store.Figures(r.Context()); err != nil {
		return err
	}
	if p.Reasons, err = o.d.Store.ReviewCounts(r.Context()); err != nil {
		return err
	}
	for _, c := range p.Reasons {
		p.Open += c.Open
		switch c.Reason {
		case order.ReviewRepeatedFailure, order.ReviewMisconfigured, order.ReviewPoisonEvent:
			p.Failing += c.Open
			p.FailingBy = append(p.FailingBy, c)
		}
	}
	var more bool
	p.Items, more, err = o.d.Store.ReviewQueue(r.Context(), p.Filter, after, perPage)
	if more {
		p.Next = "there is more"
	}
	return err
}

// keyOf reads where a page begins. What cannot be read is the beginning.
func keyOf(id, at string) (store.QueueKey, bool) {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || clean(id) == "" {
		return store.QueueKey{}, false
	}
	return store.QueueKey{OpenedAt: t, ID: order.ReviewID(clean(id))}, true
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// withSeen is the address of a live update: it says what the page already shows.
func withSeen(here, print string) string {
	u, err := url.Parse(here)
	if err != nil {
		return here
	}
	q := u.Query()
	q.Set("seen", print)
	return address(u.Path, q)
}

// fingerprint changes with what a page shows.
func fingerprint(parts ...any) string {
	b, _ := json.Marshal(parts) // our own plain structs always marshal
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

type waitingPage struct {
	Orders []store.PaidOrder
	Next   string
}

// waiting lists what the first figure counts.
func (o *Operator) waiting(w http.ResponseWriter, r *http.Request, s *screen) {
	q := r.URL.Query()
	after, _ := keyOf(q.Get("after"), q.Get("at"))
	rows, err := o.d.Store.PaidWaiting(r.Context(), after.OpenedAt, order.ID(after.ID), perPage+1)
	if err != nil {
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	p := waitingPage{Orders: rows}
	if len(rows) > perPage {
		p.Orders = rows[:perPage]
		last := p.Orders[perPage-1]
		p.Next = address("/operator/waiting", url.Values{"after": {string(last.ID)}, "at": {last.PaidAt.UTC().Format(time.RFC3339Nano)}})
	}
	o.show(w, s, http.StatusOK, "waiting", p)
}

type searchPage struct {
	Query string
	Hits  []store.Hit
}

// Address is the page that shows a hit.
func (searchPage) Address(h store.Hit) string {
	if h.Order == "" {
		return address("/operator/review", url.Values{"id": {h.ID}})
	}
	return address("/operator/order", url.Values{"id": {string(h.Order)}})
}

// search goes to the one order that an id names, or lists what it names.
func (o *Operator) search(w http.ResponseWriter, r *http.Request, s *screen) {
	p := searchPage{Query: clean(r.URL.Query().Get("q"))}
	if p.Query != "" {
		var err error
		if p.Hits, err = o.d.Store.Search(r.Context(), p.Query); err != nil {
			o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
			return
		}
	}
	one := len(p.Hits) > 0
	for _, h := range p.Hits {
		one = one && h.Order != "" && h.Order == p.Hits[0].Order || len(p.Hits) == 1 && h.Kind == "review"
	}
	if one {
		http.Redirect(w, r, p.Address(p.Hits[0]), http.StatusSeeOther)
		return
	}
	o.show(w, s, http.StatusOK, "search", p)
}

type auditPage struct {
	Rows []auditRow
	Next string
}

type auditRow struct {
	store.Act
	Reference, Proof string
}

// audit lists what people decided, and what they were refused.
func (o *Operator) audit(w http.ResponseWriter, r *http.Request, s *screen) {
	q := r.URL.Query()
	before, _ := keyOf(q.Get("before"), q.Get("at"))
	acts, err := o.d.Store.Acts(r.Context(), before.OpenedAt, string(before.ID), perPage+1)
	if err != nil {
		o.d.Log.WarnContext(r.Context(), "the audit cannot be read", "error", err)
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	p := auditPage{}
	if len(acts) > perPage {
		acts = acts[:perPage]
		last := acts[perPage-1]
		p.Next = address("/operator/audit", url.Values{"before": {last.ID}, "at": {last.At.UTC().Format(time.RFC3339Nano)}})
	}
	for _, a := range acts {
		row := auditRow{Act: a, Reference: a.Evidence.Reference, Proof: a.Evidence.Proof}
		if a.Why != "" {
			row.Reason = s.Word("why", a.Why)
			if a.Decision != "" {
				row.Reason = s.Word("decision", a.Decision) + ": " + row.Reason
			}
		}
		p.Rows = append(p.Rows, row)
	}
	o.show(w, s, http.StatusOK, "audit", p)
}
