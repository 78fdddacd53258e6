package activities

import (
	"context"
	"time"

	"orderflow/internal/fault"
	"orderflow/issuers"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// internalBatch is how many units one transaction provides; a large order takes several.
const internalBatch = 1000

// FulfillInternal provides what needs nothing but our database, and completes the order when nothing else is open.
func (a *Activities) FulfillInternal(ctx context.Context, in OrderInput) (store.Provided, error) {
	p, err := a.d.Store.FulfillInternal(ctx, in.OrderID, internalBatch)
	return p, Fail(ctx, err, in.Bounds)
}

// UnitInput names the unit a step works on.
type UnitInput struct {
	OrderID order.ID     `json:"order_id"`
	UnitID  order.UnitID `json:"unit_id"`
	Bounds  Bounds       `json:"bounds,omitzero"`
}

// UnitResult is where the unit stands.
type UnitResult struct {
	Status order.Status `json:"status"`
	Code   string       `json:"code,omitempty"`
}

// IssueUnit has a unit issued: it sends what was never sent, and looks - or repeats, where the issuer is idempotent - before
// anything else once something was. An opaque issuer is sent to once, ever (rule 3), unless it answers that it did not do it. It fails with the code of what is
// missing until there is an answer.
func (a *Activities) IssueUnit(ctx context.Context, in UnitInput) (UnitResult, error) {
	defer alive(ctx)()
	r, err := a.issue(ctx, in, true)
	return r, Fail(ctx, err, in.Bounds)
}

// LookUnit asks the issuer about a unit and sends nothing that could issue.
func (a *Activities) LookUnit(ctx context.Context, in UnitInput) (UnitResult, error) {
	defer alive(ctx)()
	r, err := a.issue(ctx, in, false)
	kctx, cancel := keeping(ctx)
	defer cancel()
	if kerr := a.d.Store.UnitLooked(kctx, in.UnitID); err == nil {
		err = kerr
	}
	return r, Fail(ctx, err, in.Bounds)
}

func (a *Activities) issue(ctx context.Context, in UnitInput, maySend bool) (UnitResult, error) {
	w, err := a.d.Store.UnitWork(ctx, in.UnitID)
	if err != nil {
		return UnitResult{}, err
	}
	iss, err := a.issuer(w.Unit.Issuer)
	if err != nil {
		return UnitResult{}, err
	}
	u := unitTry{a: a, iss: iss, work: w}
	maySend = maySend && w.Order.Hold == "" // what was sent is found out; nothing more is, while its money is not here
	switch order.Status(w.Unit.Status) {
	case order.UnitPlanned:
		if !maySend {
			return UnitResult{Status: order.UnitPlanned}, nil
		}
		return u.first(ctx)
	case order.UnitIssuing, order.UnitUnknown, order.UnitRefused:
		return u.resolve(ctx, maySend)
	}
	return UnitResult{Status: order.Status(w.Unit.Status)}, nil
}

// unitTry is one process's work on one unit.
type unitTry struct {
	a    *Activities
	iss  issuers.Issuer
	work store.UnitWork
}

func (u unitTry) id() order.UnitID { return order.UnitID(u.work.Unit.UnitID) }

func (u unitTry) operation() order.OperationID {
	return order.IssueOperation(u.id(), int(u.work.Unit.Generation))
}

// first freezes and claims the request; only the winner sends it.
func (u unitTry) first(ctx context.Context) (UnitResult, error) {
	op := u.operation()
	frozen, err := u.iss.Freeze(issuers.Request{
		OperationID: string(op), OrderID: u.work.Unit.OrderID, UnitID: string(u.id()), SKU: u.work.Unit.Sku, RecipientRef: u.work.Order.BuyerRef,
	})
	if err != nil {
		return UnitResult{}, err
	}
	d := store.OperationDraft{ID: op, Kind: "issue", Sealed: u.a.d.Box.Seal(frozen, OperationAAD(op)), Fingerprint: u.a.d.Box.Fingerprint(frozen)}
	claimed := time.Now()
	won, err := u.a.d.Store.UnitClaim(ctx, u.id(), order.ID(u.work.Unit.OrderID), d, int(u.work.Unit.Generation))
	if f := fault.As(err); f != nil && f.Why == "order_held" { // since it was read: it waits
		return UnitResult{Status: order.UnitPlanned}, nil
	}
	if err != nil {
		return UnitResult{}, err
	}
	if !won {
		return UnitResult{}, fault.New(fault.IssuanceInProgress, "issue unit") // somebody else has it: look next time
	}
	return u.send(ctx, op, frozen, claimed, 1, false)
}

// resolve deals with a unit whose request was sent and whose answer is not stored.
func (u unitTry) resolve(ctx context.Context, maySend bool) (UnitResult, error) {
	caps, op := u.iss.Capabilities(), u.work.Operation
	if op == nil { // a rerun was decided, and then the request before it turned out to have issued: only a person can tell
		return u.unknown(ctx)
	}
	if u.canceled() && notDone(*op) {
		return u.stop(ctx, false)
	}
	if maySend && notDone(*op) {
		return u.again(ctx, *op, false)
	}
	if caps.Lookup {
		age, err := u.a.d.Store.OperationAge(ctx, order.OperationID(op.OperationID))
		if err != nil {
			return UnitResult{}, err
		}
		began := time.Now()
		o, err := u.iss.Lookup(ctx, op.OperationID)
		u.a.called("issuer", u.work.Unit.Issuer, "lookup", began, err)
		if err != nil {
			return UnitResult{}, err
		}
		if o.Outcome != issuers.NotFound {
			return u.keep(ctx, o, "lookup")
		}
		if u.canceled() && gone(age, caps.NotFoundFinalAfter, caps.SendTimeout) {
			return u.stop(ctx, true)
		}
		if u.canceled() || !gone(age, caps.NotFoundFinalAfter, caps.SendTimeout) && !caps.Idempotent {
			return UnitResult{}, fault.New(fault.IssuanceNotFound, "look issuance up")
		}
	}
	if !maySend || caps.Opaque() || u.canceled() {
		return u.unknown(ctx)
	}
	return u.again(ctx, *op, true)
}

// notDone: the last send was answered with "not done", as every one before it. Nothing is in doubt, so an other side that guards
// nothing may get the same request once more.
func notDone(op sqlcgen.Operation) bool { return op.Outcome == "" && op.OutcomeCode != "" }

// again sends the stored request once more, as the only one to do so now. Doubt says that an earlier send may have issued.
func (u unitTry) again(ctx context.Context, op sqlcgen.Operation, doubt bool) (UnitResult, error) {
	id := order.OperationID(op.OperationID)
	claimed := time.Now()
	won, err := u.a.d.Store.OperationClaimAgain(ctx, id, int(op.Sends), "")
	if err != nil {
		return UnitResult{}, err
	}
	if !won {
		return UnitResult{}, fault.New(fault.IssuanceInProgress, "issue unit")
	}
	frozen, err := u.a.d.Box.Open(op.SealedRequest, OperationAAD(id))
	if err != nil {
		return UnitResult{}, fault.Wrap(fault.InternalError, "open stored request", err)
	}
	return u.send(ctx, id, frozen, claimed, int(op.Sends)+1, doubt)
}

// send puts the stored bytes on the wire, for the sends-th time, and stores what comes back.
func (u unitTry) send(ctx context.Context, op order.OperationID, frozen []byte, claimed time.Time, sends int, doubt bool) (UnitResult, error) {
	sctx, cancel := sending(ctx, claimed, u.iss.Capabilities().SendTimeout)
	defer cancel()
	began := time.Now()
	o, err := u.iss.Issue(sctx, string(op), frozen)
	u.a.called("issuer", u.work.Unit.Issuer, "issue", began, err)
	if doubt && (err != nil || o.Outcome == issuers.Refused) {
		// A refusal of a repeat says nothing about the request before it: it stays unknown.
		return UnitResult{}, unknownUnlessFault(err)
	}
	if err == nil {
		return u.keep(ctx, o, "send")
	}
	f := fault.As(err)
	switch f.Class {
	case fault.Invalid, fault.Misconfigured, fault.Declined:
		return u.record(ctx, store.IssuanceAnswer{
			Source: "send", RequestID: f.Provider.RequestID,
			Seen: order.IssuanceSeen{Outcome: order.Refused, OperationID: op, Code: string(f.Code)},
		})
	case fault.Transient:
		kctx, cancel := keeping(ctx)
		defer cancel()
		if kerr := u.a.d.Store.OperationNotDone(kctx, op, sends, string(f.Code)); kerr != nil {
			return UnitResult{}, kerr
		}
	case fault.Unknown:
		if _, kerr := u.record(ctx, store.IssuanceAnswer{
			Source: "send", RequestID: f.Provider.RequestID,
			Seen: order.IssuanceSeen{Outcome: order.Unknown, OperationID: op, Code: string(f.Code)},
		}); kerr != nil {
			return UnitResult{}, kerr
		}
		if u.iss.Capabilities().Opaque() {
			return u.unknown(ctx)
		}
	}
	return UnitResult{}, err
}

func unknownUnlessFault(err error) error {
	if f := fault.As(err); f != nil && (f.Class == fault.Transient || f.Class == fault.InProgress || f.Class == fault.Internal) {
		return err
	}
	return fault.New(fault.IssuanceUnknown, "issue unit again")
}

// unknown is the end of what can be found out without a person.
func (u unitTry) unknown(context.Context) (UnitResult, error) {
	return UnitResult{Status: order.UnitUnknown, Code: string(fault.IssuanceUnknown)}, nil
}

func (u unitTry) keep(ctx context.Context, o issuers.Observation, source string) (UnitResult, error) {
	ans := store.IssuanceAnswer{
		Source: source, IssuerIssuance: o.IssuanceID,
		Seen: order.IssuanceSeen{Outcome: order.Outcome(o.Outcome), OperationID: order.OperationID(o.OperationID), Code: o.Code},
	}
	if o.Reference != "" {
		ans.SealedReference = u.a.d.Box.Seal([]byte(o.Reference), ReferenceAAD(u.id()))
	}
	r, err := u.record(ctx, ans)
	if err == nil && o.Outcome == issuers.Processing {
		return r, fault.New(fault.IssuanceInProgress, "issue unit")
	}
	return r, err
}

func (u unitTry) record(ctx context.Context, ans store.IssuanceAnswer) (UnitResult, error) {
	kctx, cancel := keeping(ctx)
	defer cancel()
	ans.Unit, ans.Order = u.id(), order.ID(u.work.Unit.OrderID)
	c, status, err := u.a.d.Store.IssuanceRecord(kctx, ans)
	if err != nil {
		return UnitResult{}, err
	}
	r := UnitResult{Status: status, Code: ans.Seen.Code}
	if c.Verdict == order.Mismatch {
		r.Code = string(fault.IssuanceMismatch)
	}
	return r, nil
}
