package store

// Goal: webhooks are kept once, find their attempt, and turn into one wanted look, whoever works beside. Method: real PostgreSQL; the
// processes are goroutines with connections of their own. Not covered: HTTP and rates, which starter/webhooks tests.

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

func receipt(id string, a sqlcgen.PaymentAttempt, says order.Outcome) Receipt {
	return Receipt{
		Account: account, EventID: id, EventType: "payment.changed", ProviderPaymentID: a.ProviderPaymentID, MerchantReference: a.MerchantReference,
		Proof: "signed", Says: says,
	}
}

// unknown is an attempt whose answer was lost.
func (e *env) unknown(id order.ID) sqlcgen.PaymentAttempt {
	e.t.Helper()
	a := e.open(e.place(id, grantLine(1)), "pay-"+string(id))
	e.keep(answer(a, order.Unknown))
	e.reflect(a)
	return e.attempt(a)
}

func TestReceiptIsKeptOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	var fresh, copies atomic.Int64
	for _, err := range together(30, func(int) error {
		k, err := e.s.ReceiptKeep(e.ctx(), receipt("evt_1", a, order.Succeeded))
		if k == KeptFresh {
			fresh.Add(1)
		} else if k == KeptCopy {
			copies.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, fresh.Load())
	require.EqualValues(t, 29, copies.Load())
	other := receipt("evt_1", a, order.Succeeded)
	other.Account.Name = "second"
	k, err := e.s.ReceiptKeep(e.ctx(), other)
	require.NoError(t, err)
	require.Equal(t, KeptFresh, k, "an id belongs to an account")
}

func TestManyReceiptsAreOneWantedLook(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 30, "deadlock_timeout = '100ms'")
	attempts := make([]sqlcgen.PaymentAttempt, 20)
	for i := range attempts {
		attempts[i] = e.unknown(order.ID(fmt.Sprintf("O-%d", i)))
	}
	for i := range 400 {
		_, err := e.s.ReceiptKeep(e.ctx(), receipt(fmt.Sprintf("evt_%d", i), attempts[i%len(attempts)], order.Succeeded))
		require.NoError(t, err)
	}
	var processed atomic.Int64
	for _, err := range together(8, func(int) error {
		for {
			done, err := e.s.ReceiptsProcess(e.ctx(), time.Hour, 7)
			processed.Add(int64(len(done)))
			if err != nil || len(done) == 0 {
				return err
			}
		}
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 400, processed.Load(), "each by one process")
	require.EqualValues(t, 20, e.count("SELECT count(*) FROM looks_wanted"))
	require.EqualValues(t, 400, e.count("SELECT count(*) FROM webhook_receipts WHERE result = 'look' AND tries = 1"))
	looks, err := e.s.LooksTake(e.ctx(), account, time.Minute, 100)
	require.NoError(t, err)
	require.Len(t, looks, 20)
	again, err := e.s.LooksTake(e.ctx(), account, time.Minute, 100)
	require.NoError(t, err)
	require.Empty(t, again, "they are leased")
}

// News that come while a run is being told are told too: the look may have been made before them.
func TestLookAskedForWhileItIsTold(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	process := func(id string, says order.Outcome) {
		_, err := e.s.ReceiptKeep(e.ctx(), receipt(id, a, says))
		require.NoError(t, err)
		_, err = e.s.ReceiptsProcess(e.ctx(), time.Hour, 10)
		require.NoError(t, err)
	}
	take := func() []Look {
		looks, err := e.s.LooksTake(e.ctx(), account, time.Minute, 10)
		require.NoError(t, err)
		return looks
	}
	process("evt_1", order.Pending)
	first := take()
	require.Len(t, first, 1)
	require.Equal(t, Look{Attempt: idOf(a), Order: "O-1", Source: "webhook", Seq: 1}, first[0])
	process("evt_2", order.Succeeded)
	require.Empty(t, take(), "the lease holds")
	require.NoError(t, e.s.LookTold(e.ctx(), first[0]))
	second := take()
	require.Len(t, second, 1)
	require.NoError(t, e.s.LookTold(e.ctx(), second[0]))
	n, err := e.s.LooksWaiting(e.ctx())
	require.NoError(t, err)
	require.Zero(t, n)
}

// The asking commits while the telling waits for its row: the look is due at once, not when its lease ends.
func TestLookAskedForInTheMomentItIsOver(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	require.NoError(t, e.s.LookWant(e.ctx(), idOf(a), "return"))
	looks, err := e.s.LooksTake(e.ctx(), account, time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, looks, 1)
	asking, err := e.owner.Begin(e.ctx())
	require.NoError(t, err)
	_, err = asking.Exec(e.ctx(), "UPDATE looks_wanted SET asked_seq = asked_seq + 1")
	require.NoError(t, err)
	told := make(chan error, 1)
	go func() { told <- e.s.LookTold(e.ctx(), looks[0]) }()
	require.Eventually(t, func() bool {
		return e.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, 20*time.Second, 10*time.Millisecond, "the telling waits for the row")
	require.NoError(t, asking.Commit(e.ctx()))
	require.NoError(t, <-told)
	require.EqualValues(t, 1, e.count("SELECT count(*) FROM looks_wanted WHERE next_try_at <= now()"))
}

// A look at the attempt asks about the attempt's own payment, so it would never show this one: two charges for one attempt, or a
// payment that others made under our name.
func TestAnotherPaymentUnderOurReferenceIsAnOrphan(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	e.exec("UPDATE payment_attempts SET provider_payment_id = 'pi_ours' WHERE attempt_id = $1", a.AttemptID)
	other := receipt("evt_1", a, order.Succeeded)
	other.ProviderPaymentID = "pi_other"
	named := receipt("evt_2", a, order.Succeeded) // says no more than our reference, so it is about ours
	named.ProviderPaymentID = ""
	for _, r := range []Receipt{other, named} {
		_, err := e.s.ReceiptKeep(e.ctx(), r)
		require.NoError(t, err)
	}
	done, err := e.s.ReceiptsProcess(e.ctx(), 0, 10)
	require.NoError(t, err)
	require.Len(t, done, 2)
	require.Equal(t, ReceiptOrphan, e.text("SELECT result FROM webhook_receipts WHERE event_id = 'evt_1'"))
	require.Equal(t, ReceiptLook, e.text("SELECT result FROM webhook_receipts WHERE event_id = 'evt_2'"))
	orphans, err := e.s.OrphansOpen(e.ctx(), 10)
	require.NoError(t, err)
	require.Len(t, orphans, 1)
	require.Equal(t, "pi_other", orphans[0].ProviderPaymentID)
	require.Equal(t, a.MerchantReference, orphans[0].MerchantReference)
}

// A buyer who waits comes before webhooks, also before those that came first.
func TestWaitingBuyersComeFirst(t *testing.T) {
	t.Parallel()
	e := setup(t)
	first, second := e.unknown("O-1"), e.unknown("O-2")
	_, err := e.s.ReceiptKeep(e.ctx(), receipt("evt_1", first, order.Succeeded))
	require.NoError(t, err)
	_, err = e.s.ReceiptsProcess(e.ctx(), time.Hour, 10)
	require.NoError(t, err)
	require.NoError(t, e.s.LookWant(e.ctx(), idOf(second), "return"))
	looks, err := e.s.LooksTake(e.ctx(), account, time.Minute, 1)
	require.NoError(t, err)
	require.Len(t, looks, 1)
	require.Equal(t, idOf(second), looks[0].Attempt)
	require.NoError(t, e.s.LooksLater(e.ctx(), []order.AttemptID{idOf(second)}, 0))
	e.keep(answer(second, order.Succeeded))
	e.reflect(second)
	looks, err = e.s.LooksTake(e.ctx(), account, time.Minute, 1)
	require.NoError(t, err)
	require.Len(t, looks, 1)
	require.True(t, looks[0].Known, "the outcome came by itself")
}

func TestAttemptByProvider(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	b := e.unknown("O-2")
	for name, c := range map[string]struct {
		account       order.Account
		id, reference string
		want          string
	}{
		"ById":                   {account, a.ProviderPaymentID, "", a.AttemptID},
		"ByReference":            {account, "", b.MerchantReference, b.AttemptID},
		"UnknownIdKnownRef":      {account, "pi_other", b.MerchantReference, b.AttemptID},
		"TheIdCounts":            {account, a.ProviderPaymentID, b.MerchantReference, a.AttemptID},
		"Nothing":                {account, "", "", ""},
		"OtherAccount":           {order.Account{Gateway: "stripe", Name: "second", Environment: "test"}, a.ProviderPaymentID, a.MerchantReference, ""},
		"OtherEnvironment":       {order.Account{Gateway: "stripe", Name: "default", Environment: "live"}, a.ProviderPaymentID, a.MerchantReference, ""},
		"OtherGateway":           {order.Account{Gateway: "toss", Name: "default", Environment: "test"}, a.ProviderPaymentID, a.MerchantReference, ""},
		"HostileTextIsOnlyText":  {account, "' OR 1=1 --", "%", ""},
		"NotKnownUnderEitherOne": {account, "pi_none", "OFNONE", ""},
	} {
		got, err := e.s.AttemptByProvider(e.ctx(), c.account, c.id, c.reference)
		if c.want == "" {
			require.True(t, fault.IsCode(err, fault.NotFound), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.AttemptID, name)
	}
	for _, hash := range [][]byte{nil, {}, []byte("none")} {
		_, err := e.s.AttemptByReturnToken(e.ctx(), hash)
		require.True(t, fault.IsCode(err, fault.NotFound), "%v", err)
	}
}

// What is claimed by a notice is known or not: every claim against every state.
func TestClaims(t *testing.T) {
	t.Parallel()
	known := map[order.Outcome]map[order.Status]bool{
		order.Succeeded: {order.AttemptSucceeded: true},
		order.Declined:  {order.AttemptDeclined: true, order.AttemptClosed: true},
		order.Pending:   {order.AttemptPending: true},
		order.Untouched: {order.AttemptCreated: true, order.AttemptSent: true, order.AttemptSucceeded: true, order.AttemptDeclined: true, order.AttemptClosed: true},
		saysSettled:     {order.AttemptSucceeded: true, order.AttemptDeclined: true, order.AttemptClosed: true},
	}
	for _, says := range []order.Outcome{"", order.Unknown, order.NotFound, order.Succeeded, order.Declined, order.Pending, order.Untouched, saysSettled} {
		for _, s := range order.AttemptStatuses {
			require.Equal(t, known[says][s], claimsKnown(says, s), "%s says %s", s, says)
		}
	}
}

func TestWaitsGrowToAMinute(t *testing.T) {
	t.Parallel()
	require.Equal(t, 250*time.Millisecond, receiptWait(0))
	require.Equal(t, time.Second, receiptWait(2))
	last := time.Duration(0)
	for tries := range 100 {
		w := receiptWait(tries)
		require.GreaterOrEqual(t, w, last)
		last = w
	}
	require.Equal(t, time.Minute, last)
}

func TestPruning(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.unknown("O-1")
	nobody := sqlcgen.PaymentAttempt{ProviderPaymentID: "pi_nobody"}
	for id, r := range map[string]Receipt{
		"proven": receipt("proven", a, order.Succeeded), "hint": receipt("hint", nobody, order.Succeeded), "waits": receipt("waits", nobody, ""),
		"known hint": receipt("known hint", a, order.Succeeded),
	} {
		if id == "hint" || id == "known hint" {
			r.Proof = "none"
		}
		_, err := e.s.ReceiptKeep(e.ctx(), r)
		require.NoError(t, err)
	}
	age := func(d string) {
		e.exec("UPDATE webhook_receipts SET processed_at = now() - $1::text::interval, result = CASE event_id WHEN 'hint' THEN 'unmatched' ELSE 'look' END WHERE event_id <> 'waits'", d)
	}
	left := func() string {
		return e.text("SELECT coalesce(string_agg(event_id, ', ' ORDER BY event_id), '') FROM webhook_receipts")
	}
	age("23 hours")
	prune := func() {
		_, err := e.s.ReceiptsPrune(e.ctx(), 30*24*time.Hour)
		require.NoError(t, err)
	}
	prune()
	require.Equal(t, "hint, known hint, proven, waits", left())
	age("25 hours")
	prune()
	require.Equal(t, "known hint, proven, waits", left())
	age("31 days")
	prune()
	require.Equal(t, "waits", left(), "what is not processed is not forgotten")
}

// PC-14: webhooks and confirms at once, in every order.
func TestWebhooksAndReflectionsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	e := setupConns(t, 30, "deadlock_timeout = '100ms'")
	attempts := make([]sqlcgen.PaymentAttempt, 40)
	for i := range attempts {
		attempts[i] = e.unknown(order.ID(fmt.Sprintf("O-%d", i)))
	}
	for _, err := range together(len(attempts)*2, func(i int) error {
		a := attempts[i/2]
		if i%2 == 0 {
			s := answer(a, order.Succeeded)
			if _, err := e.s.ObservationKeep(e.ctx(), s, ""); err != nil {
				return err
			}
			_, err := e.s.Reflect(e.ctx(), idOf(a))
			return err
		}
		if _, err := e.s.ReceiptKeep(e.ctx(), receipt("evt_"+a.AttemptID, a, order.Declined)); err != nil {
			return err
		}
		if _, err := e.s.ReceiptsProcess(e.ctx(), time.Hour, 100); err != nil {
			return err
		}
		return e.s.AttemptAskOnce(e.ctx(), idOf(a))
	}) {
		require.NoError(t, err)
	}
	for i := range attempts {
		require.Equal(t, order.OrderPaid, e.status(order.ID(fmt.Sprintf("O-%d", i))))
	}
	require.Zero(t, e.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
	e.folds()
}
