package gatewaytest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func refundWhole(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	total := a.payment.Amount.Minor
	r := b.planRefund(t, a, total, total)
	seen := b.give(t, r)
	require.Contains(t, []int64{-1, total}, seen.RefundedMinor)
	b.back(t, a, total, 1)

	for _, known := range []string{r.id, ""} { // by the provider's id, and without ever having learnt it
		r.id = known
		seen, err := b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		b.went(t, r, seen, gateways.Succeeded)
		require.Contains(t, []int64{-1, total}, seen.RefundedMinor)
	}
	b.takenAndGiven(t, a, total)
}

// takenAndGiven asserts that a lookup of the payment says both: what went back stands beside what was taken.
func (b giving) takenAndGiven(t *testing.T, a *attempt, given int64) {
	t.Helper()
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, given, o.RefundedMinor)
	require.Equal(t, a.payment.Amount.Minor, o.CapturedMinor)
	require.Equal(t, gateways.Succeeded, o.Outcome, "money that was taken and given back was taken")
}

func refundTwice(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	total := a.payment.Amount.Minor
	part := total/2 - 3
	first := b.planRefund(t, a, part, total)
	require.Contains(t, []int64{-1, part}, b.give(t, first).RefundedMinor)
	b.back(t, a, part, 1)
	second := b.planRefund(t, a, total-part, total-part)
	second.known = []string{first.id}
	require.Contains(t, []int64{-1, total}, b.give(t, second).RefundedMinor)
	b.back(t, a, total, 2)
	require.NotEqual(t, first.id, second.id)
	for _, r := range []*giveBack{first, second} {
		seen, err := b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		b.went(t, r, seen, gateways.Succeeded)
	}
	b.takenAndGiven(t, a, total)
}

func sameRefundTwice(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	b.guarded(t, gateways.Refund, a)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	first := b.give(t, r)
	b.restart(t, nil) // the second send comes from another process
	require.Equal(t, first.RefundID, b.give(t, r).RefundID)
	b.back(t, a, 20, 1)
}

func refundLostThenLookup(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	b.Arm(t, Fault{Kind: LoseAnswer, On: gateways.Refund})
	_, err := b.sendRefund(t.Context(), r)
	require.Zero(t, class(t, err, fault.Unknown).Provider.HTTPStatus, "no answer at all")
	b.back(t, a, 20, 1)
	seen, err := b.lookRefund(t.Context(), r)
	require.NoError(t, err)
	b.went(t, r, seen, gateways.Succeeded)
	require.Len(t, writesOf(b.Writes(t), gateways.Refund), 1, "a lookup never writes, a send writes once")
}

func refundLostThenRepeat(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	b.guarded(t, gateways.Refund, a)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Refund})
	b.Arm(t, Fault{Kind: LoseAnswer, On: gateways.Refund})
	for range 2 {
		_, err := b.sendRefund(t.Context(), r)
		class(t, err, fault.Unknown)
	}
	b.give(t, r)
	b.back(t, a, 20, 1)
	sent := writesOf(b.Writes(t), gateways.Refund)
	require.Len(t, sent, 3, "one send is one request: nothing below repeats by itself")
	for _, w := range sent {
		require.Equal(t, string(sent[0].Body), string(w.Body), "byte-identical over sends")
	}
}

func refundCutBefore(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Refund})
	_, err := b.sendRefund(t.Context(), r)
	class(t, err, fault.Unknown)
	b.back(t, a, 0, 0)
	require.Len(t, writesOf(b.Writes(t), gateways.Refund), 1, "one send is one request")
	b.seenNowhere(t, r)
}

func refundStoredError(t *testing.T, h Harness) {
	for _, effect := range []bool{true, false} {
		b := givingBench(t, h)
		a := b.captured(t)
		r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
		b.Arm(t, Fault{Kind: Stored, On: gateways.Refund, Effect: effect})
		_, err := b.sendRefund(t.Context(), r)
		class(t, err, fault.Unknown)
		if !effect {
			b.back(t, a, 0, 0)
			b.seenNowhere(t, r)
			continue
		}
		b.back(t, a, 20, 1)
		seen, err := b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		b.went(t, r, seen, gateways.Succeeded)
	}
}

func refundTimeout(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	b.restart(t, func(s *gateways.Settings) { s.Timeout = 300 * time.Millisecond })
	b.Arm(t, Fault{Kind: Hang, On: gateways.Refund})
	begun := time.Now()
	_, err := b.sendRefund(t.Context(), r)
	class(t, err, fault.Unknown)
	require.Less(t, time.Since(begun), 5*time.Second, "the gateway bounds its own time")
	b.restart(t, nil)
	seen, err := b.lookRefund(t.Context(), r)
	require.NoError(t, err)
	b.went(t, r, seen, gateways.Succeeded)

	b.Arm(t, Fault{Kind: Answer, On: RefundLookup, Status: 500})
	_, err = b.lookRefund(t.Context(), r)
	class(t, err, fault.Transient)
}

