package store

import (
	"context"
	"time"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// OperationDraft is one frozen outside write of an attempt, sealed by the caller.
type OperationDraft struct {
	ID          order.OperationID
	Kind        string
	Sealed      []byte
	Fingerprint []byte
}

// AttemptDraft is one attempt as the API plans it. Amount must equal the order's total at the time of storing.
type AttemptDraft struct {
	ID                order.AttemptID
	OrderID           order.ID
	Client            order.ClientID
	CallerKey         string
	Account           order.Account
	MerchantReference string
	ProviderPaymentID string // where the buyer's browser brought it; otherwise learned from the first answer
	MethodType        string
	Amount            money.Amount
	ReturnTokenHash   []byte // of the token in the address the provider sends the browser back to; nil = it goes elsewhere
	ReturnURL         string // the checkout's page, where the browser is sent on
	Operations        []OperationDraft
}

// AttemptOpen stores an attempt and its operations, all or nothing. When the caller's key already made an attempt, that one
// is returned and nothing is written: a key binds to one attempt for good. Rejections: already_paid, attempt_unresolved,
// attempt_pending, attempt_closing, order_expired, order_canceled, order_canceling, order_changed, key_bound_elsewhere, payment_bound_elsewhere.
func (s *Store) AttemptOpen(ctx context.Context, d AttemptDraft) (sqlcgen.PaymentAttempt, error) {
	var out sqlcgen.PaymentAttempt
	err := s.inTx(ctx, "open attempt", func(ctx context.Context, w *work) error {
		var row sqlcgen.OrderLockDueRow
		var met []sqlcgen.PaymentAttempt
		key := sqlcgen.AttemptsMetParams{ClientID: string(d.Client), CallerKey: d.CallerKey, OrderID: string(d.OrderID)}
		if err := w.together(ctx,
			func(q *sqlcgen.Queries) (err error) { row, err = q.OrderLockDue(ctx, string(d.OrderID)); return },
			func(q *sqlcgen.Queries) (err error) { met, err = q.AttemptsMet(ctx, key); return },
		); err != nil {
			return err
		}
		o := row.Order
		if o.ClientID != string(d.Client) {
			return fault.New(fault.NotFound, "open attempt")
		}
		sc, err := newScene(o)
		if err != nil {
			return err
		}
		for i, a := range met {
			if a.ClientID == string(d.Client) && a.CallerKey == d.CallerKey {
				if a.OrderID != o.OrderID {
					return fault.Reject("key_bound_elsewhere", "open attempt")
				}
				out = a
				return nil
			}
			sc.attempt = &met[i]
		}
		if err := mayOpen(sc, row.Due, d); err != nil {
			return err
		}
		out, err = insertAttempt(ctx, w, d, o.Revision)
		return err
	})
	if violates(err, "attempts_caller_key_unique") { // the same key, at the same moment, for another order
		err = fault.Reject("key_bound_elsewhere", "open attempt")
	}
	if violates(err, "attempts_provider_id_unique") || violates(err, "attempts_reference_unique") {
		err = fault.Reject("payment_bound_elsewhere", "open attempt") // what the buyer brought pays for another attempt
	}
	return out, err
}

func mayOpen(sc scene, due bool, d AttemptDraft) error {
	c := order.Apply(sc.facts(), order.Trigger{Kind: order.AttemptOpened})
	if c.Verdict != order.Applied {
		return fault.Reject(c.Why, "open attempt")
	}
	if due {
		return fault.Reject("order_expired", "open attempt")
	}
	if d.Amount.Minor != sc.order.TotalMinor || string(d.Amount.Currency) != sc.order.Currency {
		return fault.Reject("order_changed", "open attempt")
	}
	return nil
}

func insertAttempt(ctx context.Context, w *work, d AttemptDraft, revision int32) (sqlcgen.PaymentAttempt, error) {
	p := sqlcgen.AttemptInsertParams{
		AttemptID: string(d.ID), OrderID: string(d.OrderID), ClientID: string(d.Client), CallerKey: d.CallerKey,
		Gateway: d.Account.Gateway, Account: d.Account.Name, Environment: d.Account.Environment,
		MerchantReference: d.MerchantReference, MethodType: d.MethodType, Currency: string(d.Amount.Currency), AmountMinor: d.Amount.Minor,
		ProviderPaymentID: d.ProviderPaymentID, ReturnTokenHash: d.ReturnTokenHash, ReturnUrl: d.ReturnURL, Revision: revision,
	}
	a := sqlcgen.PaymentAttempt{
		AttemptID: p.AttemptID, OrderID: p.OrderID, ClientID: p.ClientID, CallerKey: p.CallerKey, Gateway: p.Gateway, Account: p.Account,
		Environment: p.Environment, MerchantReference: p.MerchantReference, MethodType: p.MethodType, Currency: p.Currency,
		AmountMinor: p.AmountMinor, ProviderPaymentID: p.ProviderPaymentID, ReturnTokenHash: p.ReturnTokenHash, ReturnUrl: p.ReturnUrl,
		Status: string(order.AttemptCreated), Version: 1, CreatedAt: time.Now(), Revision: revision,
	}
	if err := w.write.AttemptInsert(ctx, p); err != nil {
		return a, err
	}
	for _, op := range d.Operations {
		attempt := string(d.ID)
		err := w.write.OperationInsert(ctx, sqlcgen.OperationInsertParams{
			OperationID: string(op.ID), OrderID: string(d.OrderID), Kind: op.Kind, AttemptID: &attempt, Generation: 1,
			SealedRequest: op.Sealed, Fingerprint: op.Fingerprint,
		})
		if err != nil {
			return a, err
		}
	}
	if err := w.write.OrderRaiseWork(ctx, string(d.OrderID)); err != nil {
		return a, err
	}
	return a, w.write.TransitionsInsert(ctx, sqlcgen.TransitionsInsertParams{
		OrderID: string(d.OrderID), Kinds: []string{"attempt"}, Ids: []string{string(d.ID)}, Froms: []string{""},
		Tos: []string{string(order.AttemptCreated)}, Trigger: string(order.AttemptOpened),
	})
}

// Attempt reads one attempt.
func (s *Store) Attempt(ctx context.Context, id order.AttemptID) (sqlcgen.PaymentAttempt, error) {
	a, err := s.q().AttemptGet(ctx, string(id))
	return a, translate("read attempt", err)
}

// AttemptWork is an attempt with its outside writes, in sending order, as a process that may send sees them.
type AttemptWork struct {
	Attempt    sqlcgen.PaymentAttempt
	Operations []sqlcgen.Operation
}

// AttemptWork reads what is needed to go on with an attempt, as it stands at one moment.
func (s *Store) AttemptWork(ctx context.Context, id order.AttemptID) (AttemptWork, error) {
	rows, err := s.q().AttemptWork(ctx, string(id))
	if err != nil {
		return AttemptWork{}, translate("read attempt", err)
	}
	if len(rows) == 0 { // not there, or without a write
		a, err := s.Attempt(ctx, id)
		return AttemptWork{Attempt: a}, err
	}
	w := AttemptWork{Attempt: rows[0].PaymentAttempt, Operations: make([]sqlcgen.Operation, len(rows))}
	for i, r := range rows {
		w.Operations[i] = r.Operation
	}
	return w, nil
}

// OperationClaim makes the caller the one who sends an operation first (rule 2), and moves the attempt to sent. It reports
// false when somebody else was first. The attempt comes back as it is now, so its version is what the answer must carry.
// Credential marks the API key it goes out under.
func (s *Store) OperationClaim(ctx context.Context, id order.AttemptID, op order.OperationID, credential string) (sqlcgen.PaymentAttempt, bool, error) {
	var out sqlcgen.PaymentAttempt
	won := false
	err := s.inTx(ctx, "claim operation", func(ctx context.Context, w *work) error {
		row, err := w.read.AttemptLock(ctx, string(id))
		if err != nil {
			return err
		}
		sc, err := newScene(row.Order)
		if err != nil {
			return err
		}
		sc.attempt = &row.PaymentAttempt
		c := order.Apply(sc.facts(), order.Trigger{Kind: order.AttemptClaimed})
		if c.Verdict == order.Rejected && c.Why != "already_claimed" {
			return fault.Reject(c.Why, "claim operation")
		}
		if c.To(order.SubjectAttempt) == order.AttemptClosed {
			err := s.write(ctx, w, &sc, c, cause{trigger: order.AttemptClaimed, code: c.Why, raises: len(c.Events) > 0})
			out, won = *sc.attempt, false
			return err
		}
		if _, err := w.read.OperationClaim(ctx, credential, string(op)); isNoRows(err) {
			out, won = *sc.attempt, false
			return nil
		} else if err != nil {
			return err
		}
		if c.Verdict == order.Applied {
			if err := s.write(ctx, w, &sc, c, cause{trigger: order.AttemptClaimed}); err != nil {
				return err
			}
		}
		out, won = *sc.attempt, true
		return nil
	})
	return out, won, err
}

// OperationClaimAgain makes the caller the one who repeats an operation it saw sent seenSends times. One that was sent under
// another credential is not repeated.
func (s *Store) OperationClaimAgain(ctx context.Context, op order.OperationID, seenSends int, credential string) (bool, error) {
	_, err := s.q().OperationClaimAgain(ctx, sqlcgen.OperationClaimAgainParams{OperationID: string(op), SeenSends: int32(seenSends), Credential: credential})
	if isNoRows(err) {
		return false, nil
	}
	return err == nil, translate("claim operation again", err)
}

// Age is how long ago an operation was claimed for sending.
type Age struct {
	First time.Duration
	Last  time.Duration
}

// OperationAge measures by the database's clock, which wrote the times: what is safe because enough - or not too much - time
// has passed must not hang on a process whose clock is wrong. Not found is a fault: it was never sent.
func (s *Store) OperationAge(ctx context.Context, op order.OperationID) (Age, error) {
	r, err := s.q().OperationAge(ctx, string(op))
	return Age{First: time.Duration(r.FirstMs) * time.Millisecond, Last: time.Duration(r.LastMs) * time.Millisecond}, translate("read operation's age", err)
}

// OperationNotDone notes that the last of sends sends was answered with "not done": the same request may be sent again, also
// to a side that guards nothing. It must not be called when an earlier send is in doubt.
func (s *Store) OperationNotDone(ctx context.Context, op order.OperationID, sends int, code string) error {
	return translate("note answer", s.q().OperationNotDone(ctx, sqlcgen.OperationNotDoneParams{Code: code, OperationID: string(op), Sends: int32(sends)}))
}

// Seen is one provider answer to keep, with the operation it answers (empty for a lookup).
type Seen struct {
	Attempt        order.AttemptID
	Order          order.ID
	Operation      order.OperationID
	Source         string // "send", "lookup", "webhook", …
	Payment        order.PaymentSeen
	LearnedID      string // the provider's id of this attempt, once an answer that matches it has told it
	ProviderStatus string
	RequestID      string
	NextAction     []byte
	ProviderTime   *time.Time
	Authorized     int64
	Held           *int64     // what is held now and can be captured; nil keeps what is stored
	SealedPrivate  []byte     // what the provider gave for later calls; nil keeps what is stored
	Due            *time.Time // until when the buyer can act; nil keeps what is stored
	Credential     string     // marks the API key under which a next operation goes out
}

// ObservationKeep stores an answer before anything is made of it, so that an answer that comes late, or to a step that has
// timed out, is kept too. Next may name an operation to claim in the same transaction: the one that follows the answer.
//
// An answer that comes when its attempt waits for a person, or is over, raises the order's work: the step that asked may be
// gone, and somebody has to reflect it.
func (s *Store) ObservationKeep(ctx context.Context, o Seen, next order.OperationID) (nextWon bool, err error) {
	late := false
	err = s.inTx(ctx, "keep observation", func(ctx context.Context, w *work) error {
		p := o.Payment
		if o.Operation != "" {
			done := sqlcgen.OperationOutcomeParams{Outcome: string(p.Outcome), Code: p.Code, OperationID: string(o.Operation)}
			if err := w.write.OperationOutcome(ctx, done); err != nil {
				return err
			}
		}
		seen, err := w.read.AttemptObserved(ctx, sqlcgen.AttemptObservedParams{
			ProviderPaymentID: o.LearnedID, SealedPrivate: o.SealedPrivate, DueAt: o.Due, HeldMinor: o.Held, AttemptID: string(o.Attempt),
		})
		if err != nil {
			return err
		}
		late = news(order.Status(seen.Status), p.Outcome)
		// Where the attempt is bound to another object already, the answer's own would be a second one to charge: nothing is sent.
		if next != "" && seen.ProviderPaymentID == o.LearnedID {
			_, err := w.read.OperationClaim(ctx, o.Credential, string(next))
			nextWon = err == nil
			if err != nil && !isNoRows(err) {
				return err
			}
		}
		return w.write.ObservationKeep(ctx, observationParams(o, seen.ObservedSeq))
	})
	if err == nil && late {
		err = s.RaiseWork(ctx, o.Order) // by itself: an attempt's row is never locked before its order's (rule 9)
	}
	return nextWon && err == nil, err
}

// news reports an answer that may settle an attempt which no step is sending for any more.
func news(s order.Status, o order.Outcome) bool {
	switch o {
	case order.Succeeded, order.Declined, order.Refused, order.Pending:
		return s != order.AttemptCreated && s != order.AttemptSent && s != order.Status(o)
	}
	return false
}

func observationParams(o Seen, seq int32) sqlcgen.ObservationKeepParams {
	p := o.Payment
	out := sqlcgen.ObservationKeepParams{
		OrderID: string(o.Order), AttemptID: ptr(string(o.Attempt)), Seq: seq, Source: o.Source, Outcome: string(p.Outcome), Final: p.Final,
		ProviderStatus: o.ProviderStatus, Gateway: p.Account.Gateway, Account: p.Account.Name, Environment: p.Account.Environment,
		ProviderPaymentID: p.ProviderPaymentID, MerchantReference: p.MerchantReference, Currency: string(p.Currency),
		AmountMinor: p.AmountMinor, AuthorizedMinor: o.Authorized, CapturedMinor: p.CapturedMinor, RefundedMinor: p.RefundedMinor,
		Dispute: string(p.Dispute), DisputedMinor: p.DisputedMinor, Code: p.Code, RequestID: o.RequestID,
		ReadVersion: p.ReadVersion, ReadAsks: p.ReadAsks, NextAction: o.NextAction, ProviderTime: o.ProviderTime,
	}
	if o.Operation != "" {
		out.OperationID = ptr(string(o.Operation))
	}
	return out
}

// AttemptUnresolved parks an attempt whose outcome could not be found within its bound: it becomes (or stays) unknown and a
// person gets it. One that could not even be sent stays what it is.
func (s *Store) AttemptUnresolved(ctx context.Context, id order.AttemptID, code string) (order.Change, error) {
	var c order.Change
	err := s.inTx(ctx, "park attempt", func(ctx context.Context, w *work) error {
		row, err := w.read.AttemptLock(ctx, string(id))
		if err != nil {
			return err
		}
		sc, err := newScene(row.Order)
		if err != nil {
			return err
		}
		sc.attempt = &row.PaymentAttempt
		c = order.Apply(sc.facts(), order.Trigger{Kind: order.PaymentUnresolved, Code: code})
		if c.Verdict != order.Applied {
			return nil
		}
		if len(c.Transitions) == 0 { // it stays what it is, and is looked at again all the same
			at := time.Now().Add(sc.policy.ReviewCheckEvery)
			if err := w.write.AttemptCheckLater(ctx, &at, string(id)); err != nil {
				return err
			}
		}
		return s.write(ctx, w, &sc, c, cause{trigger: order.PaymentUnresolved, code: code})
	})
	return c, err
}

// AttemptCheckLater notes that a lookup was made and when the next is due.
func (s *Store) AttemptCheckLater(ctx context.Context, id order.AttemptID, next time.Time) error {
	return translate("schedule lookup", s.q().AttemptCheckLater(ctx, &next, string(id)))
}

// OperationAnswered notes that an error which leaves the outcome open was received for an operation.
func (s *Store) OperationAnswered(ctx context.Context, op order.OperationID) error {
	return translate("note answer", s.q().OperationAnswered(ctx, string(op)))
}

// OperationRenew ends an operation whose key answers with an error for good and whose object a lookup found untouched, and
// stores the next generation of the same write under a new key, in one transaction (rule 7). It reports false when another
// process did so, or when the operation is not in that state.
func (s *Store) OperationRenew(ctx context.Context, id order.AttemptID, old order.OperationID, d OperationDraft, generation int) (bool, error) {
	renewed := false
	err := s.inTx(ctx, "renew operation", func(ctx context.Context, w *work) error {
		renewed = false
		row, err := w.read.AttemptLock(ctx, string(id))
		if err != nil {
			return err
		}
		switch order.Status(row.PaymentAttempt.Status) {
		case order.AttemptSent, order.AttemptUnknown:
		default:
			return nil
		}
		n, err := w.read.OperationSupersede(ctx, string(fault.PaymentUnknown), string(old))
		if err != nil || n == 0 {
			return err
		}
		renewed = true
		return w.write.OperationInsert(ctx, sqlcgen.OperationInsertParams{
			OperationID: string(d.ID), OrderID: row.Order.OrderID, Kind: d.Kind, AttemptID: ptr(string(id)), Generation: int32(generation),
			SealedRequest: d.Sealed, Fingerprint: d.Fingerprint,
		})
	})
	return renewed && err == nil, err
}

// AttemptAddOperation stores a further outside write of an attempt, once per kind: the cancel that closes a declined one.
// The row that stands is returned, whoever made it.
func (s *Store) AttemptAddOperation(ctx context.Context, id order.AttemptID, orderID order.ID, d OperationDraft) error {
	return translate("add operation", s.q().OperationInsert(ctx, sqlcgen.OperationInsertParams{
		OperationID: string(d.ID), OrderID: string(orderID), Kind: d.Kind, AttemptID: ptr(string(id)), Generation: 1,
		SealedRequest: d.Sealed, Fingerprint: d.Fingerprint,
	}))
}

// TakeLookup takes one token of an account's lookup rate; false means "not now".
func (s *Store) TakeLookup(ctx context.Context, bucket string, size, perSecond int) (bool, error) {
	n, err := s.q().BucketTake(ctx, sqlcgen.BucketTakeParams{Bucket: bucket, Size: int32(size), PerSecond: int32(perSecond)})
	return n == 1, translate("take lookup token", err)
}

func ptr[T any](v T) *T { return &v }
