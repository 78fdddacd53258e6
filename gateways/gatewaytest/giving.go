package gatewaytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// Giving is the part of a Provider whose gateway can give money back (Capabilities.CanRefund).
type Giving interface {
	// GivenBack is what went back of a payment, from the provider's own books: minor units, in so many refunds.
	GivenBack(t *testing.T, providerPaymentID, reference string) (minor int64, times int)
	// RefundAnswers are the provider's own answer bodies about a refund: as the write carried it, and as a lookup does.
	RefundAnswers(t *testing.T, seen gateways.RefundSeen) (sent, looked []byte)
}

// SlowlyGiving is an optional part of a Provider that is Giving: refunds that take their time.
type SlowlyGiving interface {
	// Slowly is a payment whose refunds are pending at first.
	Slowly(t *testing.T, reference string, amount money.Amount) gateways.Payment
	// EndRefund lets a pending refund succeed or fail; false = the provider has no such ending.
	EndRefund(t *testing.T, seen gateways.RefundSeen, ok bool) bool
}

// giving is a bench whose gateway gives money back.
type giving struct {
	bench
	refunder gateways.Refunder
	books    Giving
}

func givingBench(t *testing.T, h Harness) giving {
	t.Helper()
	b := setup(t, h)
	if !b.caps.CanRefund {
		t.Skip("the gateway gives no money back")
	}
	books, ok := b.Provider.(Giving)
	require.True(t, ok, "a gateway that gives money back needs a harness whose books say what went back")
	return giving{bench: b, refunder: b.gw.(gateways.Refunder), books: books}
}

// restart opens the gateway anew, as another process does after a crash.
func (b *giving) restart(t *testing.T, change func(*gateways.Settings)) {
	t.Helper()
	b.gw = b.Open(t, change)
	b.refunder = b.gw.(gateways.Refunder)
}

// captured is a payment that took its money.
func (b giving) captured(t *testing.T) *attempt {
	t.Helper()
	return b.capturedOf(t, b.Payment(t, reference(), standard(b.h)))
}

func (b giving) capturedOf(t *testing.T, p gateways.Payment) *attempt {
	t.Helper()
	a := b.prepare(t, b.plan(t, p))
	o, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	b.paid(t, a, o)
	return a
}

// giveBack is one refund with its stored write, as the store would hold it.
type giveBack struct {
	of    *attempt
	asked gateways.GiveBack
	op    gateways.Operation
	since time.Time
	id    string // the provider's, once learnt
	known []string
}

// planRefund freezes a refund of minor units, of which left could still go back.
func (b giving) planRefund(t *testing.T, a *attempt, minor, left int64) *giveBack {
	t.Helper()
	c := a.payment.Amount.Currency
	r := &giveBack{of: a, since: time.Now(), asked: gateways.GiveBack{
		Reference: reference(), ProviderPaymentID: a.id, MerchantReference: a.payment.MerchantReference,
		Amount: money.Amount{Minor: minor, Currency: c}, Left: money.Amount{Minor: left, Currency: c},
		Whole: minor == a.payment.Amount.Minor, Private: a.private,
	}}
	planned, err := b.refunder.PlanRefund(r.asked)
	require.NoError(t, err)
	require.Equal(t, gateways.Refund, planned.Kind)
	require.NotEmpty(t, planned.Request)
	again, err := b.refunder.PlanRefund(r.asked)
	require.NoError(t, err)
	require.Equal(t, planned, again, "planning is pure")
	r.op = gateways.Operation{
		Key: "refund-" + r.asked.Reference, ProviderPaymentID: a.id, MerchantReference: a.payment.MerchantReference,
		Request: planned.Request, Private: a.private,
	}
	return r
}

func (b giving) sendRefund(ctx context.Context, r *giveBack) (gateways.RefundSeen, error) {
	return b.refunder.SendRefund(ctx, r.op)
}

func (b giving) lookRefund(ctx context.Context, r *giveBack) (gateways.RefundSeen, error) {
	return b.refunder.LookupRefund(ctx, gateways.RefundQuery{
		ProviderPaymentID: r.of.id, MerchantReference: r.of.payment.MerchantReference, RefundID: r.id,
		Reference: r.asked.Reference, Amount: r.asked.Amount, Since: r.since, Known: r.known, Private: r.of.private,
	})
}

// give sends a refund that the provider carries out at once and asserts what it answers. Where the answer is only
// "accepted", a lookup tells the rest, as it does for every caller.
func (b giving) give(t *testing.T, r *giveBack) gateways.RefundSeen {
	t.Helper()
	seen, err := b.sendRefund(t.Context(), r)
	require.NoError(t, err)
	if b.h.RefundsAreAccepted && seen.Outcome == gateways.Pending {
		seen, err = b.lookRefund(t.Context(), r)
		require.NoError(t, err)
	}
	b.went(t, r, seen, gateways.Succeeded)
	r.id = seen.RefundID
	return seen
}

// went asserts that an answer is the whole truth about a refund.
func (b giving) went(t *testing.T, r *giveBack, seen gateways.RefundSeen, want gateways.Outcome) {
	t.Helper()
	require.Equal(t, want, seen.Outcome)
	require.Equal(t, b.gw.Account(), seen.Account)
	require.Equal(t, r.of.id, seen.ProviderPaymentID)
	require.Equal(t, r.asked.Amount.Currency, seen.Currency)
	require.Equal(t, r.asked.Amount.Minor, seen.AmountMinor)
	require.NotEmpty(t, seen.RefundID, "a refund that is seen has a name")
	if !b.h.RefundsAreNameless {
		require.Equal(t, r.asked.Reference, seen.Reference)
	}
	if r.id != "" {
		require.Equal(t, r.id, seen.RefundID)
	}
}

// back asserts what the provider's books say went back of a payment.
func (b giving) back(t *testing.T, a *attempt, minor int64, times int) {
	t.Helper()
	gotMinor, gotTimes := b.books.GivenBack(t, a.id, a.payment.MerchantReference)
	require.Equal(t, minor, gotMinor, "what went back")
	require.Equal(t, times, gotTimes, "in so many refunds")
}

// seenNowhere asserts that a lookup does not find the refund, which proves nothing by itself.
func (b giving) seenNowhere(t *testing.T, r *giveBack) {
	t.Helper()
	seen, err := b.lookRefund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome)
	require.Equal(t, b.gw.Account(), seen.Account)
}

// unsettledRefund asserts that an answer decided nothing.
func unsettledRefund(t *testing.T, seen gateways.RefundSeen, err error, onError fault.Class, harmless ...gateways.Outcome) {
	t.Helper()
	if err != nil {
		class(t, err, onError)
		return
	}
	require.Contains(t, append(harmless, gateways.Unknown), seen.Outcome)
}
