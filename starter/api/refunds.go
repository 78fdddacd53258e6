package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/internal/cleantext"
	"orderflow/internal/door"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// refundReasons are the words a refund may give as its reason. Free text would be the buyer's.
var refundReasons = []string{"requested_by_buyer", "not_provided", "defective", "duplicate", "fraud", "price_correction", "goodwill", "other"}

// RefundRequest is one try to give money back.
type RefundRequest struct {
	Amount    *int64          `json:"amount,omitempty" doc:"minor units; left out, all that is left"`
	Reason    string          `json:"reason" doc:"requested_by_buyer, not_provided, defective, duplicate, fraud, price_correction, goodwill or other"`
	AttemptID order.AttemptID `json:"attempt_id,omitempty" doc:"whose money goes back; needed only where an order holds several payments"`
	Payout    *PayoutRequest  `json:"payout,omitempty" doc:"the buyer's bank account, for a deposit that cannot go back the way it came; stored encrypted and never shown"`
}

// PayoutRequest is the buyer's bank account.
type PayoutRequest struct {
	Bank    string `json:"bank" doc:"the provider's code of the bank"`
	Account string `json:"account"`
	Holder  string `json:"holder"`
}

type refundInput struct {
	ID   string `path:"id"`
	Body RefundRequest
}

// RefundView is a refund with the order it belongs to.
type RefundView struct {
	view.Refund
	Order view.Summary `json:"order"`
}

type refundOutput struct {
	Status     int
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	Body       RefundView
}

// mostPlans bounds how often a refund is planned anew because other refunds came in between.
const mostPlans = 10

func (a *API) refundOrder(ctx context.Context, in *refundInput) (*refundOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "")
	}
	caller, id, b := callerOf(ctx), order.ID(in.ID), in.Body
	paid, err := a.d.Store.Refundables(ctx, caller.Client, id)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	if p := b.check(); p != nil {
		return nil, p
	}
	plan, err := a.planRefund(ctx, b, paid)
	switch p := problemOf(err); {
	case p != nil && p.Status == http.StatusUnprocessableEntity: // refused by its form: the key is not claimed
		return nil, p
	case err != nil && p == nil:
		return nil, a.failure(ctx, err)
	}
	g := idempotency.From(ctx)
	subject, kerr := g.Begin(ctx, func() string { return string(order.NewRefundID()) })
	if kerr != nil {
		return nil, kerr
	}
	r, stood, kerr := a.refundBefore(ctx, caller.Client, g.Key(), id, b)
	switch {
	case kerr != nil:
		return nil, kerr
	case !stood:
		d := store.RefundDraft{ID: order.RefundID(subject), OrderID: id, Client: caller.Client, CallerKey: g.Key(), Reason: b.Reason}
		if r, err = a.openPlanned(ctx, b, d, plan, err); err != nil {
			return nil, a.refundProblem(ctx, caller.Client, id, err)
		}
	}
	a.driveRefund(ctx, r)
	return a.refundAnswer(ctx, caller.Client, r)
}

// openPlanned stores the refund, planning it anew where other refunds came in between.
func (a *API) openPlanned(ctx context.Context, b RefundRequest, d store.RefundDraft, plan door.Frozen, err error) (sqlcgen.Refund, error) {
	for range mostPlans {
		if err != nil {
			break
		}
		var opened store.RefundOpened
		opened, err = a.d.Store.RefundOpen(ctx, plan.Into(a.d.Box, d))
		switch {
		case err == nil:
			return opened.Refund, nil
		case rejection(err) == "more_than_left":
			return sqlcgen.Refund{}, moreThanLeft(opened.LeftMinor)
		case rejection(err) != "left_moved":
			return sqlcgen.Refund{}, err
		}
		var paid []store.Refundable
		if paid, err = a.d.Store.Refundables(ctx, d.Client, d.OrderID); err != nil {
			break
		}
		plan, err = a.planRefund(ctx, b, paid)
	}
	if err == nil {
		err = fault.Reject("left_moved", "open refund")
	}
	return sqlcgen.Refund{}, err
}

func problemOf(err error) *Problem {
	var p *Problem
	errors.As(err, &p)
	return p
}

// check is what can be said of a request by itself.
func (b RefundRequest) check() *Problem {
	var errs fieldErrors
	if b.Amount != nil && (*b.Amount <= 0 || *b.Amount > order.MaxMinor) {
		errs.add("body.amount", fmt.Sprintf("must be between 1 and %d; leave it out to give back all that is left", int64(order.MaxMinor)))
	}
	if !slices.Contains(refundReasons, b.Reason) {
		errs.add("body.reason", "must be one of "+strings.Join(refundReasons, ", "))
	}
	errs.text("body.attempt_id", string(b.AttemptID), 64)
	if p := b.Payout; p != nil {
		for at, s := range map[string]string{"body.payout.bank": p.Bank, "body.payout.account": p.Account, "body.payout.holder": p.Holder} {
			if s == "" {
				errs.add(at, "is missing; a bank account has all three")
			}
			errs.text(at, s, order.MaxText)
		}
		errs.number("body.payout.account", p.Account)
		errs.number("body.payout.holder", p.Holder)
	}
	if len(errs.list) > 0 {
		return problem(typeValidation, "", errs.list...)
	}
	return nil
}

