package activities

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/gateways"
	"orderflow/internal/door"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// AttemptInput names the attempt a step works on.
type AttemptInput struct {
	AttemptID order.AttemptID `json:"attempt_id"`
	Bounds    Bounds          `json:"bounds,omitzero"`
}

// PaymentResult is what a step learned. The truth is in the database; this is for the workflow's next move.
type PaymentResult struct {
	Outcome order.Outcome `json:"outcome"`
	Code    string        `json:"code,omitempty"`
}

// ConfirmPayment takes an attempt's outside writes as far as they go now: it sends what was never sent, and looks before it
// repeats what was (rules 1 and 2). Every answer is stored before it returns. An outcome that is not known is an ordinary
// result here; ResolvePayment goes on with it.
func (a *Activities) ConfirmPayment(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	r, err := a.advance(ctx, in.AttemptID, true)
	if f := fault.As(err); f != nil && settlesLater(f) {
		return PaymentResult{Outcome: order.Unknown, Code: string(f.Code)}, nil
	}
	return r, Fail(ctx, err, in.Bounds)
}

// settlesLater tells faults of the other side from faults of ours: the first are looked into, the second run again.
func settlesLater(f *fault.Error) bool {
	switch f.Code {
	case fault.DatabaseUnavailable, fault.DatabaseContention, fault.ConstraintViolated, fault.VersionMoved, fault.InternalError, fault.NotFound, fault.Refused:
		return false
	}
	return true
}

// ResolvePayment looks an unknown outcome up, and repeats the stored request where the provider's guard holds. It fails with
// the code of what is missing until there is an answer; the table and the bounds say how often it is asked.
func (a *Activities) ResolvePayment(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	r, err := a.advance(ctx, in.AttemptID, true)
	return r, Fail(ctx, r.known(err, "resolve payment"), in.Bounds)
}

// known turns an outcome that is still unknown into the fault under whose code it is asked for again.
func (r PaymentResult) known(err error, op string) error {
	if err != nil || r.Outcome != order.Unknown {
		return err
	}
	code := fault.Code(r.Code)
	if code == "" {
		code = fault.PaymentUnknown
	}
	return fault.New(code, op)
}

// LookPayment asks the provider for the current state of a payment, whatever we believe, and sends nothing.
func (a *Activities) LookPayment(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	t, err := a.open(ctx, in.AttemptID)
	if err != nil {
		return PaymentResult{}, Fail(ctx, err, in.Bounds)
	}
	r, err := t.lookAfresh(ctx)
	if err == nil && r.Outcome == order.Pending && t.overdue() {
		r, err = a.closeAttempt(ctx, in.AttemptID) // its deadline has passed, and not every provider says so by itself
	}
	return r, Fail(ctx, err, in.Bounds)
}

// CloseAttempt makes sure that a declined attempt can capture nothing any more, so that another may be opened (rule 4).
func (a *Activities) CloseAttempt(ctx context.Context, in AttemptInput) (PaymentResult, error) {
	defer alive(ctx)()
	r, err := a.closeAttempt(ctx, in.AttemptID)
	return r, Fail(ctx, err, in.Bounds)
}

func (a *Activities) closeAttempt(ctx context.Context, id order.AttemptID) (PaymentResult, error) {
	t, err := a.open(ctx, id)
	if err != nil {
		return PaymentResult{}, err
	}
	_, ok := t.gw.(gateways.Canceler)
	pending := t.att.Status == string(order.AttemptPending)
	if pending && (!ok || !t.overdue()) {
		return PaymentResult{Outcome: order.Pending}, nil
	}
	if !ok || (!pending && t.att.Status != string(order.AttemptDeclined)) {
		return PaymentResult{Outcome: order.Declined}, nil
	}
	if t, err = a.withCancel(ctx, t); err != nil {
		return PaymentResult{}, err
	}
	r, err := t.perform(ctx, *t.operation(gateways.Cancel), true)
	if err == nil && r.Outcome == order.Unknown {
		return r, fault.New(fault.PaymentUnknown, "close attempt")
	}
	return r, err
}

// overdue reports that the buyer of a pending payment can no longer be expected to act. Where the bank holds the money the buyer has
// acted, and it is the merchant's turn.
func (t *try) overdue() bool {
	return t.att.HeldMinor == 0 && t.att.DueAt != nil && time.Now().After(t.att.DueAt.Add(store.DueGrace))
}