// refundAbove: our books say more than there is, as after a refund at the provider's dashboard. The provider refuses, and
// the refusal is none that "unknown" would hide.
func refundAbove(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	total := a.payment.Amount.Minor
	b.give(t, b.planRefund(t, a, total-20, total))
	for _, minor := range []int64{30, total} {
		r := b.planRefund(t, a, minor, total)
		_, err := b.sendRefund(t.Context(), r)
		require.Error(t, err)
		require.Contains(t, []fault.Class{fault.Conflict, fault.Declined, fault.Invalid}, fault.As(err).Class, "%v", err)
		require.NotZero(t, fault.As(err).Provider.HTTPStatus, "it was answered")
		b.back(t, a, total-20, 1)
		seen, err := b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, gateways.NotFound, seen.Outcome)
	}
}

func refundUncaptured(t *testing.T, h Harness) {
	b := givingBench(t, h)
	buyers, ok := b.Provider.(Buying)
	if !ok {
		t.Skip("the harness has no payments that wait for their buyer")
	}
	a := b.prepare(t, b.plan(t, buyers.Waiting(t, reference(), standard(h))))
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, o.Outcome)
	total := a.payment.Amount.Minor
	for _, minor := range []int64{20, total} {
		r := b.planRefund(t, a, minor, total)
		seen, err := b.sendRefund(t.Context(), r)
		if err == nil {
			require.NotContains(t, []gateways.Outcome{gateways.Succeeded, gateways.Pending}, seen.Outcome, "nothing was there to go back")
		}
		b.back(t, a, 0, 0)
		seen, err = b.lookRefund(t.Context(), r)
		if err == nil {
			require.NotContains(t, []gateways.Outcome{gateways.Succeeded, gateways.Pending}, seen.Outcome)
		}
	}
}

func refundSlow(t *testing.T, h Harness) {
	for _, ok := range []bool{true, false} {
		b := givingBench(t, h)
		slow, has := b.Provider.(SlowlyGiving)
		if !has {
			t.Skip("the provider's refunds are done at once")
		}
		amount := standard(h)
		if h.SlowPrice.Minor > 0 {
			amount = h.SlowPrice
		}
		a := b.capturedOf(t, slow.Slowly(t, reference(), amount))
		r := b.planRefund(t, a, amount.Minor, amount.Minor)
		seen, err := b.sendRefund(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, gateways.Pending, seen.Outcome)
		seen, err = b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		b.went(t, r, seen, gateways.Pending)
		r.id = seen.RefundID
		if !slow.EndRefund(t, seen, ok) {
			continue
		}
		seen, err = b.lookRefund(t.Context(), r)
		require.NoError(t, err)
		want, given := gateways.Succeeded, amount.Minor
		if !ok {
			want, given = gateways.Declined, 0
		}
		b.went(t, r, seen, want)
		got, _ := b.books.GivenBack(t, a.id, a.payment.MerchantReference)
		require.Equal(t, given, got)
	}
}

// otherRefund: an answer about somebody else's refund may be refused; if it is not, it carries the ids it came with.
func otherRefund(t *testing.T, h Harness) {
	b := givingBench(t, h)
	other := b.captured(t)
	foreign := b.give(t, b.planRefund(t, other, 20, other.payment.Amount.Minor))
	sent, looked := b.books.RefundAnswers(t, foreign)

	a := b.captured(t)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	b.Arm(t, Fault{Kind: Answer, On: gateways.Refund, Status: 200, Body: sent})
	seen, err := b.sendRefund(t.Context(), r)
	if err != nil || seen.Outcome == gateways.Unknown {
		unsettledRefund(t, seen, err, fault.Unknown)
	} else {
		require.Equal(t, other.id, seen.ProviderPaymentID)
		require.Equal(t, foreign.Reference, seen.Reference)
	}
	b.Arm(t, Fault{Kind: Answer, On: RefundLookup, Status: 200, Body: looked})
	seen, err = b.lookRefund(t.Context(), r)
	switch {
	case err != nil:
		class(t, err, fault.Transient)
	case seen.Outcome != gateways.NotFound && seen.Outcome != gateways.Unknown:
		require.Equal(t, other.id, seen.ProviderPaymentID)
		require.Equal(t, foreign.Reference, seen.Reference)
	}
	b.back(t, a, 0, 0)
}

