package omisesim

import (
	"slices"
	"time"
)

// series is a slice of objects in order of creation.
type series struct {
	length  int
	created func(int) time.Time
	view    func(int) any
	hidden  func(int) bool // nil = all are shown
}

// list pages through a series. Times are compared in whole seconds, as they are written.
func (r *request) list(q series) (any, *apiError) {
	from, bad := r.params.instant("from", time.Unix(0, 0))
	if bad != nil {
		return nil, bad
	}
	to, bad := r.params.instant("to", r.now)
	if bad != nil {
		return nil, bad
	}
	offset, _, bad := r.params.integer("offset")
	if bad != nil {
		return nil, bad
	}
	limit, given, bad := r.params.integer("limit")
	if bad != nil {
		return nil, bad
	}
	order, bad := r.params.text("order")
	switch {
	case bad != nil:
		return nil, bad
	case !given:
		limit = 20
	}
	if order == "" {
		order = "chronological"
	}
	if offset < 0 || limit < 1 || limit > 100 || !slices.Contains([]string{"chronological", "reverse_chronological"}, order) {
		return nil, badRequest("offset, limit (1 to 100) or order is invalid")
	}
	var within []int
	for i := range q.length {
		at := q.created(i).Truncate(time.Second)
		if !at.Before(from) && !at.After(to) && (q.hidden == nil || !q.hidden(i)) {
			within = append(within, i)
		}
	}
	if order == "reverse_chronological" {
		slices.Reverse(within)
	}
	data := []any{}
	for _, i := range within[min(int(offset), len(within)):min(int(offset+limit), len(within))] {
		data = append(data, q.view(i))
	}
	return map[string]any{
		"object": "list", "from": stamp(from), "to": stamp(to), "offset": offset, "limit": limit, "total": len(within),
		"order": order, "location": r.path, "data": data,
	}, nil
}

// listCharges does not show a charge that is younger than the list's lag.
func listCharges(s *Sim, r *request, _ string) (any, *apiError) {
	all := r.account.ordered
	for _, c := range all {
		s.lapse(r, c)
	}
	return r.list(series{
		length: len(all), created: func(i int) time.Time { return all[i].created },
		view:   func(i int) any { return all[i].view(r.account.live) },
		hidden: func(i int) bool { return s.settings.ListLag > 0 && r.now.Sub(all[i].created) < s.settings.ListLag },
	})
}

func listEvents(_ *Sim, r *request, _ string) (any, *apiError) {
	all := r.account.events
	return r.list(series{
		length: len(all), created: func(i int) time.Time { return all[i].created },
		view: func(i int) any { return all[i].body },
	})
}

func getEvent(_ *Sim, r *request, id string) (any, *apiError) {
	for _, e := range r.account.events {
		if e.id == id {
			return e.body, nil
		}
	}
	return nil, notFound("event", id)
}