// advance performs prepare and confirm, in order, each at most once unless a repeat is safe.
func (a *Activities) advance(ctx context.Context, id order.AttemptID, maySend bool) (PaymentResult, error) {
	t, err := a.open(ctx, id)
	if err != nil {
		return PaymentResult{}, err
	}
	if c := t.operation(gateways.Capture); c != nil && c.Sends > 0 && c.FinishedAt == nil {
		return t.perform(ctx, *c, maySend) // confirmed long ago: what is in doubt is the capture
	}
	r := PaymentResult{Outcome: order.Unknown}
	for _, kind := range []gateways.Kind{gateways.Prepare, gateways.Confirm} {
		op := t.operation(kind)
		if op == nil {
			continue
		}
		if op.FinishedAt != nil {
			if kind == gateways.Confirm && t.unsettled() {
				return t.lookAfresh(ctx)
			}
			r = PaymentResult{Outcome: order.Outcome(op.Outcome), Code: op.OutcomeCode}
		} else if r, err = t.perform(ctx, *op, maySend); err != nil {
			return r, err
		}
		if r.Outcome != order.Prepared {
			return r, nil
		}
	}
	return r, nil
}

// unsettled: every answer was weighed, and the attempt is still open. The confirm's own answer was stale or did not match, so
// it decides nothing any more (rule 5).
func (t *try) unsettled() bool {
	switch order.Status(t.att.Status) {
	case order.AttemptSent, order.AttemptUnknown:
		return t.att.ObservedSeq == t.att.ReflectedSeq
	}
	return false
}

func (t *try) lookAfresh(ctx context.Context) (PaymentResult, error) {
	o, err := t.look(ctx)
	if err != nil {
		return PaymentResult{}, err
	}
	return t.keep(ctx, o, sqlcgen.Operation{}, "lookup")
}

// try is one process's work on one attempt.
type try struct {
	a   *Activities
	gw  gateways.Gateway
	att sqlcgen.PaymentAttempt // its version is what answers are stored under (rule 5)
	ops []sqlcgen.Operation
	won map[string]bool // operations this process has claimed and not sent yet

	claimed time.Time // just before the claim of what is sent next
}

func (a *Activities) open(ctx context.Context, id order.AttemptID) (*try, error) {
	w, err := a.d.Store.AttemptWork(ctx, id)
	if err != nil {
		return nil, err
	}
	gw, err := a.gateway(order.Account{Gateway: w.Attempt.Gateway, Name: w.Attempt.Account, Environment: w.Attempt.Environment})
	if err != nil {
		return nil, err
	}
	return &try{a: a, gw: gw, att: w.Attempt, ops: w.Operations, won: map[string]bool{}}, nil
}

// operation is the write of a kind that counts: its latest generation.
func (t *try) operation(k gateways.Kind) *sqlcgen.Operation {
	for i := len(t.ops) - 1; i >= 0; i-- {
		if t.ops[i].Kind == string(k) {
			return &t.ops[i]
		}
	}
	return nil
}

// perform sends an operation that was never sent, and otherwise looks before anything else.
func (t *try) perform(ctx context.Context, op sqlcgen.Operation, maySend bool) (PaymentResult, error) {
	if t.won[op.OperationID] {
		delete(t.won, op.OperationID)
		return t.send(ctx, op, false)
	}
	if op.Sends == 0 {
		if !maySend {
			return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
		}
		t.claimed = time.Now()
		att, won, err := t.a.d.Store.OperationClaim(ctx, order.AttemptID(t.att.AttemptID), order.OperationID(op.OperationID), t.gw.Credential())
		if err != nil {
			return PaymentResult{}, err
		}
		t.att = att
		if won {
			return t.send(ctx, op, false)
		}
		if att.Status == string(order.AttemptClosed) {
			return PaymentResult{Outcome: order.Declined, Code: att.Code}, nil
		}
	}
	return t.resolve(ctx, op, maySend)
}

