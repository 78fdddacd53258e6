package twoctwop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// refundMargin is how far 2C2P's clock may be behind ours when a refund is looked for by the time it was sent.
const refundMargin = 5 * time.Minute

var refundReference = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// frozenRefund is a stored refund. What goes out is made of it, encrypted and signed anew; our reference stays with us,
// since 2C2P has no place for it.
type frozenRefund struct {
	InvoiceNo string         `json:"invoiceNo"`
	Minor     int64          `json:"minor"`
	Currency  money.Currency `json:"currency"`
	Reference string         `json:"reference"`
}

// PlanRefund freezes a refund. 2C2P guards nothing: a repeated partial refund gives the money back twice, so it is sent
// once, ever.
func (g *Gateway) PlanRefund(r gateways.GiveBack) (gateways.Planned, error) {
	if err := g.validRefund(r); err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "twoctwop plan refund", err)
	}
	frozen, err := json.Marshal(frozenRefund{r.ProviderPaymentID, r.Amount.Minor, r.Amount.Currency, r.Reference})
	if err != nil {
		return gateways.Planned{}, fault.Wrap(fault.InternalError, "twoctwop plan refund", errFrozen)
	}
	return gateways.Planned{Kind: gateways.Refund, Request: frozen}, nil
}

func (g *Gateway) validRefund(r gateways.GiveBack) error {
	if _, err := wireAmount(r.Amount); err != nil {
		return err
	}
	switch {
	case g.maintenance == nil:
		return errors.New("refunds go through the maintenance API, which is not configured: set TWOCTWOP_PRIVATE_KEY and TWOCTWOP_PROVIDER_KEY")
	case !invoiceShape.MatchString(r.ProviderPaymentID):
		return errors.New("the provider payment id is not an invoice number: 1 to 50 letters and digits")
	case !refundReference.MatchString(r.Reference):
		return errors.New("the refund's reference must be 1 to 100 letters, digits, dots, - and _")
	case r.Amount.Minor <= 0:
		return errors.New("the amount must be above zero")
	case r.Amount.Currency != r.Left.Currency:
		return errors.New("the amount and what is left must be of one currency")
	case r.Amount.Minor > r.Left.Minor:
		return errors.New("the amount must be at most what is left of the payment")
	case r.Whole && r.Amount != r.Left:
		return errors.New("a refund of everything must give back all that is left")
	case r.Payout != (gateways.Payout{}):
		return errors.New("a bank account must be left out: 2C2P gives money back the way it came")
	}
	return nil
}

// SendRefund puts one frozen refund on the wire, once. "00" says that 2C2P took it on; its status is the payment's and not
// the refund's, so the outcome is pending until a lookup reads the list of refunds.
func (g *Gateway) SendRefund(ctx context.Context, op gateways.Operation) (gateways.RefundSeen, error) {
	var frozen frozenRefund
	d := json.NewDecoder(bytes.NewReader(op.Request))
	d.DisallowUnknownFields()
	amount := func() money.Amount { return money.Amount{Minor: frozen.Minor, Currency: frozen.Currency} }
	if d.Decode(&frozen) != nil || frozen.InvoiceNo != op.ProviderPaymentID || !invoiceShape.MatchString(frozen.InvoiceNo) ||
		frozen.Minor <= 0 || g.maintenance == nil {
		return gateways.RefundSeen{}, unanswered(gateways.Refund, errFrozen)
	}
	a, err := g.Maintain(ctx, Action{Key: op.Key, Process: Refund, InvoiceNo: frozen.InvoiceNo, Amount: amount()})
	if err != nil {
		return gateways.RefundSeen{}, err
	}
	// The answer names the payment alone; it belongs to this request, since Maintain refuses one about another payment.
	return gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: a.InvoiceNo, Outcome: gateways.Pending, Status: a.Status,
		Currency: frozen.Currency, AmountMinor: frozen.Minor, RefundedMinor: -1, Code: a.Code, ProviderTime: a.ProviderTime,
	}, nil
}

