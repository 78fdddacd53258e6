package stripesim

import (
	"sort"
	"time"
)

type listView struct {
	Object  string `json:"object"`
	URL     string `json:"url"`
	HasMore bool   `json:"has_more"`
	Data    []any  `json:"data"`
}

// page is one list request: newest first, objects given in order of creation.
type page struct {
	from, to int64 // created, unix seconds, both inclusive
	limit    int
	after    string // starting_after: older than this one
	before   string // ending_before: newer than this one
}

const endOfTime = int64(1) << 60

func (r *request) page() (page, *apiError) {
	p := page{to: endOfTime, limit: 10}
	n, has, bad := r.params.integer("limit")
	if bad != nil {
		return p, bad
	}
	if has {
		if n < 1 || n > 100 {
			return p, badParameter("parameter_invalid_integer", "limit", "limit must be between 1 and 100.")
		}
		p.limit = int(n)
	}
	for _, b := range []struct {
		name string
		set  func(int64)
	}{
		{"created", func(t int64) { p.from, p.to = t, t }},
		{"created[gt]", func(t int64) { p.from = max(p.from, t+1) }},
		{"created[gte]", func(t int64) { p.from = max(p.from, t) }},
		{"created[lt]", func(t int64) { p.to = min(p.to, t-1) }},
		{"created[lte]", func(t int64) { p.to = min(p.to, t) }},
	} {
		t, has, bad := r.params.integer(b.name)
		if bad != nil {
			return p, bad
		}
		if has {
			b.set(t)
		}
	}
	p.after, p.before = r.params.text("starting_after"), r.params.text("ending_before")
	if p.after != "" && p.before != "" {
		return p, badParameter("parameters_exclusive", "starting_after", "You may only specify one of these parameters: starting_after, ending_before.")
	}
	return p, nil
}

// series is a slice of objects in order of creation, seen through three questions.
type series struct {
	kind    string
	length  int
	id      func(int) string
	created func(int) time.Time
	keep    func(int) bool
	view    func(int) any
}

// list pages through a series, newest first.
func (r *request) list(q series) (any, *apiError) {
	p, bad := r.page()
	if bad != nil {
		return nil, bad
	}
	low := sort.Search(q.length, func(i int) bool { return q.created(i).Unix() >= p.from })
	high := sort.Search(q.length, func(i int) bool { return q.created(i).Unix() > p.to })
	position := func(id, param string) (int, *apiError) {
		for i := q.length - 1; i >= 0; i-- {
			if q.id(i) == id {
				return i, nil
			}
		}
		return 0, badParameter("resource_missing", param, "No such %s: '%s'", q.kind, id)
	}
	out := listView{Object: "list", URL: r.path, Data: []any{}}
	if p.before != "" {
		i, bad := position(p.before, "ending_before")
		if bad != nil {
			return nil, bad
		}
		for i = max(i+1, low); i < high; i++ {
			if !q.keep(i) {
				continue
			}
			if out.HasMore = len(out.Data) == p.limit; out.HasMore {
				break
			}
			out.Data = append([]any{q.view(i)}, out.Data...)
		}
		return out, nil
	}
	if p.after != "" {
		i, bad := position(p.after, "starting_after")
		if bad != nil {
			return nil, bad
		}
		high = min(high, i)
	}
	for i := high - 1; i >= low; i-- {
		if !q.keep(i) {
			continue
		}
		if out.HasMore = len(out.Data) == p.limit; out.HasMore {
			break
		}
		out.Data = append(out.Data, q.view(i))
	}
	return out, nil
}

func getIntent(_ *Sim, r *request, id string) (any, *apiError) {
	in, bad := r.begin(id, "expand", "client_secret")
	if bad != nil {
		return nil, bad
	}
	return r.expanded(in), nil
}

func listIntents(_ *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("created", "limit", "starting_after", "ending_before", "customer", "expand"); bad != nil {
		return nil, bad
	}
	if bad := r.expandable("data.latest_charge"); bad != nil {
		return nil, bad
	}
	expand := r.params.hasUnder("expand")
	all, customer := r.account.ordered, r.params.text("customer")
	return r.list(series{
		kind: "payment_intent", length: len(all),
		id:      func(i int) string { return all[i].id },
		created: func(i int) time.Time { return all[i].created },
		keep:    func(i int) bool { return customer == "" || all[i].customer == customer },
		view: func(i int) any {
			v := all[i].view()
			if expand && all[i].charge != nil {
				v.LatestCharge = all[i].charge.view()
			}
			return v
		},
	})
}

func listRefunds(_ *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("created", "limit", "starting_after", "ending_before", "payment_intent", "charge", "expand"); bad != nil {
		return nil, bad
	}
	if bad := r.expandable("data.charge"); bad != nil {
		return nil, bad
	}
	all, intent, charge := r.account.refundBy, r.params.text("payment_intent"), r.params.text("charge")
	return r.list(series{
		kind: "refund", length: len(all),
		id:      func(i int) string { return all[i].id },
		created: func(i int) time.Time { return all[i].created },
		keep: func(i int) bool {
			return (intent == "" || all[i].charge.intent.id == intent) && (charge == "" || all[i].charge.id == charge)
		},
		view: func(i int) any { return r.expandedRefund(all[i], "data.charge") },
	})
}

func listCharges(_ *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("created", "limit", "starting_after", "ending_before", "payment_intent", "customer", "expand"); bad != nil {
		return nil, bad
	}
	all, intent, customer := r.account.chargeBy, r.params.text("payment_intent"), r.params.text("customer")
	return r.list(series{
		kind: "charge", length: len(all),
		id:      func(i int) string { return all[i].id },
		created: func(i int) time.Time { return all[i].created },
		keep: func(i int) bool {
			return (intent == "" || all[i].intent.id == intent) && (customer == "" || all[i].intent.customer == customer)
		},
		view: func(i int) any { return all[i].view() },
	})
}
