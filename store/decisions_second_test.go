package store

// Goal: money and forced reruns take two people, a refund that a person decides is one refund, an orphan is linked once, and a crowd of
// people decides each review once. Method: the real database; the provider's part is played by answers.

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

var bob = order.Actor{Name: "bob", Role: order.RoleApprover, Channel: order.ChannelPage, Authenticated: true}

// strict is the same database with the two-person rule on.
func (e *env) strict() *Store { return New(e.s.pool, Options{Receivers: e.s.opts.Receivers}) }

// withRefunds is a door whose refunds are planned as every account would.
var withRefunds = Door{Refund: func(_ context.Context, p RefundPlan) (RefundDraft, error) {
	id := order.NewRefundID()
	return RefundDraft{ID: id, Reference: order.NewRefundReference(), Operation: OperationDraft{
		ID: order.RefundOperation(id), Kind: "refund", Sealed: []byte("r"), Fingerprint: []byte("f"),
	}}, nil
}}

// extraPayment is an order with a second captured payment, and the review that asks about it.
func (e *env) extraPayment() order.ReviewID {
	e.t.Helper()
	e.pay(e.place("o", grantLine(1)))
	e.exec(`INSERT INTO payment_attempts (attempt_id, order_id, client_id, caller_key, gateway, account, environment, merchant_reference, provider_payment_id, method_type,
		currency, amount_minor, status, closed_at, close_reason) SELECT 'att_extra', order_id, client_id, 'k-extra', gateway, account, environment, 'OFEXTRA', 'pi_extra', method_type,
		currency, amount_minor, 'succeeded', now(), 'declined' FROM payment_attempts LIMIT 1`)
	e.exec(`INSERT INTO payments (payment_id, gateway, account, environment, provider_payment_id, order_id, attempt_id, currency, captured_minor, matched)
		SELECT 'pay_extra', gateway, account, environment, 'pi_extra', order_id, 'att_extra', currency, captured_minor, true FROM payments LIMIT 1`)
	e.exec(`INSERT INTO reviews (review_id, order_id, subject_kind, subject_id, subject_version, reason, gateway, next_check_at)
		VALUES ('rev_extra', 'o', 'attempt', 'att_extra', 1, 'extra_payment', 'stripe', now())`)
	return "rev_extra"
}

func TestARefundTakesTwoPeople(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.extraPayment()
	s := e.strict()
	say := func(d order.Decision, by order.Actor) order.DecisionResult {
		res, _, err := s.Decide(e.ctx(), d, by, withRefunds)
		require.NoError(t, err)
		return res
	}
	first := decision(e.review("att_extra"), order.DecideRefund)
	first.DecisionID = "dec_first"
	require.Equal(t, order.Proposed, say(first, ann).Verdict)
	again := say(first, ann)
	require.True(t, again.Replayed)
	require.Equal(t, order.Proposed, again.Verdict)
	require.EqualValues(t, 0, e.count("SELECT count(*) FROM refunds"), "a proposal moves nothing")
	f, err := s.ReviewFile(e.ctx(), "", "rev_extra")
	require.NoError(t, err)
	require.Equal(t, "dec_first", f.Open().DecisionID)
	other := decision(e.review("att_extra"), order.DecideCloseWithEvidence)
	other.ReviewVersion--
	require.Equal(t, "review_moved", say(other, bob).Why, "who has not seen the proposal decides nothing")

	yes := decision(e.review("att_extra"), order.DecideRefund)
	yes.DecisionID, yes.Approves, yes.Reason = "dec_second", "dec_first", "I saw it too"
	annAgain := ann
	annAgain.Role = order.RoleApprover
	require.Equal(t, "same_person", say(yes, annAgain).Why)
	typed := bob
	typed.Authenticated, typed.Channel = false, order.ChannelTemporalSignal
	require.Equal(t, "approver_not_authenticated", say(yes, typed).Why)
	require.Equal(t, order.Applied, say(yes, bob).Verdict)
	require.True(t, say(yes, bob).Replayed)
	require.True(t, say(first, ann).Replayed, "the first person's repeat finds its effect")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM refunds"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM operations WHERE kind = 'refund'"))
	require.Equal(t, "duplicate", e.text("SELECT reason FROM refunds"))
	require.Equal(t, "ann|operator|bob|approver|I saw it too", e.text("SELECT actor || '|' || actor_role || '|' || approver || '|' || approver_role || '|' || approver_reason FROM review_decisions"))
	require.Equal(t, e.text("SELECT operation_id FROM refunds"), e.text("SELECT operation_id FROM review_decisions"))
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM decision_proposals WHERE status = 'applied'"))
	require.EqualValues(t, 3, e.count("SELECT count(*) FROM audit_log WHERE act = 'decision_refused' AND review_id = 'rev_extra'"))
}

