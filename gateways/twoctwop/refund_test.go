package twoctwop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/sandbox/twoctwopsim"
)

func yen(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "JPY"} }

func settled(t *testing.T, reference string) maintained {
	t.Helper()
	m := startMaintained(t)
	m.sim.Configure(func(s *twoctwopsim.Settings) { s.SettlesAtOnce = true })
	m.paid(t, reference, yen(80))
	return m
}

func (m maintained) refund(t *testing.T, invoice, reference string, amount int64) (gateways.RefundSeen, error) {
	t.Helper()
	planned, err := m.gw.PlanRefund(gateways.GiveBack{Reference: reference, ProviderPaymentID: invoice, Amount: yen(amount), Left: yen(80)})
	require.NoError(t, err)
	return m.gw.SendRefund(t.Context(), gateways.Operation{Key: reference, ProviderPaymentID: invoice, Request: planned.Request})
}

func (m maintained) look(t *testing.T, amount int64, since time.Time, change func(*gateways.RefundQuery)) (gateways.RefundSeen, error) {
	t.Helper()
	q := gateways.RefundQuery{ProviderPaymentID: "OF1", Reference: "R1", Amount: yen(amount), Since: since}
	if change != nil {
		change(&q)
	}
	return m.gw.LookupRefund(t.Context(), q)
}

func TestRefundsNeedTheMaintenanceAPI(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, nil, Options{})
	g := s.open(t, func(set *gateways.Settings) {
		set.MaintenanceURL, set.PrivateKey, set.ProviderKey = "", secret.Value{}, ""
	})
	require.False(t, g.Capabilities().CanRefund)
	_, err := g.PlanRefund(gateways.GiveBack{Reference: "R1", ProviderPaymentID: "OF1", Amount: yen(20), Left: yen(80)})
	require.True(t, fault.IsCode(err, fault.PaymentInvalid))
	require.ErrorContains(t, fault.As(err).Cause, "TWOCTWOP_PRIVATE_KEY")
	_, err = g.SendRefund(t.Context(), gateways.Operation{Key: "k", ProviderPaymentID: "OF1", Request: []byte(`{"invoiceNo":"OF1","minor":20,"currency":"JPY","reference":"R1"}`)})
	require.True(t, fault.IsCode(err, fault.InternalError))
	_, err = g.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "OF1", Amount: yen(20)})
	require.True(t, fault.IsCode(err, fault.InternalError))
}

// 2C2P's list names no refund of ours: of two that are alike nobody but a person can tell which is which.
func TestOfTwoRefundsAlikeAPersonDecides(t *testing.T) {
	t.Parallel()
	m := settled(t, "OF1")
	since := time.Now()
	require.NoError(t, m.sim.Refund(simMerchant, "OF1", 20)) // at the portal
	seen, err := m.refund(t, "OF1", "R1", 20)
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, seen.Outcome, "taken on is not given back")
	_, err = m.look(t, 20, since, nil)
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
	require.Equal(t, "refunds_alike", fault.As(err).Why)

	// What can be told apart is: by another's name, by its own, by the amount, by the time.
	a, err := m.do(t, RefundStatus, "OF1", yen(0))
	require.NoError(t, err)
	portal, ours := a.Refunds[0].ReferenceNo, a.Refunds[1].ReferenceNo
	seen, err = m.look(t, 20, since, func(q *gateways.RefundQuery) { q.Known = []string{portal} })
	require.NoError(t, err)
	require.Equal(t, ours, seen.RefundID)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	require.EqualValues(t, 40, seen.RefundedMinor)
	seen, err = m.look(t, 20, since, func(q *gateways.RefundQuery) { q.RefundID = portal })
	require.NoError(t, err)
	require.Equal(t, portal, seen.RefundID)
	seen, err = m.look(t, 21, since, nil)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome)
	require.EqualValues(t, 40, seen.RefundedMinor)
	seen, err = m.look(t, 20, time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome, "what was given before ours was sent is not ours")
	seen, err = m.look(t, 20, since, func(q *gateways.RefundQuery) { q.Known = []string{portal, ours} })
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome)
}

