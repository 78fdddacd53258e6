package store

// Goal: a cancel stops what is not under way, exactly once, and forgets no money and no goods, whatever races it.
// Method: the store against a real PostgreSQL; many goroutines cancel, pay, issue, refund and replace at once, and the rows are judged.
// Not covered: what providers and issuers answer (package activities and e2e).

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

func cancelDraft(id order.ID, key string) CancelDraft {
	return CancelDraft{ID: order.NewCancelID(), OrderID: id, Client: client, CallerKey: key, Reason: "requested_by_buyer", MayRefund: true}
}

func (e *env) cancel(id order.ID) sqlcgen.Cancel {
	e.t.Helper()
	c, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, "cancel-"+string(id)))
	require.NoError(e.t, err)
	return c
}

func (e *env) cancelStatus(id order.ID) string {
	e.t.Helper()
	return e.text("SELECT status FROM cancels WHERE order_id = $1", string(id))
}

func (e *env) stock(sku string) string {
	e.t.Helper()
	return e.text("SELECT on_hand || '/' || reserved FROM stock WHERE sku = $1", sku)
}

// settle does what the workflow's step does with a canceled order's money.
func (e *env) settleCancel(c sqlcgen.Cancel) (minor int64, word string, settled bool) {
	e.t.Helper()
	id := order.CancelID(c.CancelID)
	b, err := e.s.CancelBill(e.ctx(), id)
	require.NoError(e.t, err)
	if b.UnitsOpen > 0 {
		return 0, "", false
	}
	var refund order.RefundID
	if minor, word = b.Bill.Owed(); minor > 0 {
		a, err := e.s.Attempt(e.ctx(), b.Paid.Attempt)
		require.NoError(e.t, err)
		d := e.refundDraft(a, "", minor)
		d.ID, d.CallerKey = order.CancelRefund(id)
		d.Operation.ID = order.RefundOperation(d.ID)
		_, err = e.s.RefundOpen(e.ctx(), d)
		require.NoError(e.t, err)
		refund = d.ID
	}
	settled, err = e.s.CancelSettle(e.ctx(), id, refund, word)
	require.NoError(e.t, err)
	return minor, word, settled
}

func TestCancelOfAnUnpaidOrderReleasesItsStockOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 10))
	e.place("o", stockLine("mug", 4), grantLine(1))
	require.Equal(t, "10/4", e.stock("mug"))
	for _, err := range together(20, func(i int) error {
		c, err := e.s.CancelOpen(e.ctx(), cancelDraft("o", fmt.Sprint("k", i)))
		if err == nil && c.Status != string(order.CancelDone) {
			err = fmt.Errorf("cancel is %s", c.Status)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, order.OrderCanceled, e.status("o"))
	require.Equal(t, "10/0", e.stock("mug"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM cancels"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM stock_movements WHERE kind = 'release'"))
	require.EqualValues(t, 1, e.events(order.EventOrderCanceled))
	_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(draftOf("o", grantLine(5)), "late"))
	requireWhy(t, err, fault.Refused, "order_canceled")
	e.folds()
}

func TestCancelsAreRejectedWithAWord(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.pay(e.place("done", grantLine(1)))
	_, err := e.s.FulfillInternal(e.ctx(), "done", 10)
	require.NoError(t, err)
	e.place("lapsed", grantLine(1))
	e.lapse("lapsed")
	_, err = e.s.OrderExpire(e.ctx(), "lapsed")
	require.NoError(t, err)
	e.pay(e.place("paid", grantLine(1)))
	e.place("open", grantLine(1))
	for name, c := range map[string]struct {
		id    order.ID
		spoil func(*CancelDraft)
		code  fault.Code
		why   string
	}{
		"Completed":     {"done", func(*CancelDraft) {}, fault.Refused, "order_completed"},
		"Expired":       {"lapsed", func(*CancelDraft) {}, fault.Refused, "order_expired"},
		"MayNotRefund":  {"paid", func(d *CancelDraft) { d.MayRefund = false }, fault.Refused, "paid_needs_operate"},
		"ReasonIsText":  {"open", func(d *CancelDraft) { d.Reason = "Ann called" }, fault.Refused, "reason_invalid"},
		"AnotherClient": {"open", func(d *CancelDraft) { d.Client = "other" }, fault.NotFound, ""},
		"NoSuchOrder":   {"none", func(*CancelDraft) {}, fault.NotFound, ""},
	} {
		d := cancelDraft(c.id, name)
		c.spoil(&d)
		_, err := e.s.CancelOpen(e.ctx(), d)
		requireWhy(t, err, c.code, c.why)
	}
	require.Zero(t, e.count("SELECT count(*) FROM cancels"))
	first, err := e.s.CancelOpen(e.ctx(), cancelDraft("open", "bound"))
	require.NoError(t, err)
	again, err := e.s.CancelOpen(e.ctx(), cancelDraft("open", "another key"))
	require.NoError(t, err)
	require.Equal(t, first.CancelID, again.CancelID, "an order has one cancel")
	_, err = e.s.CancelOpen(e.ctx(), cancelDraft("paid", "bound"))
	requireWhy(t, err, fault.Refused, "key_bound_elsewhere")
	_, err = e.s.Cancel(e.ctx(), "other", order.CancelID(first.CancelID))
	require.True(t, fault.IsCode(err, fault.NotFound))
}