// LookupRefund reads the payment's list of refunds. 2C2P keeps no reference of ours, so a refund whose own reference was
// never learnt is told by its amount and its time: one entry that is no other refund of our books is ours, and of several
// a person decides. Where the list cannot be had, the payment's own status tells of a refund of everything.
func (g *Gateway) LookupRefund(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	_, err := q.Amount.Currency.Exponent()
	if g.maintenance == nil || err != nil || q.Amount.Minor <= 0 || !invoiceShape.MatchString(q.ProviderPaymentID) {
		return gateways.RefundSeen{}, fault.Wrap(fault.InternalError, opName(read),
			errors.New("a lookup of a refund needs the maintenance API, the invoice number and the refund's amount"))
	}
	ctx, done := context.WithTimeout(ctx, g.timeout) // of both reads
	defer done()
	a, listed, err := g.refundsOf(ctx, q.ProviderPaymentID, q.Amount.Currency)
	if err != nil {
		return gateways.RefundSeen{}, err
	}
	seen := gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: a.InvoiceNo, RefundID: q.RefundID, Outcome: gateways.NotFound, Status: a.Status,
		Currency: q.Amount.Currency, RefundedMinor: -1,
	}
	if !listed || len(a.Refunds) == 0 {
		return byStatus(seen, q, a, listed)
	}
	return g.inList(seen, q, a)
}

// outcomeOf is what a state says about a refund.
func outcomeOf(s State) gateways.Outcome {
	switch s {
	case StateRefunded:
		return gateways.Succeeded
	case StateRefunding:
		return gateways.Pending
	case StateRefundFailed, StateRefundRefused:
		return gateways.Declined
	}
	return gateways.Unknown
}

// byStatus reads the payment's own status. It says that something went back and not how much, so it tells of a refund of
// everything alone, and only where no other refund is known. Of the others it tells nothing, whatever it is: where there is no list
// either, waiting would not help and a person reads the portal.
func byStatus(seen gateways.RefundSeen, q gateways.RefundQuery, a MaintenanceAnswer, listed bool) (gateways.RefundSeen, error) {
	outcome := outcomeOf(a.State)
	alone := len(q.Known) == 0 && a.AmountMinor == q.Amount.Minor
	switch {
	case !listed && !alone && outcome != gateways.Pending:
		return gateways.RefundSeen{}, forAPerson("no_refund_list", a.Status)
	case outcome == gateways.Unknown:
		return seen, nil // no status of a refund: none is shown
	case !alone:
		seen.Outcome, seen.Code = gateways.Unknown, a.Status
		return seen, nil
	}
	seen.Outcome, seen.AmountMinor, seen.ProviderTime = outcome, a.AmountMinor, a.ProviderTime
	return seen, nil
}

// forAPerson is what only the portal tells.
func forAPerson(why, status string) error {
	f := fault.New(fault.PaymentNeedsReview, opName(read))
	f.Why, f.Provider = why, fault.Provider{Name: name, Code: status}
	return f
}

func (g *Gateway) inList(seen gateways.RefundSeen, q gateways.RefundQuery, a MaintenanceAnswer) (gateways.RefundSeen, error) {
	var ours []RefundEntry
	seen.RefundedMinor = 0
	for _, e := range a.Refunds {
		if e.State == StateRefunded {
			seen.RefundedMinor += e.AmountMinor
		}
		if maybeOurs(q, e) {
			ours = append(ours, e)
		}
	}
	switch {
	case len(ours) == 0:
		return seen, nil
	case len(ours) > 1:
		return gateways.RefundSeen{}, forAPerson("refunds_alike", ours[0].Status)
	}
	e := ours[0]
	seen.Outcome, seen.Status, seen.RefundID = outcomeOf(e.State), e.Status, e.ReferenceNo
	seen.AmountMinor, seen.ProviderTime = e.AmountMinor, e.ProviderTime
	if seen.Outcome == gateways.Declined {
		seen.Code = e.Status
	}
	return seen, nil
}

// maybeOurs reports that an entry can be the refund that is asked for.
func maybeOurs(q gateways.RefundQuery, e RefundEntry) bool {
	switch {
	case q.RefundID != "":
		return e.ReferenceNo == q.RefundID
	case e.AmountMinor != q.Amount.Minor, e.ReferenceNo != "" && slices.Contains(q.Known, e.ReferenceNo):
		return false
	}
	return e.ProviderTime.IsZero() || q.Since.IsZero() || !e.ProviderTime.Before(q.Since.Add(-refundMargin))
}