func TestWithoutAListTheStatusTellsOfARefundOfEverything(t *testing.T) {
	t.Parallel()
	m := settled(t, "OF1")
	m.sim.Configure(func(s *twoctwopsim.Settings) { s.NoRefundList = true })
	since := time.Now()
	seen, err := m.look(t, 80, since, nil)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, seen.Outcome)
	require.EqualValues(t, -1, seen.RefundedMinor)
	_, err = m.look(t, 20, since, nil)
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "that the payment is settled says nothing about a part: %v", err)
	o, err := m.gw.Lookup(t.Context(), gateways.Query{MerchantReference: "OF1"})
	require.NoError(t, err)
	require.EqualValues(t, -1, o.RefundedMinor, "nor that nothing went back")
	_, err = m.refund(t, "OF1", "R1", 80)
	require.NoError(t, err)
	seen, err = m.look(t, 80, since, nil)
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	require.EqualValues(t, 80, seen.AmountMinor)
	for name, change := range map[string]func(*gateways.RefundQuery){
		"APart":          func(q *gateways.RefundQuery) { q.Amount = yen(20) },
		"BesideAnother:": func(q *gateways.RefundQuery) { q.Known = []string{"R0"} },
	} {
		_, err = m.look(t, 80, since, change)
		require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%s: something went back, and nobody says what: %v", name, err)
		require.Equal(t, "no_refund_list", fault.As(err).Why)
	}
}

func TestWhatTheListSaysOfARefund(t *testing.T) {
	t.Parallel()
	g := startMaintained(t).gw
	q := gateways.RefundQuery{ProviderPaymentID: "OF1", Amount: yen(20), Since: time.Now()}
	for status, want := range map[string]gateways.Outcome{
		"RF": gateways.Succeeded, "RP": gateways.Pending, "RFF": gateways.Declined, "RR": gateways.Declined, "RR1": gateways.Declined,
		"RR2": gateways.Declined, "RR3": gateways.Declined, "S": gateways.Unknown, "V": gateways.Unknown, "AP": gateways.Unknown,
	} {
		state, listed := stateOf(status)
		require.True(t, listed)
		a := MaintenanceAnswer{InvoiceNo: "OF1", Refunds: []RefundEntry{{Status: status, State: state.state, AmountMinor: 20, ReferenceNo: "N1"}}}
		seen, err := g.inList(gateways.RefundSeen{Outcome: gateways.NotFound}, q, a)
		require.NoError(t, err)
		require.Equal(t, want, seen.Outcome, status)
		require.Equal(t, "N1", seen.RefundID)
		given := int64(0)
		if status == "RF" {
			given = 20
		}
		require.Equal(t, given, seen.RefundedMinor, status)
	}
}

func TestARefusedRefundGaveNothingBack(t *testing.T) {
	t.Parallel()
	m := startMaintained(t)
	m.paid(t, "OF1", yen(80))
	_, err := m.refund(t, "OF1", "R1", 20)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "approved and not settled yet: %v", err)
	require.Equal(t, "12", fault.As(err).Provider.Code)
	minor, times := m.GivenBack(t, "OF1", "")
	require.Equal(t, "0 0", fmt.Sprint(minor, times))
	for _, frozen := range []string{
		``, `{}`, `{"invoiceNo":"OF2","minor":20,"currency":"JPY","reference":"R1"}`, `{"invoiceNo":"OF1","minor":0,"currency":"JPY","reference":"R1"}`,
		`{"invoiceNo":"OF1","minor":20,"currency":"JPY","reference":"R1","more":1}`,
	} {
		_, err := m.gw.SendRefund(t.Context(), gateways.Operation{Key: "k", ProviderPaymentID: "OF1", Request: []byte(frozen)})
		require.True(t, fault.IsCode(err, fault.InternalError), frozen)
	}
}
