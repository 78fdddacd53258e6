package operator

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// reviewCard is one review with what may be done about it.
type reviewCard struct {
	Review     view.Review
	AssignedTo string
	Gateway    string
	Orphan     *sqlcgen.OrphanPayment
	Forms      []decisionForm
	Proposal   *proposalCard
	Refused    string // why the last decision of this form was refused; "" = it was not
}

// decisionForm asks for exactly what one decision needs.
type decisionForm struct {
	Kind    order.DecisionKind
	Key     string
	Review  order.ReviewID
	Version int64
	Token   string // the decision's id: sent twice, it is one decision
	Fields  []field
	Second  bool // it waits for a second person
	Open    bool
}

type field struct {
	ID, Name, Label, Form, Value string
	Max                          int
	Required                     bool
}

// proposalCard is what a first person decided.
type proposalCard struct {
	ID         string
	Decision   order.Decision
	Amount     string
	Actor      string
	Claimed    bool
	At         time.Time
	Version    int64
	Token      string
	MayApprove bool
	Hindered   string // why this person may not, as a key
	Typed      string
}

// asks lists the fields of a decision about a review of the reason: the evidence that the rule needs, and what else it says.
func asks(kind order.DecisionKind, about order.ReviewReason) []field {
	var out []field
	switch kind {
	case order.DecideRefund:
		out = append(out, field{Name: "amount", Label: "evidence.amount", Form: "text", Max: 30})
	case order.DecideLinkPayment:
		out = append(out, field{Name: "attempt", Label: "evidence.attempt", Form: "text", Max: 100, Required: true})
	}
	reference, proof := kind.Needs(about)
	if reference {
		out = append(out, field{Name: "reference", Label: labelOf(kind, "evidence.reference"), Form: "text", Max: 500, Required: true})
	}
	if proof {
		out = append(out, field{Name: "proof", Label: labelOf(kind, "evidence.proof"), Form: "area", Max: 2000, Required: true})
	}
	return append(out, field{Name: "reason", Label: "evidence.reason", Form: "area", Max: 2000, Required: true})
}

// labelOf says what a decision's evidence is, where there is a word of its own for it.
func labelOf(kind order.DecisionKind, evidence string) string {
	own := map[order.DecisionKind]map[string]string{
		order.DecideConfirmProvided: {"evidence.reference": "evidence.reference.issuance"},
		order.DecideConfirmRefunded: {"evidence.reference": "evidence.reference.refund"},
		order.DecideRecordExternal:  {"evidence.reference": "evidence.reference.external"},
		order.DecideRerunUnit:       {"evidence.proof": "evidence.proof.notprovided"},
		order.DecideLinkPayment:     {"evidence.reference": "evidence.reference.payment", "evidence.proof": "evidence.proof.link"},
	}
	if label := own[kind][evidence]; label != "" {
		return label
	}
	return evidence
}

// typed is a form that was refused: what was typed stays.
type typed struct {
	review order.ReviewID
	form   url.Values
	why    string
}

func (o *Operator) cardOf(s *screen, f store.ReviewFile, was *typed) reviewCard {
	r := f.Review
	c := reviewCard{Review: view.ReviewOf(r), AssignedTo: r.AssignedTo, Gateway: r.Gateway, Orphan: f.Orphan}
	if was != nil && was.review == c.Review.ID {
		c.Refused = was.why
	} else {
		was = nil
	}
	if !s.Can() { // a viewer sees what may be done, and no form
		for _, kind := range f.Allowed() {
			c.Forms = append(c.Forms, decisionForm{Kind: kind})
		}
		c.Proposal = o.proposalOf(s, f, nil)
		return c
	}
	for _, kind := range f.Allowed() {
		form := decisionForm{
			Kind: kind, Key: r.ReviewID + "-" + string(kind), Review: c.Review.ID, Version: r.Version, Token: decisionToken(), Second: kind.NeedsSecond() && !o.d.Rules.OnePerson,
		}
		mine := was != nil && was.form.Get("decision") == string(kind) && was.form.Get("approves") == ""
		form.Open = mine
		for _, x := range asks(kind, order.ReviewReason(r.Reason)) {
			x.ID = form.Key + "-" + x.Name
			if mine {
				x.Value = was.form.Get(x.Name)
			}
			form.Fields = append(form.Fields, x)
		}
		c.Forms = append(c.Forms, form)
	}
	c.Proposal = o.proposalOf(s, f, was)
	return c
}

// decisionToken names one rendering of a form. Drawn here, it is stored with the decision.
func decisionToken() string { return "dec_" + rand.Text() }

func (o *Operator) proposalOf(s *screen, f store.ReviewFile, was *typed) *proposalCard {
	p := f.Open()
	if p == nil {
		return nil
	}
	c := &proposalCard{ID: p.DecisionID, Actor: p.Actor, Claimed: p.ActorClaimed, At: p.At, Version: f.Review.Version, Token: decisionToken()}
	if json.Unmarshal(p.Content, &c.Decision) != nil {
		return nil
	}
	if c.Decision.Decision == order.DecideRefund && f.Order != nil {
		c.Amount = s.T("proposal.all")
		if c.Decision.AmountMinor > 0 {
			c.Amount = s.Money(c.Decision.AmountMinor, f.Order.Currency)
		}
	}
	if was != nil && was.form.Get("approves") == c.ID {
		c.Typed = was.form.Get("reason")
	}
	first := order.Actor{Name: p.Actor, Person: p.ActorPerson}
	switch {
	case !s.Approves():
		c.Hindered = "proposal.role"
	case first.Same(actorOf(s)):
		c.Hindered = "proposal.same"
	default:
		c.MayApprove = true
	}
	return c
}