// A cancel never guesses: while the attempt may have taken money it waits, and what is found out decides.
func TestCancelWaitsForWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 10))
	for name, c := range map[string]struct {
		says  func(*Seen)
		state order.Status
	}{
		"declined for good": {func(s *Seen) { s.Payment.Outcome, s.Payment.CapturedMinor, s.Payment.Final = order.Declined, 0, true }, order.CancelDone},
		"never there": {func(s *Seen) {
			s.Payment = order.PaymentSeen{Outcome: order.NotFound, Final: true, ReadVersion: s.Payment.ReadVersion}
		}, order.CancelDone},
		"captured": {func(*Seen) {}, order.CancelStopping},
	} {
		id := order.ID(name)
		d := e.place(id, stockLine("mug", 2))
		a := e.open(d, "pay-"+name)
		e.keep(Seen{Attempt: idOf(a), Order: id, Source: "send", Operation: confirmOf(a), Payment: order.PaymentSeen{Outcome: order.Unknown, ReadVersion: a.Version}})
		e.reflect(a)
		cancel := e.cancel(id)
		require.Equal(t, string(order.CancelWaiting), cancel.Status, name)
		require.Equal(t, order.OrderOpen, e.status(id))
		_, err := e.s.AttemptOpen(e.ctx(), attemptDraft(d, "second-"+name))
		requireWhy(t, err, fault.Refused, "order_canceling")
		_, err = e.s.OrderReplace(e.ctx(), draftOf(id, grantLine(1)), 0)
		requireWhy(t, err, fault.Refused, "order_canceling")
		again, err := e.s.OperationClaimAgain(e.ctx(), confirmOf(a), 1, "")
		require.NoError(t, err)
		require.False(t, again, "nothing that takes money is sent any more")
		_, won, err := e.s.OperationClaim(e.ctx(), idOf(a), prepareOf(a), "")
		require.NoError(t, err)
		require.False(t, won)

		s := answer(e.attempt(a), order.Succeeded)
		c.says(&s)
		e.keep(s)
		r := e.reflect(a)
		require.Equal(t, order.OrderCanceled, r.Order, name)
		require.Equal(t, string(c.state), e.cancelStatus(id), name)
		require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'order.canceled'", string(id)))
		require.Zero(t, e.count("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type <> 'order.canceled'", string(id)))
		require.Zero(t, e.count("SELECT count(*) FROM fulfillment_units WHERE order_id = $1", string(id)))
		if c.state == order.CancelStopping {
			minor, word, settled := e.settleCancel(cancel)
			require.Equal(t, []any{int64(200), "", true}, []any{minor, word, settled}, "nothing was provided, so all of it goes back")
		} else {
			require.True(t, e.lookWanted(id), "it was ended at the provider: once more, to be sure")
		}
	}
	require.Equal(t, "10/0", e.stock("mug"))
	require.Zero(t, e.count("SELECT count(*) FROM reviews"))
	e.folds()
}