// planRefund chooses the payment and freezes what will be sent. It has no effect. Its error is a problem, or a fault of ours.
func (a *API) planRefund(ctx context.Context, b RefundRequest, paid []store.Refundable) (door.Frozen, error) {
	p, why := choosePayment(b, paid)
	if why != nil {
		return door.Frozen{}, why
	}
	amount := money.Amount{Minor: p.LeftMinor, Currency: money.Currency(p.Payment.Currency)}
	if b.Amount != nil {
		amount.Minor = *b.Amount
	}
	switch {
	case p.Disputed:
		return door.Frozen{}, problem(typeDisputed, "")
	case amount.Minor > p.LeftMinor, p.LeftMinor == 0:
		return door.Frozen{}, moreThanLeft(p.LeftMinor)
	}
	at, err := a.d.Store.Attempt(ctx, p.Attempt)
	if err != nil {
		return door.Frozen{}, err
	}
	var payout gateways.Payout
	if w := b.Payout; w != nil {
		payout = gateways.Payout{Bank: w.Bank, Account: w.Account, Holder: w.Holder}
	}
	f, err := door.Freeze(a.d.Box, a.d.Gateways, store.RefundPlan{Attempt: at, Payment: p.Payment, Amount: amount, Left: p.LeftMinor}, payout)
	switch {
	case fault.IsCode(err, fault.GatewayMisconfigured) && fault.As(err).Why != "":
		return f, problem(typeRefundForm, "The payment's account is not configured to give money back; nothing was sent.")
	case fault.IsCode(err, fault.PaymentInvalid):
		return f, problem(typeRefundForm, sayable(err, payout.Bank, payout.Account, payout.Holder))
	}
	return f, err
}

// choosePayment finds whose money goes back. Where an order holds several payments, money is never chosen by guessing.
func choosePayment(b RefundRequest, paid []store.Refundable) (store.Refundable, error) {
	var left []store.Refundable
	for _, p := range paid {
		switch {
		case p.Attempt == b.AttemptID:
			return p, nil
		case b.AttemptID == "" && p.Payment.CapturedMinor > 0:
			left = append(left, p)
		}
	}
	switch {
	case b.AttemptID != "" && len(paid) > 0:
		return store.Refundable{}, problem(typeValidation, "", FieldError{"body.attempt_id", "is no paid attempt of this order"})
	case len(left) == 0:
		return store.Refundable{}, problem(typeNothingPaid, "")
	case len(left) > 1:
		return store.Refundable{}, problem(typeValidation, "", FieldError{"body.attempt_id", "is needed: this order holds several payments"})
	}
	return left[0], nil
}

func moreThanLeft(left int64) *Problem {
	p := problem(typeMoreThanLeft, "")
	p.Left = &left
	return p
}

// refundBefore finds the refund that the caller's key made before, whatever has become of it.
func (a *API) refundBefore(ctx context.Context, client order.ClientID, key string, id order.ID, b RefundRequest) (sqlcgen.Refund, bool, error) {
	r, err := a.d.Store.RefundByCallerKey(ctx, client, key)
	switch {
	case fault.IsCode(err, fault.NotFound):
		return r, false, nil
	case err != nil:
		return r, false, a.failure(ctx, err)
	case r.OrderID != string(id), r.Reason != b.Reason, b.Amount != nil && *b.Amount != r.AmountMinor, b.AttemptID != "" && string(b.AttemptID) != r.AttemptID:
		return r, false, problem(typeKeyReused, "")
	}
	return r, true, nil
}

// refundProblem answers a refund that may not be opened.
func (a *API) refundProblem(ctx context.Context, client order.ClientID, id order.ID, err error) error {
	p := problemOf(err)
	if p == nil {
		switch rejection(err) {
		case "nothing_captured":
			p = problem(typeNothingPaid, "")
		case "refund_disputed", "money_taken_back":
			p = problem(typeDisputed, "")
		case "key_bound_elsewhere":
			return problem(typeKeyReused, "")
		case "left_moved", "currency_differs":
			return problem(typeChanged, "").after(time.Second)
		default:
			return a.failure(ctx, err)
		}
	}
	if h, err := a.d.Store.OrderHead(ctx, client, id); err == nil {
		s := view.SummaryOf(h)
		p.Order = &s
	}
	return p
}

// driveRefund has a refund that may still be on its way worked on, for as long as the answer may take. What became of it is asked
// of PostgreSQL, whatever the engine says or does not say.
func (a *API) driveRefund(ctx context.Context, r sqlcgen.Refund) {
	if view.RefundOutcomeOf(order.Status(r.Status)) != "checking" {
		return
	}
	within, cancel := context.WithTimeout(ctx, a.d.AnswerBudget)
	defer cancel()
	if err := a.d.Engine.Refund(within, order.ID(r.OrderID), order.RefundID(r.RefundID)); err != nil {
		a.d.Log.InfoContext(ctx, "no outcome within the answer budget", "refund", r.RefundID, "error_type", errorType(err))
	}
}

func (a *API) refundAnswer(ctx context.Context, client order.ClientID, r sqlcgen.Refund) (*refundOutput, error) {
	now, err := a.d.Store.Refund(ctx, client, order.RefundID(r.RefundID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	h, err := a.d.Store.OrderHead(ctx, client, order.ID(r.OrderID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	out := &refundOutput{Status: http.StatusCreated, Location: orderPath(order.ID(r.OrderID)), Body: RefundView{view.RefundOf(now), view.SummaryOf(h)}}
	if out.Body.Outcome == "checking" {
		out.Status, out.RetryAfter = http.StatusAccepted, strconv.Itoa(int(waitHint/time.Second))
	}
	return out, nil
}
