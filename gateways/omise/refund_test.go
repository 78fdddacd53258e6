package omise

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

func yen(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "JPY"} }

func refundOp(t *testing.T, g *Gateway, reference string, amount int64, id string) gateways.Operation {
	t.Helper()
	planned, err := g.PlanRefund(gateways.GiveBack{Reference: reference, ProviderPaymentID: id, Amount: yen(amount), Left: yen(1500)})
	require.NoError(t, err)
	return gateways.Operation{Key: "k-" + reference, ProviderPaymentID: id, Request: planned.Request}
}

// paidAtSim is a captured charge at the simulator.
func paidAtSim(t *testing.T, s *simulated, g *Gateway, reference string) string {
	t.Helper()
	o, err := g.Send(t.Context(), gateways.Confirm, confirmOp(t, g, s.Payment(t, reference, yen(1500))))
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome)
	return o.ProviderPaymentID
}

func TestAStoredRefundBelongsToItsCharge(t *testing.T) {
	t.Parallel()
	base, seen := scripted(t, 200, `{"object":"refund","id":"rfnd_test_1","livemode":true,"status":"closed","amount":20,"currency":"jpy",
		"charge":"chrg_test_1","metadata":{"refund_reference":"R1"},"created_at":"2026-01-02T03:04:05Z"}`)
	g := open(t, base)
	op := refundOp(t, g, "R1", 20, "chrg_test_1")
	require.JSONEq(t, `{"amount":20,"metadata":{"refund_reference":"R1","refund_of":"chrg_test_1"}}`, string(op.Request))
	got, err := g.SendRefund(t.Context(), op)
	require.NoError(t, err)
	require.Equal(t, "/charges/chrg_test_1/refunds", (<-seen).URL.Path)
	require.Equal(t, gateways.RefundSeen{
		Account:           gateways.Account{Gateway: "omise", Name: "default", Environment: gateways.Live},
		ProviderPaymentID: "chrg_test_1", RefundID: "rfnd_test_1", Reference: "R1", Outcome: gateways.Succeeded, Status: "closed",
		Currency: "JPY", AmountMinor: 20, RefundedMinor: -1, ProviderTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}, got)

	for name, change := range map[string]func(*gateways.Operation){
		"OtherCharge":   func(op *gateways.Operation) { op.ProviderPaymentID = "chrg_test_2" },
		"ACharge":       func(op *gateways.Operation) { op.Request = cardOp(t, g).Request },
		"OtherSpelling": func(op *gateways.Operation) { op.Request = append([]byte(" "), op.Request...) },
		"NoReference": func(op *gateways.Operation) {
			op.Request = []byte(`{"amount":20,"metadata":{"refund_of":"chrg_test_1"}}`)
		},
		"NoKey": func(op *gateways.Operation) { op.Key = "" },
	} {
		bad := op
		change(&bad)
		_, err := g.SendRefund(t.Context(), bad)
		require.True(t, fault.IsCode(err, fault.InternalError), name)
	}
	require.Empty(t, seen, "nothing left")
}

func TestWhatOmiseSaysOfARefund(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, transaction string
		want                gateways.Outcome
	}{
		{`"closed"`, `"trxn_test_1"`, gateways.Succeeded},
		{`"pending"`, `"trxn_test_1"`, gateways.Pending},
		{`"failed"`, `"trxn_test_1"`, gateways.Unknown}, // how a refund fails is documented nowhere
		{`null`, `"trxn_test_1"`, gateways.Succeeded},   // an older rendering: it stands in the ledger
		{`null`, `null`, gateways.Unknown},
	} {
		base, _ := scripted(t, 200, fmt.Sprintf(`{"object":"refund","id":"rfnd_test_1","status":%s,"amount":20,"currency":"JPY","charge":"chrg_test_1","transaction":%s}`, c.status, c.transaction))
		g := open(t, base)
		got, err := g.SendRefund(t.Context(), refundOp(t, g, "R1", 20, "chrg_test_1"))
		require.NoError(t, err)
		require.Equal(t, c.want, got.Outcome, "%s %s", c.status, c.transaction)
		require.Empty(t, got.Reference, "the answer names none")
	}
}