func TestCancelOfAPaidOrderStopsWhatNobodyIssues(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 10))
	d := e.place("o", stockLine("mug", 3), grantLine(1), issueLine(3))
	a := e.pay(d)
	_, err := e.s.FulfillInternal(e.ctx(), "o", 2) // two mugs are out
	require.NoError(t, err)
	issue := e.unitIDs("o")[4:]
	require.True(t, e.claimUnit(issue[0], "o", 1))
	require.True(t, e.claimUnit(issue[1], "o", 1))
	e.issuer(issue[1], "o", 1, order.Refused)
	c := e.cancel("o")
	require.Equal(t, string(order.CancelStopping), c.Status)
	require.Equal(t, order.OrderCanceled, e.status("o"))
	require.Equal(t, "8/0", e.stock("mug"), "one mug goes back, once")
	require.EqualValues(t, 4, e.count("SELECT count(*) FROM fulfillment_units WHERE status = 'canceled'"))
	require.Zero(t, e.reviews(string(issue[1]), order.ReviewIssuanceRefused), "the refusal's question is answered")

	_, err = e.s.UnitClaim(e.ctx(), issue[2], "o", issueDraft(issue[2], 1), 1)
	requireWhy(t, err, fault.Refused, "order_not_paid")
	p, err := e.s.FulfillInternal(e.ctx(), "o", 10)
	require.NoError(t, err)
	require.Zero(t, p.Units)
	again, err := e.s.OperationClaimAgain(e.ctx(), order.IssueOperation(issue[0], 1), 1, "")
	require.NoError(t, err)
	require.False(t, again, "a request to issue is never sent again")
	_, _, settled := e.settleCancel(c)
	require.False(t, settled, "goods may be on their way")

	e.issuer(issue[0], "o", 1, order.Issued)
	require.EqualValues(t, 1, e.reviews(string(issue[0]), order.ReviewIssuedAfterCancel), "it could not be stopped: a person gets it back")
	minor, word, settled := e.settleCancel(c)
	require.Equal(t, []any{int64(400), "", true}, []any{minor, word, settled}, "one mug, the grant and two tickets pay for nothing")
	minor, word, settled = e.settleCancel(c)
	require.False(t, settled, "once: %d %s", minor, word)
	require.EqualValues(t, 300, e.left(a))
	require.Equal(t, string(order.CancelDone), e.cancelStatus("o"))
	require.EqualValues(t, 1, e.events(order.EventOrderCanceled))
	e.folds()
}

// What is proven not done is stopped; what is not stays, until a person has proof.
func TestCancelAndUnitsInDoubt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.pay(e.place("o", issueLine(4)))
	u := e.unitIDs("o")
	for _, id := range u {
		require.True(t, e.claimUnit(id, "o", 1))
	}
	require.NoError(t, e.s.OperationNotDone(e.ctx(), order.IssueOperation(u[0], 1), 1, "issuer_unavailable"))
	stopped, err := e.s.UnitStop(e.ctx(), u[0], "o", false)
	require.NoError(t, err)
	require.False(t, stopped, "the order stands")
	c := e.cancel("o")
	for i, want := range []bool{true, false, false} {
		stopped, err := e.s.UnitStop(e.ctx(), u[i], "o", false)
		require.NoError(t, err)
		require.Equal(t, want, stopped, i)
	}
	stopped, err = e.s.UnitStop(e.ctx(), u[1], "o", true)
	require.NoError(t, err)
	require.True(t, stopped, "a look that is final")
	e.issuer(u[2], "o", 1, order.Refused)
	require.Equal(t, string(order.UnitCanceled), e.unit(u[2]).Status)
	_, err = e.s.UnitUnresolved(e.ctx(), u[3], "o", "issuance_outcome_unknown")
	require.NoError(t, err)
	_, _, settled := e.settleCancel(c)
	require.False(t, settled)

	r := e.review(string(u[3]))
	require.Equal(t, "too_early", e.decide(decision(r, order.DecideCloseWithEvidence)).Why)
	require.Equal(t, "order_not_paid", e.decide(decision(r, order.DecideRerunUnit)).Why)
	e.quiet(u[3])
	require.Equal(t, order.Applied, e.decide(decision(r, order.DecideCloseWithEvidence)).Verdict)
	require.Equal(t, string(order.UnitCanceled), e.unit(u[3]).Status)
	minor, word, settled := e.settleCancel(c)
	require.Equal(t, []any{int64(400), "", true}, []any{minor, word, settled})
	e.folds()
}