func refundGarbage(t *testing.T, h Harness) {
	b := givingBench(t, h)
	example := b.captured(t)
	sent, looked := b.books.RefundAnswers(t, b.give(t, b.planRefund(t, example, 20, example.payment.Amount.Minor)))
	written, read := rubbishes(h, sent), rubbishes(h, looked)
	for name, body := range h.WrongRefunds {
		written = append(written, rubbish{"WrongRefund" + name, 200, body})
		read = append(read, rubbish{"WrongRefund" + name, 200, body})
	}
	byName := map[string]rubbish{} // the wrong objects come out of a map
	for _, r := range read {
		byName[r.name] = r
	}
	for _, w := range written {
		t.Run(w.name, func(t *testing.T) {
			a := b.captured(t)
			r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
			b.Arm(t, Fault{Kind: Answer, On: gateways.Refund, Effect: true, Status: w.status, Body: w.body})
			seen, err := b.sendRefund(t.Context(), r)
			unsettledRefund(t, seen, err, fault.Unknown)

			look := byName[w.name]
			b.Arm(t, Fault{Kind: Answer, On: RefundLookup, Status: look.status, Body: look.body})
			seen, err = b.lookRefund(t.Context(), r)
			unsettledRefund(t, seen, err, fault.Transient, gateways.NotFound)

			seen, err = b.lookRefund(t.Context(), r)
			require.NoError(t, err)
			b.went(t, r, seen, gateways.Succeeded)
			b.back(t, a, 20, 1)
		})
	}
}

// refundKeys: a confirm's key is never a refund's, and each goes out as it was stored (PC-33).
func refundKeys(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	r := b.planRefund(t, a, 20, a.payment.Amount.Minor)
	before := len(b.Writes(t))
	for _, key := range []string{"", " "} {
		op := r.op
		op.Key = key
		if h.NoKeys && key != "" {
			continue // it stays with us, so only its absence is a bug
		}
		_, err := b.refunder.SendRefund(t.Context(), op)
		class(t, err, fault.Internal)
	}
	empty, other := r.op, r.op
	empty.Request, other.ProviderPaymentID = nil, ""
	for _, op := range []gateways.Operation{empty, other} {
		_, err := b.refunder.SendRefund(t.Context(), op)
		class(t, err, fault.Internal)
	}
	_, err := b.gw.Send(t.Context(), gateways.Refund, r.op)
	class(t, err, fault.Internal) // a refund goes out by SendRefund alone
	require.Len(t, b.Writes(t), before, "nothing left")
	b.give(t, r)
	if h.NoKeys {
		return
	}
	seen := map[string]gateways.Kind{}
	for _, w := range b.Writes(t) {
		require.NotContains(t, seen, w.Key, "one key, one write")
		seen[w.Key] = w.Kind
	}
	require.Equal(t, gateways.Refund, seen[r.op.Key])
	require.Equal(t, gateways.Confirm, seen[a.operation(gateways.Confirm).Key])
}

func refundForms(t *testing.T, h Harness) {
	b := givingBench(t, h)
	a := b.captured(t)
	total := a.payment.Amount.Minor
	good := b.planRefund(t, a, 20, total).asked
	before := len(b.Writes(t))
	for name, change := range map[string]func(*gateways.GiveBack){
		"Nothing":        func(r *gateways.GiveBack) { r.Amount.Minor = 0 },
		"Negative":       func(r *gateways.GiveBack) { r.Amount.Minor = -20 },
		"AboveWhatsLeft": func(r *gateways.GiveBack) { r.Amount.Minor = total + 1 },
		"OtherCurrency":  func(r *gateways.GiveBack) { r.Left.Currency = "CHF" },
		"NoCurrency":     func(r *gateways.GiveBack) { r.Amount.Currency, r.Left.Currency = "", "" },
		"OddCurrency":    func(r *gateways.GiveBack) { r.Amount.Currency, r.Left.Currency = "ZZZ", "ZZZ" },
		"NotTheWhole":    func(r *gateways.GiveBack) { r.Whole = true },
		"NoReference":    func(r *gateways.GiveBack) { r.Reference = "" },
		"OddReference":   func(r *gateways.GiveBack) { r.Reference = "a&amount=1" },
		"NoPayment":      func(r *gateways.GiveBack) { r.ProviderPaymentID = "" },
		"PathAsPayment":  func(r *gateways.GiveBack) { r.ProviderPaymentID = "../refunds" },
	} {
		r := good
		change(&r)
		_, err := b.refunder.PlanRefund(r)
		require.Error(t, err, name)
		require.Error(t, class(t, err, fault.Invalid).Cause, "the cause says what to do: %s", name)
	}
	for name, q := range map[string]gateways.RefundQuery{
		"Nothing":       {},
		"PathAsPayment": {ProviderPaymentID: "../refunds", MerchantReference: "../refunds", Reference: good.Reference, Amount: good.Amount},
	} {
		_, err := b.refunder.LookupRefund(t.Context(), q)
		require.Error(t, err, name)
		class(t, err, fault.Internal)
	}
	require.Len(t, b.Writes(t), before, "nothing left")
}