func TestARefundIsFoundBehindTheFirstPage(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	g := open(t, s.base)
	id := paidAtSim(t, s, g, "of-1")
	for range 130 {
		require.NoError(t, s.sim.Refund(id, 1))
	}
	_, err := g.SendRefund(t.Context(), refundOp(t, g, "R1", 20, id))
	require.NoError(t, err)
	seen, err := g.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: id, Reference: "R1"})
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, seen.Outcome)
	require.EqualValues(t, 150, seen.RefundedMinor)

	// Sent twice after all: two under one reference decide nothing.
	_, err = g.SendRefund(t.Context(), refundOp(t, g, "R1", 20, id))
	require.NoError(t, err, "Omise guards nothing")
	seen, err = g.LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: id, Reference: "R1"})
	require.NoError(t, err)
	require.Equal(t, gateways.Unknown, seen.Outcome)
	require.Equal(t, "two_refunds", seen.Code)
}

func TestARefundThatItsChargeDoesNotCountIsUnknown(t *testing.T) {
	t.Parallel()
	const mine = `{"object":"refund","id":"rfnd_test_1","status":"closed","amount":20,"currency":"JPY","charge":"chrg_test_1","metadata":{"refund_reference":"R1"}}`
	for name, c := range map[string]struct {
		refunded int
		refunds  string
		want     gateways.Outcome // empty = a fault
	}{
		"Counted":     {20, `{"object":"list","total":1,"data":[` + mine + `]}`, gateways.Succeeded},
		"Uncounted":   {0, `{"object":"list","total":1,"data":[` + mine + `]}`, gateways.Unknown},
		"None":        {0, `{"object":"list","total":0,"data":[]}`, gateways.NotFound},
		"Null":        {20, `{"object":"list","total":1,"data":[null]}`, ""},
		"OtherCharge": {20, `{"object":"list","total":1,"data":[{"object":"refund","id":"rfnd_test_1","status":"closed","amount":20,"currency":"JPY","charge":"chrg_test_2","metadata":{"refund_reference":"R1"}}]}`, ""},
		"Cut":         {20, `{"object":"list","total":2,"data":[` + mine + `]}`, ""}, // then the list is asked, which is scripted to be a charge
		"NoList":      {0, `null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var charge map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(paidCharge), &charge))
			charge["refunded_amount"], charge["refunds"] = json.RawMessage(fmt.Sprint(c.refunded)), json.RawMessage(c.refunds)
			body, err := json.Marshal(charge)
			require.NoError(t, err)
			base, _ := scripted(t, 200, string(body))
			seen, err := open(t, base).LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "chrg_test_1", Reference: "R1"})
			if c.want == "" {
				require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, seen.Outcome)
			require.EqualValues(t, c.refunded, seen.RefundedMinor)
		})
	}
}

func TestAMissingChargeIsNoFactAboutItsRefund(t *testing.T) {
	t.Parallel()
	base, _ := scripted(t, http.StatusNotFound, `{"object":"error","code":"not_found"}`)
	_, err := open(t, base).LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "chrg_test_1", Reference: "R1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed))
	other, _ := scripted(t, 200, paidCharge)
	_, err = open(t, other).LookupRefund(t.Context(), gateways.RefundQuery{ProviderPaymentID: "chrg_test_2", Reference: "R1"})
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "another charge's refunds say nothing of this one")
}

func TestRefusedRefunds(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]fault.Code{
		"failed_refund": fault.PaymentAlready, "not_found": fault.PaymentNotFound, "invalid_amount": fault.PaymentInvalid,
		"expired_charge": fault.PaymentNeedsReview, "internal_error": fault.PaymentUnknown, "backend_error": fault.PaymentUnknown,
		"authentication_failure": fault.GatewayMisconfigured, "brand_new": fault.PaymentUnknown, "invalid_card": fault.PaymentUnknown,
	} {
		got, _ := codeOf(gateways.Refund, "", apiError{Object: "error", Code: code, status: 400})
		require.Equal(t, want, got, code)
	}
}