// actorOf is who is logged in, as a decision knows them: two logins of one name are one person.
func actorOf(s *screen) order.Actor {
	return order.Actor{Name: s.Who.Login, Person: s.Who.Name, Role: order.Role(s.Who.Role), Channel: order.ChannelPage, Authenticated: true}
}

// decide hands a form to the rule, and shows what it says.
func (o *Operator) decide(w http.ResponseWriter, r *http.Request, s *screen) {
	form := r.PostForm
	for _, values := range form {
		for i := range values {
			values[i] = clean(values[i])
		}
	}
	id := order.ReviewID(form.Get("review"))
	s.Here = ours(form.Get("here"))
	d, why := o.decisionOf(r, form)
	if why != "" {
		o.decideAgain(w, r, s, &typed{id, form, why})
		return
	}
	res, orderID, err := o.d.Store.Decide(r.Context(), d, actorOf(s), o.d.Door)
	if err != nil {
		o.d.Log.WarnContext(r.Context(), "a decision cannot be stored", "error", err)
		o.refuse(w, s, http.StatusServiceUnavailable, "error.decide")
		return
	}
	if res.Verdict == order.Rejected {
		o.decideAgain(w, r, s, &typed{id, form, res.Why})
		return
	}
	said := "applied"
	switch {
	case res.Verdict == order.Proposed:
		said = "proposed"
	case d.Approves != "":
		said = "approved"
	}
	if orderID != "" && res.Verdict == order.Applied {
		if err := o.d.Look(r.Context(), orderID, id); err != nil {
			o.d.Log.InfoContext(r.Context(), "the order's run is not told of a decision; the sweep will find it", "error", err)
		}
	}
	http.Redirect(w, r, withSaid(s.Here, said), http.StatusSeeOther)
}

// decisionOf reads a form. why says what cannot be read.
func (o *Operator) decisionOf(r *http.Request, form url.Values) (d order.Decision, why string) {
	version, err := strconv.ParseInt(form.Get("version"), 10, 64)
	if err != nil || version < 1 {
		return d, "form_incomplete"
	}
	d = order.Decision{
		ReviewID: order.ReviewID(form.Get("review")), ReviewVersion: version, DecisionID: form.Get("id"), Decision: order.DecisionKind(form.Get("decision")),
		Reason: form.Get("reason"), Evidence: order.Evidence{Reference: form.Get("reference"), Proof: form.Get("proof")},
		AttemptID: order.AttemptID(form.Get("attempt")), Approves: form.Get("approves"),
	}
	if text := form.Get("amount"); text != "" {
		f, err := o.d.Store.ReviewFile(r.Context(), "", d.ReviewID)
		if err != nil || f.Order == nil {
			return d, "amount_out_of_range"
		}
		a, err := money.Parse(text, money.Currency(f.Order.Currency))
		if err != nil || a.Minor < 1 {
			return d, "amount_out_of_range"
		}
		d.AmountMinor = a.Minor
	}
	return d, ""
}

// decideAgain shows the page that the form stood on, as it is now, with the form as it was typed.
func (o *Operator) decideAgain(w http.ResponseWriter, r *http.Request, s *screen, was *typed) {
	f, err := o.d.Store.ReviewFile(r.Context(), "", was.review)
	if err != nil {
		o.refuse(w, s, http.StatusNotFound, "error.review")
		return
	}
	if f.Order == nil {
		o.showReview(w, s, http.StatusConflict, f, was)
		return
	}
	o.showOrder(w, r, s, http.StatusConflict, order.ID(f.Order.OrderID), was)
}

// assign gives a review to the person who asks, or back to everybody.
func (o *Operator) assign(w http.ResponseWriter, r *http.Request, s *screen) {
	a := store.Assignment{Review: order.ReviewID(clean(r.PostForm.Get("review"))), From: clean(r.PostForm.Get("from"))}
	if r.PostForm.Get("free") == "" {
		a.To = s.Who.Login
	}
	said := "taken"
	if a.To == "" {
		said = "freed"
	}
	_, err := o.d.Store.ReviewAssign(r.Context(), a, actorOf(s))
	if err != nil {
		said = refusalWord(err)
		if said == "" {
			o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
			return
		}
	}
	http.Redirect(w, r, withSaid(ours(r.PostForm.Get("to")), said), http.StatusSeeOther)
}

func withSaid(to, said string) string {
	u, err := url.Parse(to)
	if err != nil {
		return "/operator"
	}
	q := u.Query()
	q.Set("said", said)
	return address(u.Path, q)
}

// clean takes what a browser sent as text: no surrounding space, no bytes that are none.
func clean(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return ""
	}
	return text
}