// resolve deals with an operation that was sent and whose answer is not stored.
func (t *try) resolve(ctx context.Context, op sqlcgen.Operation, maySend bool) (PaymentResult, error) {
	kind := gateways.Kind(op.Kind)
	if kind == gateways.Prepare && t.att.ProviderPaymentID == "" {
		return t.prepareAgain(ctx, op, maySend)
	}
	age, err := t.a.d.Store.OperationAge(ctx, order.OperationID(op.OperationID))
	never := fault.IsCode(err, fault.NotFound)
	if err != nil && !never {
		return PaymentResult{}, err
	}
	o, err := t.look(ctx)
	if err != nil {
		return PaymentResult{}, err
	}
	caps := t.gw.Capabilities()
	undone := o.Outcome == gateways.Untouched || (kind == gateways.Cancel && !o.Final && (o.Outcome == gateways.Declined || o.Outcome == gateways.Pending)) ||
		(kind == gateways.Capture && o.Outcome == gateways.Pending) // still held
	switch {
	case kind == gateways.Prepare:
		return PaymentResult{Outcome: order.Prepared}, nil
	case undone && op.Answered && caps.NewKeyAfterError[kind]:
		return t.renew(ctx, op, maySend)
	case undone && !never && age.First < caps.RepeatSafe(kind, t.att.MethodType):
		return t.repeat(ctx, op, maySend)
	case undone:
		return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	case o.Outcome == gateways.NotFound && !never && !caps.Prepares && age.First < caps.RepeatSafe(kind, t.att.MethodType):
		// The write itself makes the object, and a guard stops a second one. Its first send may still be under way, so it waits.
		if age.Last < caps.SendTimeout+caps.SendTimeout/2 {
			return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentNotFound)}, nil
		}
		return t.repeat(ctx, op, maySend)
	case o.Outcome == gateways.NotFound:
		o.Final = !never && gone(age, caps.NotFoundFinalAfter, caps.SendTimeout) // rule 6
		if !o.Final {
			return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentNotFound)}, nil
		}
	}
	return t.keep(ctx, o, op, "lookup")
}

// prepareAgain makes the object whose id never came. It takes no money, so asking for it again under the same key is safe for as
// long as the key guards. A provider may replay a stored failure for a day, though: from the second repeat on, the object is looked
// for by our reference first. Not finding it proves nothing until the provider's own time for such an object is over.
func (t *try) prepareAgain(ctx context.Context, op sqlcgen.Operation, maySend bool) (PaymentResult, error) {
	age, err := t.a.d.Store.OperationAge(ctx, order.OperationID(op.OperationID))
	if err != nil {
		return PaymentResult{}, err
	}
	caps := t.gw.Capabilities()
	repeatable := maySend && age.First < caps.RepeatSafe(gateways.Prepare, t.att.MethodType)
	if op.Sends > 1 || !repeatable {
		o, err := t.look(ctx)
		switch {
		case err != nil:
			return PaymentResult{}, err
		case o.Outcome == gateways.Untouched && t.ours(o):
			return t.keep(ctx, o, op, "lookup")
		case o.Outcome != gateways.NotFound:
			return t.keep(ctx, o, sqlcgen.Operation{}, "lookup")
		case gone(age, caps.NotFoundFinalAfter, caps.SendTimeout):
			o.Final = true // rule 6: whatever the lost answer made, nothing can be paid under it any more
			return t.keep(ctx, o, op, "lookup")
		case !repeatable:
			return PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentNotFound)}, nil
		}
	}
	return t.repeat(ctx, op, maySend)
}

// look reads the provider's current state, within the account's rate: after an outage every unknown attempt would ask at once.
func (t *try) look(ctx context.Context) (gateways.Observation, error) {
	if err := t.a.mayLook(ctx, t.gw.Account()); err != nil {
		return gateways.Observation{}, err
	}
	began := time.Now()
	o, err := t.gw.Lookup(ctx, gateways.Query{
		ProviderPaymentID: t.att.ProviderPaymentID, MerchantReference: t.att.MerchantReference, Currency: money.Currency(t.att.Currency),
		Since: t.att.CreatedAt, Private: t.private(),
	})
	t.a.calledGateway(t.gw, "lookup", began, err)
	return o, err
}

// mayLook takes one lookup out of the account's rate.
func (a *Activities) mayLook(ctx context.Context, acc gateways.Account) error {
	per := a.d.Sweep.PerSecond
	if per <= 0 {
		return nil
	}
	bucket := "lookup/" + acc.Gateway + "/" + acc.Name + "/" + string(acc.Environment)
	ok, err := a.d.Store.TakeLookup(ctx, bucket, 2*per, per)
	if err == nil && !ok {
		err = fault.New(fault.GatewayRateLimited, "look payment up")
	}
	return err
}

func (t *try) private() secret.Value { return door.Private(t.a.d.Box, t.att) }

