package omise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/sandbox/omisesim"
)

var price = money.Amount{Minor: 1500, Currency: "JPY"}

func send(t *testing.T, g gateways.Gateway, p gateways.Payment) (gateways.Observation, error) {
	t.Helper()
	planned, err := g.Plan(p)
	require.NoError(t, err)
	return g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: "key-1", Request: planned[0].Request})
}

// The reason for "sent once, ever": Omise makes a second charge of a second request on a stored customer, and nothing on
// the wire could tell it not to. Both show up in a lookup, and then a person has to look.
func TestTwoChargesOnACustomerAreTwoCharges(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCustomer)
	g := s.Open(t, nil)
	p := s.Payment(t, "of-1", price)
	require.Zero(t, g.Capabilities().RepeatSafe(gateways.Confirm, p.Method.Type))
	for range 2 {
		o, err := send(t, g, p)
		require.NoError(t, err)
		require.Equal(t, gateways.Succeeded, o.Outcome)
	}
	require.Len(t, s.Captures(t, "of-1"), 2, "the simulator, like Omise, stops nobody")
	_, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
	require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
}

// A used token is a conflict under either status that Omise may give it.
func TestAUsedTokenIsAConflict(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404} {
		s := startSimulated(t, methodCard)
		s.sim.Configure(func(c *omisesim.Settings) { c.UsedTokenStatus = status })
		g := s.Open(t, nil)
		p := s.Payment(t, "of-1", price)
		s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Confirm})
		_, err := send(t, g, p)
		require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
		_, err = send(t, g, p)
		require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
		require.Equal(t, status, fault.As(err).Provider.HTTPStatus)
		require.Len(t, s.Captures(t, "of-1"), 1)
		o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
		require.NoError(t, err)
		require.Equal(t, gateways.Succeeded, o.Outcome)
	}
}

// Nobody knows whether Omise refuses a second charge on one source, nor how. Refused, it is a conflict; made, there are two
// that wait, every lookup names the same one, and only the buyer could pay both.
func TestASecondChargeOnASource(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*omisesim.Settings){
		"BadRequest": func(*omisesim.Settings) {},
		"NotFound":   func(c *omisesim.Settings) { c.UsedSourceCode = "not_found" },
		"UsedToken":  func(c *omisesim.Settings) { c.UsedSourceCode = "used_token" },
		"Accepted":   func(c *omisesim.Settings) { c.AcceptUsedSource = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSimulated(t, methodSource)
			s.sim.Configure(change)
			g := s.Open(t, nil)
			p := s.pay("promptpay", "of-1", money.Amount{Minor: 8050, Currency: "THB"})
			first, err := send(t, g, p)
			require.NoError(t, err)
			require.Equal(t, gateways.Pending, first.Outcome)
			require.Equal(t, "qr", first.NextAction.Type)
			_, err = send(t, g, p)
			if name == "Accepted" {
				require.NoError(t, err)
				require.Len(t, s.sim.Charges(omisesim.Filter{MerchantReference: "of-1"}), 2)
			} else {
				require.Equal(t, fault.Conflict, fault.As(err).Class, "%v", err)
				require.Len(t, s.sim.Charges(omisesim.Filter{MerchantReference: "of-1"}), 1)
			}
			o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
			require.NoError(t, err)
			require.Equal(t, gateways.Pending, o.Outcome)
		})
	}
}

// A charge that is not listed yet is not found, and that is never final; once it is listed, it is found.
func TestAListThatLagsProvesNothing(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	s.sim.Configure(func(c *omisesim.Settings) { c.ListLag = time.Hour })
	g := s.Open(t, nil)
	s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Confirm})
	p := s.Payment(t, "of-1", price)
	_, err := send(t, g, p)
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	o, err := g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, o.Outcome)
	require.False(t, o.Final)
	require.Zero(t, g.Capabilities().NotFoundFinalAfter)

	// The token guards what the list cannot prove.
	_, err = send(t, g, p)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
	s.sim.Configure(func(c *omisesim.Settings) { c.ListLag = 0 })
	o, err = g.Lookup(t.Context(), gateways.Query{MerchantReference: "of-1"})
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.Len(t, s.Captures(t, "of-1"), 1)
}

// An account of an older version writes its events otherwise. The ids are read all the same.
func TestEventsOfAnOlderAccountAreRead(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	s.sim.Configure(func(c *omisesim.Settings) { c.AccountVersion = omisesim.OlderVersion })
	gw := s.Open(t, nil)
	o, err := send(t, gw, s.Payment(t, "of-1", price))
	require.NoError(t, err)
	call(t, s.base, "POST", "/charges/"+o.ProviderPaymentID+"/refunds", `{"amount":500}`)
	reader, ok := gw.(gateways.Notifier)
	require.True(t, ok)
	for _, want := range []struct {
		kind string
		says gateways.Outcome
	}{{"charge.create", gateways.Pending}, {"charge.complete", gateways.Succeeded}, {"refund.create", ""}} {
		m := <-s.notices
		at := time.Now()
		n, err := reader.ReadNotice(gateways.Incoming{Header: m.Header(at, 0), Body: m.Body, At: at})
		require.NoError(t, err)
		require.NotContains(t, string(m.Body), "created_at")
		require.Equal(t, want.kind, n.EventType)
		require.Equal(t, want.says, n.Says)
		require.Equal(t, o.ProviderPaymentID, n.ProviderPaymentID)
		require.Equal(t, gateways.ProofSigned, n.Proof)
		require.NotZero(t, n.ProviderTime)
	}
	o, err = gw.Lookup(t.Context(), gateways.Query{ProviderPaymentID: o.ProviderPaymentID})
	require.NoError(t, err)
	require.Equal(t, int64(500), o.RefundedMinor)
	require.Equal(t, int64(1500), o.CapturedMinor)
}

// The simulator sends no signature where the account has none; with a configured secret such an event is not taken.
func TestAnUnsignedEventIsNotTakenWhereASecretIsConfigured(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	s.sim.Configure(func(c *omisesim.Settings) { c.Unsigned = true })
	gw := s.Open(t, nil)
	_, err := send(t, gw, s.Payment(t, "of-1", price))
	require.NoError(t, err)
	reader, ok := gw.(gateways.Notifier)
	require.True(t, ok)
	m, at := <-s.notices, time.Now()
	_, err = reader.ReadNotice(gateways.Incoming{Header: m.Header(at, 0), Body: m.Body, At: at})
	require.True(t, fault.IsCode(err, fault.WebhookUnproven), "%v", err)
}