// Where the lines do not say what the canceled units cost, a person does.
func TestCancelLeavesUnclearMoneyToAPerson(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for name, c := range map[string]struct {
		before func(id order.ID, a sqlcgen.PaymentAttempt)
		issued bool
		minor  int64
		word   string
	}{
		"adjustments":        {nil, true, 0, "adjustments"},
		"nothing provided":   {nil, false, 450, ""},
		"refunded before":    {func(_ order.ID, a sqlcgen.PaymentAttempt) { e.giveBack(a, 50) }, true, 0, "refunded_before"},
		"refunded, none out": {func(_ order.ID, a sqlcgen.PaymentAttempt) { e.giveBack(a, 50) }, false, 450, ""},
		"disputed": {func(id order.ID, _ sqlcgen.PaymentAttempt) {
			e.exec("UPDATE payments SET dispute = 'open', disputed_minor = captured_minor WHERE order_id = $1", string(id))
		}, false, 0, "refund_disputed"},
		"none with a provider": {func(id order.ID, _ sqlcgen.PaymentAttempt) {
			e.exec("UPDATE payments SET matched = false WHERE order_id = $1", string(id))
		}, false, 0, "paid_by_other_means"},
	} {
		id := order.ID(name)
		d := draftOf(id, grantLine(5))
		if name == "adjustments" || name == "nothing provided" {
			d.Adjustments = []order.Adjustment{{Kind: "discount", Amount: -50}}
			d.Total = d.Sum()
		}
		_, err := e.s.OrderPlace(e.ctx(), d, "place-"+name, order.DefaultPolicy())
		require.NoError(t, err)
		a := e.pay(d)
		if c.issued {
			_, err := e.s.FulfillInternal(e.ctx(), id, 2)
			require.NoError(t, err)
		}
		if c.before != nil {
			c.before(id, a)
		}
		minor, word, settled := e.settleCancel(e.cancel(id))
		require.Equal(t, []any{c.minor, c.word, true}, []any{minor, word, settled}, name)
		want := int64(0)
		if c.word != "" {
			want = 1
		}
		require.Equal(t, want, e.reviews(name, order.ReviewRefundProposed), name)
	}
	e.folds()
}

// Rule 9: cancels, payments' answers, claims, provisions and issuers' words at once, many times. Whatever comes first, each unit ends
// provided or canceled, stock is released or committed once per piece, and the money is given back for exactly what is not out.
func TestRule09_CancelAgainstEverything(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 20, "", "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 1000))
	outcomes := map[string]int{}
	for round := range 25 {
		id := order.ID(fmt.Sprint("o", round))
		d := e.place(id, stockLine("mug", 2), issueLine(3))
		a := e.open(d, "pay-"+string(id))
		s := answer(a, order.Succeeded)
		if round%2 == 0 { // paid before the race
			e.keep(s)
			require.Equal(t, order.OrderPaid, e.reflect(a).Order)
		}
		race := []func() error{
			func() error { _, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, "c1-"+string(id))); return err },
			func() error { _, err := e.s.CancelOpen(e.ctx(), cancelDraft(id, "c2-"+string(id))); return err },
			func() error {
				if _, err := e.s.ObservationKeep(e.ctx(), s, ""); err != nil {
					return err
				}
				_, err := e.s.Reflect(e.ctx(), idOf(a))
				return err
			},
			func() error { _, err := e.s.FulfillInternal(e.ctx(), id, 1); return err },
			func() error { _, err := e.s.FulfillInternal(e.ctx(), id, 10); return err },
		}
		for line := 1; line <= 3; line++ {
			race = append(race, func() error { return e.issueInRace(id, line) })
		}
		for i, err := range together(len(race), func(i int) error { return race[i]() }) {
			if i < 2 && err != nil {
				requireWhy(t, err, fault.Refused, "order_completed")
				continue
			}
			require.NoError(t, err)
		}
		outcomes[e.judgeCanceled(a)]++
	}
	t.Log(outcomes)
	require.Positive(t, outcomes["canceled"])
	e.folds()
}

// issueInRace claims one ticket and has the issuer answer, if the gate lets it.
func (e *env) issueInRace(id order.ID, ordinal int) error {
	u := order.UnitKey{Order: id, Line: 2, Ordinal: ordinal, Action: order.ActionIssue, Revision: 1}.ID()
	won, err := e.s.UnitClaim(e.ctx(), u, id, issueDraft(u, 1), 1)
	if f := fault.As(err); err != nil && (f.Why == "order_not_paid" || f.Code == fault.NotFound) || err == nil && !won {
		return nil
	}
	if err != nil {
		return err
	}
	_, _, err = e.s.IssuanceRecord(e.ctx(), IssuanceAnswer{
		Unit: u, Order: id, Source: "send", IssuerIssuance: "i_" + string(u),
		Seen: order.IssuanceSeen{Outcome: order.Issued, OperationID: order.IssueOperation(u, 1)},
	})
	return err
}

