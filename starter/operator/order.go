package operator

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// The most of each that one page shows; what is left out is counted.
const (
	maxCards      = 10
	maxUnitRows   = 100
	maxOperations = 200
)

// orderPage is one order explained.
type orderPage struct {
	O           view.Order
	Client      string
	TemporalUI  string
	Pages       []providerPage
	Live        string
	Moved       bool // it moved since the page was opened: what its forms rest on is old
	States      []stateCard
	Known       []string
	Unknown     []string
	Cards       []reviewCard
	MoreReviews int
	Refused     string // why a decision was refused whose review is over
	Rest        string // what to say where nothing waits for a person, as a key
	Story       []told
	Units       []view.Unit
	MoreUnits   int
	Operations  []sqlcgen.OperationsByOrderRow
}

type providerPage struct{ Gateway, Address string }

type stateCard struct{ Label, Value, Tone string }

func (o *Operator) order(w http.ResponseWriter, r *http.Request, s *screen) {
	o.showOrder(w, r, s, http.StatusOK, order.ID(clean(r.URL.Query().Get("id"))), nil)
}

func (o *Operator) showOrder(w http.ResponseWriter, r *http.Request, s *screen, status int, id order.ID, was *typed) {
	v, err := o.d.Store.OrderView(r.Context(), "", id)
	switch {
	case fault.IsCode(err, fault.NotFound) || id == "":
		o.refuse(w, s, http.StatusNotFound, "error.order")
		return
	case err != nil:
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	p := orderPage{O: view.OrderOf(v, o.d.Box), Client: v.Head.Order.ClientID, Operations: v.Operations}
	seen := r.URL.Query().Get("seen")
	print := fingerprint(p.O, s.Now.Truncate(time.Minute))
	moved, _, _ := strings.Cut(seen, ".")
	whole := fingerprint(p.O) + "." + print
	if unchanged(w, r, whole) {
		return
	}
	p.Moved = moved != "" && moved != fingerprint(p.O)
	here := address("/operator/order", url.Values{"id": {string(id)}})
	if s.Here == "/operator" {
		s.Here = here
	}
	p.Live = withSeen(here, whole)
	files, more, err := o.openReviews(r, v)
	if err != nil {
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	p.MoreReviews = more
	if was != nil {
		p.Refused = was.why
	}
	for _, f := range files {
		p.Cards = append(p.Cards, o.cardOf(s, f, was))
		if was != nil && was.review == order.ReviewID(f.Review.ReviewID) {
			p.Refused = "" // it stands beside its form
		}
	}
	p.fill(o, s, v, files)
	o.show(w, s, status, "order", p)
}

// openReviews reads the open reviews with their evidence, the first ones of very many.
func (o *Operator) openReviews(r *http.Request, v store.View) (files []store.ReviewFile, more int, err error) {
	for _, row := range v.Reviews {
		if row.Status != "open" {
			continue
		}
		if len(files) == maxCards {
			more++
			continue
		}
		f, err := o.d.Store.ReviewFile(r.Context(), "", order.ReviewID(row.ReviewID))
		if err != nil {
			return nil, 0, err
		}
		if f.Review.Status == "open" {
			files = append(files, f)
		}
	}
	return files, more, nil
}

func (p *orderPage) fill(o *Operator, s *screen, v store.View, files []store.ReviewFile) {
	p.States = []stateCard{
		{"order.promise", "state.order." + string(p.O.States.Order), toneOf(string(p.O.States.Order))},
		{"order.payment", "state.payment." + string(p.O.States.Payment), toneOf(string(p.O.States.Payment))},
		{"order.goods", "state.goods." + string(p.O.States.Fulfillment), toneOf(string(p.O.States.Fulfillment))},
	}
	k := view.KnownOf(p.O)
	p.Known, p.Unknown = s.points(k.Known), s.points(k.Unknown)
	p.Rest = restOf(p.O.States, len(p.Unknown))
	p.Units = p.O.Units
	if len(p.Units) > maxUnitRows {
		p.Units, p.MoreUnits = p.Units[:maxUnitRows], len(p.O.Units)-maxUnitRows
	}
	if len(p.Operations) > maxOperations {
		p.Operations = p.Operations[:maxOperations]
	}
	p.Story = s.story(p.O, files)
	if o.d.TemporalUI != "" {
		p.TemporalUI = strings.TrimSuffix(o.d.TemporalUI, "/") + "/namespaces/" + url.PathEscape(o.d.Namespace) + "/workflows/" + url.PathEscape(order.WorkflowID(p.O.ID))
	}
	for _, a := range v.Attempts {
		page := o.d.PaymentPage(order.Account{Gateway: a.Gateway, Name: a.Account, Environment: a.Environment}, a.ProviderPaymentID)
		if a.ProviderPaymentID != "" && page != "" && !slices.ContainsFunc(p.Pages, func(x providerPage) bool { return x.Address == page }) {
			p.Pages = append(p.Pages, providerPage{a.Gateway, page})
		}
	}
}

// toneOf is the color of a state: good, waiting, doubt or bad. The word says the same: nobody has to see colors.
func toneOf(state string) string {
	switch state {
	case "completed", "paid", "fulfilled":
		return "good"
	case "checking", "unknown", "mismatch", "partly_captured":
		return "doubt"
	case "declined", "refused", "canceled", "expired", "revoked":
		return "bad"
	case "action_needed", "authorized", "in_progress", "open", "partial", "partly_refunded":
		return "waiting"
	}
	return ""
}

// restOf says why nothing waits for a person.
func restOf(st view.States, unknown int) string {
	switch {
	case unknown > 0:
		return "todo.looking"
	case st.Payment == view.PaymentActionNeeded:
		return "todo.buyer"
	case st.Payment == view.PaymentAuthorized:
		return "todo.hold"
	case st.Order == order.OrderPaid:
		return "todo.goeson"
	}
	return "todo.nothing"
}

// points are sentences in the reader's language.
func (s *screen) points(ps []view.Point) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		args := make([]any, len(p.Args))
		for j, a := range p.Args {
			switch x := a.(type) {
			case time.Time:
				a = s.Time(x)
			case string:
				if p.Word == view.PointAttemptUnknown || p.Word == view.PointUnitUnknown || p.Word == view.PointRefundUnknown || p.Word == view.PointAttemptClosed {
					a = s.Word("outcome", x)
				}
			}
			args[j] = a
		}
		out[i] = s.T("point."+p.Word, args...)
	}
	return out
}

