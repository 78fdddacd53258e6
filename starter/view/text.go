package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
)

// Text explains an order to a person.
func Text(w io.Writer, o Order, now time.Time) error {
	t := &text{w: w}
	t.line("Order %q  %s", o.ID, amount(o.Total, o.Currency))
	t.line("  order        %s", o.States.Order)
	t.line("  payment      %s", o.States.Payment)
	t.line("  fulfillment  %s", o.States.Fulfillment)
	t.line("  buyer sees   %s", o.Buyer.Message)
	if o.Waits != "" {
		t.line("  waits        %s", o.Waits)
	}
	t.line("  made %s, payable until %s", stamp(o.CreatedAt), stamp(o.ExpiresAt))
	t.reviews(o, now)
	t.canceling(o)
	t.money(o)
	t.goods(o)
	if len(o.Deliveries) > 0 {
		t.line("\nEvents")
		for _, d := range o.Deliveries {
			t.line("  %s to %s: %s after %d tries%s  %s", d.Type, d.Receiver, d.Status, d.Tries, because(d.LastCode), d.EventID)
		}
	}
	t.line("\nWhat happened")
	for _, e := range o.History {
		t.line("  %s  %s", stamp(e.At), sentence(e))
	}
	for _, d := range o.Decisions {
		t.line("  %s  %s decided %s on %s: %q (%s)", stamp(d.At), d.Actor, d.Decision, d.ReviewID, d.Reason, d.ID)
		if d.Approver != "" {
			t.line("      and %s, as the second person: %q", d.Approver, d.ApprovalNote)
		}
	}
	return t.err
}

type text struct {
	w   io.Writer
	err error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *text) reviews(o Order, now time.Time) {
	open := 0
	for _, r := range o.Reviews {
		if r.Status != "open" {
			continue
		}
		if open++; open == 1 {
			t.line("\nWaits for a person")
		}
		t.line("  %s  %s%s, open for %s", r.ID, r.Reason, because(r.Code), Age(r.OpenedAt, now))
		t.line("    about      %s %s", r.SubjectKind, r.SubjectID)
		t.line("    means      %s", r.Means)
		t.weigh(o, r)
		t.line("    allowed    %s", join(r.Allowed))
		for _, f := range r.Forbidden {
			t.line("    forbidden  %s", f)
		}
		if r.Paste != nil {
			b, _ := json.Marshal(r.Paste) // strings and a number always marshal
			t.line("    in the Web UI, send the update %s of workflow %s with:", order.UpdateResolveReview, order.WorkflowID(o.ID))
			t.line("      %s", b)
			t.line("    or here: starter decide --review %s --version %d --decision %s --actor NAME --reason WHY [--reference ID] [--proof WORDS]", r.ID, r.Version, r.Allowed[0])
		}
	}
	if open == 0 {
		t.line("\nNothing waits for a person")
	}
}

// weigh puts beside a correction what it has to be weighed against: what is here of the money, and what is out of the goods.
func (t *text) weigh(o Order, r Review) {
	switch r.Reason {
	case order.ReviewCorrection, order.ReviewDispute, order.ReviewDisputeLost, order.ReviewDepositTakenBack, order.ReviewLatePayment, order.ReviewExtraPayment:
	default:
		return
	}
	for _, p := range o.Payments {
		if p.AttemptID == r.SubjectID {
			t.line("    money      captured %s, refunded %s", amount(p.Captured, p.Currency), amount(p.Refunded, p.Currency))
			t.standing(p)
		}
	}
	out := 0
	for _, u := range o.Units {
		if u.Status == order.UnitIssued {
			out++
		}
	}
	t.line("    goods      %d of %d units are provided", out, len(o.Units))
}

func (t *text) money(o Order) {
	t.line("\nMoney")
	if len(o.Attempts) == 0 {
		t.line("  nothing was tried")
	}
	for _, a := range o.Attempts {
		t.line("  attempt %s: %s%s  %s/%s (%s), %s", a.ID, a.Status, because(a.Code), a.Gateway, a.Account, a.Environment, amount(a.Amount, a.Currency))
		t.line("    known to the provider as %s%s", a.MerchantReference, orNothing(", payment ", a.ProviderPaymentID))
		if a.Unreflected {
			t.line("    the provider's last answer is stored and not yet reflected in the order; the step is retried by itself")
		}
	}
	for _, p := range o.Payments {
		fits := ""
		if !p.Matched {
			fits = ", which is not what was asked for"
		}
		t.line("  payment %s: captured %s, refunded %s%s  (%s)", p.ProviderPaymentID, amount(p.Captured, p.Currency), amount(p.Refunded, p.Currency), fits, p.ID)
		if p.Released > 0 {
			t.line("    only a part of what was asked for: %s was never taken and is released; what was taken pays for nothing", amount(p.Released, p.Currency))
		}
		t.standing(p)
	}
	t.refunds(o)
}

// standing tells of money that moved on its own.
func (t *text) standing(p PaymentRow) {
	disputed := amount(p.Disputed, p.Currency)
	switch {
	case p.TakenBack:
		t.line("    the bank has taken this deposit back: nothing of it is here, and the buyer may pay again into the same account")
	case p.Dispute == string(order.DisputeOpen):
		t.line("    the buyer's bank disputes %s of it and may take that back: no refund until it is settled", disputed)
	case p.Dispute == string(order.DisputeLost):
		t.line("    the dispute is lost: the buyer's bank has taken %s back, and no refund may follow", disputed)
	case p.Dispute == string(order.DisputeWon):
		t.line("    a dispute of %s was won: the money stays here", disputed)
	}
}

// maxUnitLines bounds the unit list: the states say the rest.
const maxUnitLines = 50

func (t *text) goods(o Order) {
	t.line("\nGoods")
	for _, l := range o.Lines {
		t.line("  line %d: %d x %s %q, %s%s", l.No, l.Quantity, l.SKU, l.Name, l.Action, orNothing(" by ", l.Issuer))
	}
	for i, u := range o.Units {
		if i == maxUnitLines {
			t.line("  … and %d more units", len(o.Units)-i)
			return
		}
		t.line("  unit %s (line %d, piece %d): %s%s%s%s", u.ID, u.LineNo, u.Ordinal, u.Status, because(u.Code),
			orNothing(", operation ", string(u.OperationID)), orNothing(", issuance ", u.IssuanceID))
	}
}

func sentence(e Event) string {
	if e.Code == "history_cut" {
		return "… (the middle of a long history is left out)"
	}
	if e.Kind == "transition" {
		from := e.From
		if from == "" {
			from = "nothing"
		}
		return fmt.Sprintf("%s %s: %s -> %s (%s%s)", e.Subject, e.SubjectID, from, e.To, e.Trigger, orNothing(" ", e.DecisionID))
	}
	return fmt.Sprintf("%s %s: %s says %s%s%s%s%s%s", e.Subject, e.SubjectID, e.Source, e.Outcome, because(e.Code),
		orNothing(", status ", e.ProviderStatus), orNothing(", payment ", e.ProviderPaymentID), orNothing(", refund ", e.ProviderRefundID), orNothing(", operation ", e.OperationID))
}

func amount(minor int64, currency string) string {
	return money.Amount{Minor: minor, Currency: money.Currency(currency)}.String()
}

func because(code string) string {
	if code == "" {
		return ""
	}
	return " (" + code + ")"
}

func orNothing(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

func join(ds []order.DecisionKind) string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = string(d)
	}
	return strings.Join(out, ", ")
}