func TestLinkingAnOrphan(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.open(e.place("o", grantLine(1)), "k")
	e.exec("UPDATE payment_attempts SET status = 'closed', closed_at = now(), close_reason = 'never_sent', provider_payment_id = ''")
	e.exec(`INSERT INTO orphan_payments (orphan_id, gateway, account, environment, subject, provider_payment_id, currency, captured_minor)
		VALUES ('orp_1', $1, $2, $3, 'pi_9', 'pi_9', $4, $5)`, a.Gateway, a.Account, a.Environment, a.Currency, a.AmountMinor)
	e.exec(`INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at) VALUES ('rev_orphan', 'orphan', 'orp_1', 0, 'orphan_payment', now())`)
	d := decision(e.review("orp_1"), order.DecideLinkPayment)
	d.AttemptID, d.Evidence.Reference = idOf(a), "pi_9"
	mine, _, err := e.s.Decide(e.ctx(), d, ann, Door{Client: client})
	require.NoError(t, err)
	require.Equal(t, "no_such_review", mine.Why, "an orphan is no client's")
	res, id, err := e.s.Decide(e.ctx(), d, ann, Door{})
	require.NoError(t, err)
	require.Equal(t, order.Applied, res.Verdict, res.Why)
	require.Equal(t, order.ID("o"), id)
	require.Equal(t, "linked", e.text("SELECT status FROM orphan_payments"))
	require.Equal(t, "pi_9", e.attempt(a).ProviderPaymentID)
	require.Equal(t, order.OrderOpen, e.status("o"), "only the provider's answer pays")
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM looks_wanted"))
	require.Equal(t, "open|linked", e.text("SELECT (before->>'orphan') || '|' || (after->>'orphan') FROM review_decisions WHERE order_id = 'o'"))
}