type reviewPage struct {
	Card  reviewCard
	Story []told
}

// review shows a review that has no order; one that has is a part of its order's page.
func (o *Operator) review(w http.ResponseWriter, r *http.Request, s *screen) {
	f, err := o.d.Store.ReviewFile(r.Context(), "", order.ReviewID(clean(r.URL.Query().Get("id"))))
	switch {
	case fault.IsCode(err, fault.NotFound):
		o.refuse(w, s, http.StatusNotFound, "error.review")
	case err != nil:
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
	case f.Order != nil:
		http.Redirect(w, r, address("/operator/order", url.Values{"id": {f.Order.OrderID}})+"#"+f.Review.ReviewID, http.StatusSeeOther)
	default:
		o.showReview(w, s, http.StatusOK, f, nil)
	}
}

func (o *Operator) showReview(w http.ResponseWriter, s *screen, status int, f store.ReviewFile, was *typed) {
	p := reviewPage{Card: o.cardOf(s, f, was)}
	for _, d := range f.Decisions {
		p.Story = append(p.Story, s.decided(d))
	}
	p.Story = append(p.Story, s.acts(f)...)
	slices.SortStableFunc(p.Story, func(a, b told) int { return a.At.Compare(b.At) })
	o.show(w, s, status, "review", p)
}

// refusalWord is the word of what the store refused, "" for what is no refusal.
func refusalWord(err error) string {
	switch f := fault.As(err); f.Why {
	case "assigned_elsewhere", "review_closed", "role_too_low":
		return f.Why
	}
	if fault.IsCode(err, fault.NotFound) {
		return "review_closed"
	}
	return ""
}
