package stripesim

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// snapshot is an older state of an intent, for an index that lags.
type snapshot struct {
	until time.Time // the state held until then
	view  intentView
}

// remember keeps the state that is about to change, so that a lagging search can still show it.
func (s *Sim) remember(in *intent) {
	lag := s.settings.SearchLag
	if lag <= 0 {
		in.past = nil
		return
	}
	in.past = append(in.past, snapshot{until: s.cfg.Now(), view: in.view()})
}

// indexed is what the search index knows of an intent: its state one lag ago; false if it did not exist then.
func (in *intent) indexed(now time.Time, lag time.Duration) (intentView, bool) {
	at := now.Add(-lag)
	if in.created.After(at) {
		return intentView{}, false
	}
	for _, old := range in.past {
		if old.until.After(at) {
			return old.view, true
		}
	}
	return in.view(), true
}

type searchView struct {
	Object   string  `json:"object"`
	URL      string  `json:"url"`
	HasMore  bool    `json:"has_more"`
	NextPage *string `json:"next_page"`
	Data     []any   `json:"data"`
}

func searchIntents(s *Sim, r *request, _ string) (any, *apiError) {
	if bad := r.params.known("query", "limit", "page", "expand"); bad != nil {
		return nil, bad
	}
	if r.params.text("query") == "" {
		return nil, missing("query")
	}
	terms, bad := parseQuery(r.params.text("query"))
	if bad != nil {
		return nil, bad
	}
	limit, has, bad := r.params.integer("limit")
	if bad != nil || limit < 0 || limit > 100 {
		return nil, badParameter("parameter_invalid_integer", "limit", "limit must be between 1 and 100.")
	}
	if !has {
		limit = 10
	}
	skip := 0
	if p := r.params.text("page"); p != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(p, "page_"))
		if err != nil || n < 0 {
			return nil, badParameter("", "page", "Invalid page.")
		}
		skip = n
	}
	out := searchView{Object: "search_result", URL: r.path, Data: []any{}}
	all, found := r.account.ordered, 0
	for i := len(all) - 1; i >= 0; i-- {
		v, ok := all[i].indexed(r.now, s.settings.SearchLag)
		if !ok || !terms.match(v) {
			continue
		}
		if found++; found <= skip {
			continue
		}
		if len(out.Data) == int(limit) {
			next := "page_" + strconv.Itoa(skip+int(limit))
			out.HasMore, out.NextPage = true, &next
			break
		}
		out.Data = append(out.Data, v)
	}
	return out, nil
}

type term struct{ field, key, value string }

type terms []term

var termShape = regexp.MustCompile(`^\s*(?:metadata\[(['"])([^'"]+)['"]\]|(status|currency|amount))\s*:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\d+))\s*(?:(AND)\s+|$)`)

// parseQuery understands terms joined by AND: metadata['k']:'v', status:'…', currency:'…', amount:….
func parseQuery(q string) (terms, *apiError) {
	var out terms
	for more := true; more; {
		m := termShape.FindStringSubmatch(q)
		if m == nil {
			return nil, badParameter("", "query", "We were unable to parse your search query: the sandbox understands metadata['key'], status, currency and amount, with ':' and AND.")
		}
		field, value := m[3], m[4]+m[5]+m[6]
		if m[2] != "" {
			field = "metadata"
		}
		out = append(out, term{field: field, key: m[2], value: strings.NewReplacer(`\'`, `'`, `\"`, `"`, `\\`, `\`).Replace(value)})
		q, more = q[len(m[0]):], m[7] != ""
	}
	return out, nil
}

func (t terms) match(v intentView) bool {
	for _, x := range t {
		var have string
		switch x.field {
		case "metadata":
			have = v.Metadata[x.key]
		case "status":
			have = v.Status
		case "currency":
			have = v.Currency
		case "amount":
			have = strconv.FormatInt(v.Amount, 10)
		}
		if !strings.EqualFold(have, x.value) {
			return false
		}
	}
	return true
}