// Fifty people at once on two hundred reviews: each is decided once, and everybody else is told so.
func TestFiftyPeopleOnTwoHundredReviews(t *testing.T) {
	t.Parallel()
	const people, reviews = 50, 200
	e := setup(t)
	e.exec(`INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, next_check_at)
		SELECT 'rev_' || n, 'order', 'none-' || n, 0, 'repeated_failure', now() FROM generate_series(1, $1) n`, reviews)
	var mu sync.Mutex
	won, told := map[order.ReviewID]string{}, map[string]int{}
	for _, err := range together(people, func(i int) error {
		by := order.Actor{Name: fmt.Sprint("person-", i), Role: order.RoleOperator, Channel: order.ChannelPage, Authenticated: true}
		for n := range reviews {
			id := order.ReviewID(fmt.Sprint("rev_", 1+(n+i*7)%reviews))
			d := order.Decision{ReviewID: id, ReviewVersion: 1, Decision: order.DecideCloseWithEvidence, Reason: "seen", Evidence: order.Evidence{Proof: by.Name}}
			res, _, err := e.s.Decide(e.ctx(), d, by, Door{})
			if err != nil {
				return err
			}
			mu.Lock()
			if res.Verdict == order.Applied {
				if won[id] != "" {
					err = fmt.Errorf("%s was decided by %s and %s", id, won[id], by.Name)
				}
				won[id] = by.Name
			} else {
				told[res.Why]++
			}
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		require.NoError(t, err)
	}
	require.Len(t, won, reviews)
	require.EqualValues(t, reviews, e.count("SELECT count(*) FROM review_decisions"))
	require.EqualValues(t, reviews, e.count("SELECT count(*) FROM reviews r JOIN review_decisions d ON d.decision_id = r.resolved_by AND d.review_id = r.review_id"))
	require.Equal(t, reviews*(people-1), told["review_closed"]+told["review_moved"], "%v", told)
	require.EqualValues(t, reviews*(people-1), e.count("SELECT count(*) FROM audit_log WHERE act = 'decision_refused'"))
}

// Ten thousand open reviews: pages meet without a gap or a double, filters hold, and a page is read from the index.
func TestTheQueueWithTenThousandReviews(t *testing.T) {
	t.Parallel()
	e := setup(t)
	const many = 10_000
	e.exec(`INSERT INTO reviews (review_id, subject_kind, subject_id, subject_version, reason, gateway, assigned_to, assigned_at, opened_at, next_check_at)
		SELECT 'rev_' || n, 'order', 'none-' || n, 0, CASE WHEN n % 10 = 0 THEN 'poison_event' ELSE 'repeated_failure' END, CASE WHEN n % 100 = 0 THEN 'omise' ELSE 'stripe' END,
		       CASE WHEN n % 50 = 0 THEN 'ann' ELSE '' END, CASE WHEN n % 50 = 0 THEN now() END, now() - (n / 3) * interval '1 second', now() FROM generate_series(1, $1) n`, many)
	e.exec("ANALYZE reviews")
	seen, pages := map[string]bool{}, 0
	var slowest time.Duration
	for after, more := (QueueKey{}), true; more; pages++ {
		began := time.Now()
		items, next, err := e.s.ReviewQueue(e.ctx(), QueueFilter{}, after, MaxQueuePage)
		slowest = max(slowest, time.Since(began))
		require.NoError(t, err)
		for _, i := range items {
			require.False(t, seen[i.Review.ReviewID], "twice")
			seen[i.Review.ReviewID] = true
		}
		after, more = items[len(items)-1].Key(), next
	}
	require.Len(t, seen, many)
	for want, f := range map[int]QueueFilter{
		1000: {Reason: order.ReviewPoisonEvent}, 100: {Gateway: "omise"}, 200: {AssignedTo: "ann"}, 9800: {Unassigned: true}, 0: {Owner: "nobody"}, many: {Owner: DefaultOwner},
	} {
		n := 0
		for after, more := (QueueKey{}), true; more; {
			began := time.Now()
			items, next, err := e.s.ReviewQueue(e.ctx(), f, after, MaxQueuePage)
			slowest = max(slowest, time.Since(began))
			require.NoError(t, err)
			n += len(items)
			if more = next; more {
				after = items[len(items)-1].Key()
			}
		}
		require.Equal(t, want, n, "%+v", f)
	}
	t.Logf("%d pages of %d; the slowest of all took %s", pages, MaxQueuePage, slowest)
	if os.Getenv("ORDERFLOW_ASSERT_TIMES") == "1" {
		require.Less(t, slowest, 300*time.Millisecond)
	}
	_, _, err := e.s.ReviewQueue(e.ctx(), QueueFilter{MinAge: time.Hour}, QueueKey{}, 10)
	require.NoError(t, err)
	figures, err := e.s.Figures(e.ctx())
	require.NoError(t, err)
	require.EqualValues(t, 200, figures.Failures[len(figures.Failures)-1].Count, "ann's")
	require.Nil(t, figures.OldestUnknown)
	require.Nil(t, figures.PaidOldest)
}

func TestTakingAReview(t *testing.T) {
	t.Parallel()
	e := setup(t)
	u := e.unknownUnit()
	id := order.ReviewID(e.review(string(u)).ReviewID)
	version := e.review(string(u)).Version
	take := func(to, from string, by order.Actor, client order.ClientID) error {
		_, err := e.s.ReviewAssign(e.ctx(), Assignment{Review: id, Client: client, To: to, From: from}, by)
		return err
	}
	require.NoError(t, take("ann", "", ann, ""))
	require.ErrorContains(t, take("bob", "", bob, ""), "assigned_elsewhere")
	require.NoError(t, take("bob", "ann", bob, client))
	require.Error(t, take("bob", "ann", bob, "another"), "not found")
	viewer := ann
	viewer.Role = order.RoleViewer
	require.ErrorContains(t, take("ann", "bob", viewer, ""), "role_too_low")
	require.Equal(t, "bob", e.review(string(u)).AssignedTo)
	require.Equal(t, version, e.review(string(u)).Version, "who has it is no fact that a decision rests on")
	require.EqualValues(t, 2, e.count("SELECT count(*) FROM audit_log WHERE act = 'review_assigned'"))
	figures, err := e.s.Figures(e.ctx())
	require.NoError(t, err)
	require.Equal(t, string(u), figures.OldestUnknown.SubjectID)
	require.Equal(t, id, figures.OldestUnknown.Review)
	require.EqualValues(t, 1, figures.PaidNotProvided)
	require.Equal(t, "tickets", e.review(string(u)).Gateway)
	require.NoError(t, take("", "bob", bob, ""))
}