// keep stores an observation. After a prepare it learns the provider's id and claims the confirm in the same transaction.
func (t *try) keep(ctx context.Context, o gateways.Observation, op sqlcgen.Operation, source string) (PaymentResult, error) {
	p := order.PaymentSeen{
		Outcome: order.Outcome(o.Outcome), Final: o.Final,
		Account:           order.Account{Gateway: o.Account.Gateway, Name: o.Account.Name, Environment: string(o.Account.Environment)},
		ProviderPaymentID: o.ProviderPaymentID, MerchantReference: o.MerchantReference, Currency: o.Currency,
		AmountMinor: o.AmountMinor, CapturedMinor: o.CapturedMinor, RefundedMinor: o.RefundedMinor, Code: o.DeclineCode,
		Dispute: order.Dispute(o.Dispute), DisputedMinor: o.DisputedMinor,
	}
	s := t.seen(p, op, source)
	s.ProviderStatus, s.RequestID = o.Status, o.RequestID
	if o.NextAction != nil {
		s.NextAction, _ = json.Marshal(o.NextAction) // strings always marshal
	}
	if !o.ProviderTime.IsZero() {
		s.ProviderTime = &o.ProviderTime
	}
	s.Authorized, s.Credential = o.AuthorizedMinor, t.gw.Credential()
	var next order.OperationID
	if t.ours(o) {
		if o.Outcome != gateways.Unknown {
			if s.Held = new(int64); o.Outcome == gateways.Pending {
				*s.Held = o.AuthorizedMinor
			}
		}
		s.LearnedID = o.ProviderPaymentID
		s.Due = t.due(o)
		if !o.Private.IsZero() {
			s.SealedPrivate = t.a.d.Box.Seal([]byte(o.Private.Reveal()), order.AttemptPlace(order.AttemptID(t.att.AttemptID)))
			t.att.SealedPrivate = s.SealedPrivate
		}
		if op.Kind == string(gateways.Prepare) && o.Outcome == gateways.Untouched {
			s.Payment.Outcome = order.Prepared
			if c := t.operation(gateways.Confirm); c != nil && c.Sends == 0 {
				next = order.OperationID(c.OperationID)
			}
		}
	}
	return t.store(ctx, s, next)
}

// due is until when the buyer can act on a pending payment: what the provider says, or what the gateway knows of the method.
func (t *try) due(o gateways.Observation) *time.Time {
	if o.Outcome != gateways.Pending {
		return nil
	}
	if o.NextAction != nil {
		if at, err := time.Parse(time.RFC3339, o.NextAction.Due); err == nil {
			return &at
		}
	}
	if d := t.gw.Capabilities().PendingFor[t.att.MethodType]; d > 0 {
		at := t.att.CreatedAt.Add(d)
		return &at
	}
	return nil
}

// ours compares an answer with what was stored before the send. Only then is the provider's id taken over.
func (t *try) ours(o gateways.Observation) bool {
	return o.ProviderPaymentID != "" && o.MerchantReference == t.att.MerchantReference && o.AmountMinor == t.att.AmountMinor &&
		string(o.Currency) == t.att.Currency && o.Account.Gateway == t.att.Gateway && o.Account.Name == t.att.Account &&
		string(o.Account.Environment) == t.att.Environment
}

func (t *try) keepFault(ctx context.Context, f *fault.Error, op sqlcgen.Operation, outcome order.Outcome, final bool) (PaymentResult, error) {
	code := string(f.Code)
	if outcome == order.Refused && f.Provider.Code != "" && f.Code == fault.PaymentInvalid {
		code = f.Provider.Code
	}
	s := t.seen(order.PaymentSeen{Outcome: outcome, Final: final, Code: code}, op, "send")
	s.RequestID = f.Provider.RequestID
	return t.store(ctx, s, "")
}

func (t *try) seen(p order.PaymentSeen, op sqlcgen.Operation, source string) store.Seen {
	p.ReadVersion, p.ReadAsks = t.att.Version, t.att.LooksAsked
	return store.Seen{
		Attempt: order.AttemptID(t.att.AttemptID), Order: order.ID(t.att.OrderID), Operation: order.OperationID(op.OperationID),
		Source: source, Payment: p,
	}
}

func (t *try) store(ctx context.Context, s store.Seen, next order.OperationID) (PaymentResult, error) {
	kctx, cancel := keeping(ctx)
	defer cancel()
	if next != "" {
		t.claimed = time.Now()
	}
	won, err := t.a.d.Store.ObservationKeep(kctx, s, next)
	if err != nil {
		return PaymentResult{}, err
	}
	if s.LearnedID != "" && t.att.ProviderPaymentID == "" {
		if t.att.ProviderPaymentID = s.LearnedID; next != "" && !won { // another try may have learned another id: the row's counts
			now, err := t.a.d.Store.Attempt(kctx, s.Attempt)
			if err != nil {
				return PaymentResult{}, err
			}
			t.att.ProviderPaymentID = now.ProviderPaymentID
		}
	}
	if won {
		t.won[string(next)] = true
		for i := range t.ops {
			if t.ops[i].OperationID == string(next) {
				t.ops[i].Sends = 1
			}
		}
	}
	return PaymentResult{Outcome: s.Payment.Outcome, Code: s.Payment.Code}, nil
}