// judgeCanceled says how an order ended, and fails where it ended wrong.
func (e *env) judgeCanceled(a sqlcgen.PaymentAttempt) string {
	t, id := e.t, order.ID(a.OrderID)
	t.Helper()
	issued := e.count("SELECT count(*) FROM issuances WHERE order_id = $1", a.OrderID)
	switch e.status(id) {
	case order.OrderCompleted:
		require.Zero(t, e.count("SELECT count(*) FROM cancels WHERE order_id = $1", a.OrderID))
		require.EqualValues(t, 5, issued)
		return "completed"
	case order.OrderOpen: // the answer came before anybody could reflect it: it does now
		e.reflect(a)
	}
	require.Equal(t, order.OrderCanceled, e.status(id))
	c, err := e.s.q().CancelByOrder(e.ctx(), a.OrderID)
	require.NoError(t, err)
	minor, word, settled := e.settleCancel(c)
	require.True(t, settled)
	require.Empty(t, word)
	require.Equal(t, 500-100*issued, minor, "what goes back is what is not out")
	require.Zero(t, e.count("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status NOT IN ('issued', 'canceled')", a.OrderID))
	require.Equal(t, issued, e.count("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status = 'issued'", a.OrderID))
	late := e.count(`SELECT count(*) FROM transitions u JOIN transitions o ON o.order_id = u.order_id AND o.subject_kind = 'order' AND o.to_status = 'canceled'
		WHERE u.order_id = $1 AND u.subject_kind = 'unit' AND u.to_status = 'issued' AND u.transition_id > o.transition_id`, a.OrderID)
	require.Equal(t, late, e.count("SELECT count(*) FROM reviews WHERE order_id = $1 AND reason = 'issued_after_cancel'", a.OrderID), "what could not be stopped is shown, and nothing else")
	require.Zero(t, e.count(`SELECT count(*) FROM transitions u JOIN transitions o ON o.order_id = u.order_id AND o.subject_kind = 'order' AND o.to_status = 'canceled'
		WHERE u.order_id = $1 AND u.subject_kind = 'unit' AND u.to_status = 'issuing' AND u.transition_id > o.transition_id`, a.OrderID), "nothing is claimed behind the gate")
	moves := func(kind string) int64 {
		return e.count("SELECT coalesce(sum(quantity), 0) FROM stock_movements WHERE order_id = $1 AND kind = $2", a.OrderID, kind)
	}
	require.EqualValues(t, 2, moves("commit")+moves("release"), "every reserved piece went out or back, once")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'order.canceled'", a.OrderID))
	return "canceled"
}

// A full refund stops what is still planned, by whatever hand: the API's, or somebody's at the provider.
func TestFullRefundStopsWhatIsPlanned(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	require.NoError(t, e.s.StockSet(e.ctx(), "mug", 100))
	place := func(id order.ID) sqlcgen.PaymentAttempt { return e.pay(e.place(id, stockLine("mug", 3), issueLine(2))) }
	stopped := func(id order.ID, want bool) {
		t.Helper()
		n, status := int64(0), order.OrderPaid
		if want {
			n, status = 5, order.OrderCanceled
		}
		require.Equal(t, status, e.status(id), id)
		require.Equal(t, n, e.count("SELECT count(*) FROM fulfillment_units WHERE order_id = $1 AND status = 'canceled'", string(id)), id)
		require.Equal(t, n/5, e.count("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'order.canceled'", string(id)), id)
	}
	api := place("api")
	e.openRefund(api, 200)
	stopped("api", false)
	e.openRefund(api, 300)
	stopped("api", true)

	dashboard := place("dashboard")
	e.looked(dashboard, 499)
	stopped("dashboard", false)
	e.looked(dashboard, 500)
	stopped("dashboard", true)
	c := e.cancel("dashboard")
	require.Equal(t, string(order.CancelDone), c.Status, "asked again, there is nothing left to do")

	twice := place("twice") // another payment pays for it as well
	second, err := e.s.AttemptOpen(e.ctx(), attemptDraft(draftOf("twice", stockLine("mug", 3), issueLine(2)), "extra"))
	require.Error(t, err, "one at a time: %v", second)
	e.exec(`INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, method_type, currency, amount_minor, status, closed_at, close_reason)
		VALUES ('extra', 'twice', 'shop', 'extra', 'stripe', 'default', 'test', 'extra', 'card', 'JPY', 500, 'succeeded', now(), 'declined')`)
	e.exec(`INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, attempt_id, currency, captured_minor, matched)
		VALUES ('extra', 'stripe', 'default', 'test', 'pi_extra', 'twice', 'extra', 'JPY', 500, true)`)
	e.openRefund(twice, 500)
	stopped("twice", false)
	require.Equal(t, "100/3", e.stock("mug"))
}
