package api

import (
	"context"
	"fmt"
	"time"

	"orderflow/gateways"
	"orderflow/internal/cleantext"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// What a payment request says of when the money is taken.
const (
	captureNow   = "now"
	captureLater = "later"
)

// CaptureRequest asks for the money that the buyer's bank holds.
type CaptureRequest struct {
	Amount *int64 `json:"amount,omitempty" doc:"minor units; left out, all that is held. What is not captured is released, and a part of the price pays for nothing: the order stays open and a person gets it"`
}

type captureInput struct {
	ID   string `path:"id"`
	Body CaptureRequest
}

// captureOrder has held money captured. It is captured once: who asks again, by whatever key, gets what became of it.
func (a *API) captureOrder(ctx context.Context, in *captureInput) (*payOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "")
	}
	caller, id := callerOf(ctx), order.ID(in.ID)
	if _, err := a.d.Store.OrderOwned(ctx, caller.Client, id); err != nil {
		return nil, a.failure(ctx, err)
	}
	if n := in.Body.Amount; n != nil && (*n <= 0 || *n > order.MaxMinor) {
		return nil, problem(typeValidation, "", FieldError{"body.amount", fmt.Sprintf("must be between 1 and %d; leave it out to capture all that is held", int64(order.MaxMinor))})
	}
	d, err := a.planCapture(ctx, caller.Client, id, in.Body)
	if p := problemOf(err); p != nil {
		return nil, p // refused by its form: the key is not claimed
	}
	if err == nil {
		subject, err := idempotency.From(ctx).Begin(ctx, func() string { return string(d.Attempt) })
		if err != nil {
			return nil, err
		}
		if subject != string(d.Attempt) { // it asked for what an earlier attempt held: that is answered, and this one is not touched
			return a.paymentAnswer(ctx, caller.Client, sqlcgen.PaymentAttempt{OrderID: in.ID, AttemptID: subject})
		}
	}
	at, err := a.openCapture(ctx, d, in.Body, err)
	if err != nil {
		return nil, a.captureProblem(ctx, caller.Client, id, err)
	}
	a.driveCapture(ctx, at)
	return a.paymentAnswer(ctx, caller.Client, at)
}

// planCapture chooses what is captured and freezes what will be sent. It has no effect. What cannot be captured as it stands is left to
// the store to refuse, which judges the row it holds.
func (a *API) planCapture(ctx context.Context, client order.ClientID, id order.ID, b CaptureRequest) (store.CaptureDraft, error) {
	at, err := a.d.Store.Unclosed(ctx, client, id)
	if fault.IsCode(err, fault.NotFound) {
		err = fault.Reject("nothing_held", "plan capture")
	}
	if err != nil {
		return store.CaptureDraft{}, err
	}
	d := store.CaptureDraft{OrderID: id, Client: client, Attempt: order.AttemptID(at.AttemptID), Minor: min(at.HeldMinor, at.AmountMinor), Held: at.HeldMinor}
	if at.CaptureMinor > 0 {
		d.Minor = at.CaptureMinor
	}
	if b.Amount != nil {
		d.Minor = *b.Amount
	}
	if at.CaptureMinor > 0 || at.Status != string(order.AttemptPending) || d.Minor <= 0 || d.Minor > at.HeldMinor {
		return d, nil
	}
	gw := a.d.Gateways[order.Account{Gateway: at.Gateway, Name: at.Account, Environment: at.Environment}]
	taker, ok := gw.(gateways.Capturer)
	if !ok {
		return d, problem(typePaymentForm, "The payment's account is not configured to capture what a bank holds; nothing was sent.")
	}
	currency := money.Currency(at.Currency)
	planned, err := taker.PlanCapture(at.ProviderPaymentID, money.Amount{Minor: d.Minor, Currency: currency}, money.Amount{Minor: at.HeldMinor, Currency: currency})
	if fault.IsCode(err, fault.PaymentInvalid) {
		return d, problem(typePaymentForm, sayable(err))
	}
	if err != nil {
		return d, err
	}
	op := order.NewOperationID()
	d.Operation = store.OperationDraft{
		ID: op, Kind: string(planned.Kind), Sealed: a.d.Box.Seal(planned.Request, order.OperationPlace(op)), Fingerprint: a.d.Box.Fingerprint(planned.Request),
	}
	return d, nil
}

// openCapture stores the capture, planning it anew where the provider said meanwhile that another sum is held.
func (a *API) openCapture(ctx context.Context, d store.CaptureDraft, b CaptureRequest, err error) (sqlcgen.PaymentAttempt, error) {
	for range mostPlans {
		if err != nil {
			return sqlcgen.PaymentAttempt{}, err
		}
		var at sqlcgen.PaymentAttempt
		at, err = a.d.Store.CaptureOpen(ctx, d)
		if rejection(err) != "held_moved" {
			return at, err
		}
		of := d.Attempt
		if d, err = a.planCapture(ctx, d.Client, d.OrderID, b); err == nil && d.Attempt != of {
			err = fault.Reject("nothing_held", "plan capture")
		}
	}
	return sqlcgen.PaymentAttempt{}, err
}

// captureProblem answers money that may not be captured, with what stands in its way.
func (a *API) captureProblem(ctx context.Context, client order.ClientID, id order.ID, err error) error {
	p := problemOf(err)
	if p == nil {
		switch rejection(err) {
		case "nothing_held":
			p = problem(typeNothingHeld, "")
		case "capture_differs":
			p = problem(typeCaptured, "")
		case "more_than_held":
			p = problem(typeValidation, "", FieldError{"body.amount", "is more than what is held; payment.held says how much is"})
		case "already_paid", "order_expired", "order_canceled", "order_canceling":
			return a.openProblem(ctx, client, id, err)
		case "held_moved":
			p = problem(typeChanged, "").after(time.Second)
		default:
			return a.failure(ctx, err)
		}
	}
	a.standing(ctx, client, id, p)
	if rejection(err) == "nothing_held" && p.Payment != nil && p.Payment.ClosedAt == nil {
		p = p.after(waitHint) // it may be held in a moment
	}
	return p
}

// driveCapture has a capture that may still be on its way worked on, for as long as the answer may take. What became of it is asked of
// PostgreSQL, whatever the engine says or does not say.
func (a *API) driveCapture(ctx context.Context, at sqlcgen.PaymentAttempt) {
	switch order.Status(at.Status) {
	case order.AttemptPending, order.AttemptUnknown:
	default:
		return
	}
	within, cancel := context.WithTimeout(ctx, a.d.AnswerBudget)
	defer cancel()
	if err := a.d.Engine.Capture(within, order.ID(at.OrderID), order.AttemptID(at.AttemptID)); err != nil {
		a.d.Log.InfoContext(ctx, "no outcome within the answer budget", "attempt", at.AttemptID, "error_type", errorType(err))
	}
}
