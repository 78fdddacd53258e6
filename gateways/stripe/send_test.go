package stripe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/sandbox/stripesim"
)

func refusalBody(typ, code, decline, intent string) string {
	s := fmt.Sprintf(`{"error":{"type":%q,"code":%q,"decline_code":%q,"message":"Your card 4242 was declined."`, typ, code, decline)
	if intent != "" {
		s += `,"payment_intent":` + intent
	}
	return s + "}}"
}

func intent(status string, more string) string {
	return `{"id":"pi_1","object":"payment_intent","status":"` + status + `","amount":1500,"amount_received":0,"currency":"jpy",` +
		`"client_secret":"pi_1_secret_HUSH","metadata":{"merchant_reference":"of-1"}` + more + `}`
}

// A decline is believed only beside an intent whose state fits it.
func TestADeclineNeedsItsIntent(t *testing.T) {
	t.Parallel()
	const failed = `,"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}`
	for name, c := range map[string]struct {
		status  int
		body    string
		outcome gateways.Outcome // "" = a fault
		final   bool
		decline string
		code    fault.Code
	}{
		"WithIntent":           {402, refusalBody("card_error", "card_declined", "insufficient_funds", intent("requires_payment_method", failed)), gateways.Declined, false, "insufficient_funds", ""},
		"CodeOnly":             {402, refusalBody("card_error", "expired_card", "", intent("requires_payment_method", "")), gateways.Declined, false, "expired_card", ""},
		"IntentCanceled":       {402, refusalBody("card_error", "card_declined", "fraudulent", intent("canceled", "")), gateways.Declined, true, "fraudulent", ""},
		"WithoutIntent":        {402, refusalBody("card_error", "card_declined", "insufficient_funds", ""), "", false, "", fault.PaymentUnknown},
		"IntentIsOnlyAnID":     {402, refusalBody("card_error", "card_declined", "insufficient_funds", `"pi_1"`), "", false, "", fault.PaymentUnknown},
		"IntentProcessing":     {402, refusalBody("card_error", "card_declined", "insufficient_funds", intent("processing", "")), "", false, "", fault.PaymentUnknown},
		"IntentPaid":           {402, refusalBody("card_error", "card_declined", "insufficient_funds", paidIntent), "", false, "", fault.PaymentUnknown},
		"IntentOfNewStatus":    {402, refusalBody("card_error", "card_declined", "insufficient_funds", intent("half_done", "")), "", false, "", fault.PaymentUnknown},
		"DuplicateTransaction": {402, refusalBody("card_error", "card_declined", "duplicate_transaction", intent("requires_payment_method", failed)), "", false, "", fault.PaymentAlready},
		"UnknownCardError":     {402, refusalBody("card_error", "new_word", "", intent("requires_payment_method", failed)), "", false, "", fault.PaymentUnknown},
		"AlreadySucceeded":     {400, refusalBody("invalid_request_error", "payment_intent_unexpected_state", "", paidIntent), "", false, "", fault.PaymentAlready},
		"PlainRequiresMethod":  {200, intent("requires_payment_method", failed), gateways.Declined, false, "insufficient_funds", ""},
		"UntouchedByAConfirm":  {200, intent("requires_confirmation", ""), gateways.Unknown, false, "", ""},
		"RequiresCapture":      {200, intent("requires_capture", ""), gateways.Pending, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := scripted(t, c.status, c.body)
			g := open(t, base)
			o, err := g.Send(t.Context(), gateways.Confirm, confirmOp(g, t))
			if c.outcome == "" {
				f := fault.As(err)
				require.Equal(t, c.code, f.Code, "%v", err)
				require.Equal(t, fault.PolicyOf(c.code).Class, f.Class)
				require.Equal(t, "req_1", f.Provider.RequestID)
				require.Equal(t, c.status, f.Provider.HTTPStatus)
				for _, hush := range []string{"4242", "HUSH"} {
					require.False(t, strings.Contains(fmt.Sprintf("%v %+v %v", err, *f, f.Cause), hush))
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.outcome, o.Outcome)
			require.Equal(t, c.final, o.Final)
			require.Equal(t, c.decline, o.DeclineCode)
			require.Equal(t, "pi_1", o.ProviderPaymentID)
			require.Equal(t, "of-1", o.MerchantReference)
			require.Equal(t, int64(1500), o.AmountMinor)
		})
	}
}

func TestADeclinedPrepareIsDefinite(t *testing.T) {
	t.Parallel()
	base, _ := scripted(t, 402, refusalBody("card_error", "card_declined", "generic_decline", ""))
	g := open(t, base)
	planned, err := g.Plan(card(""))
	require.NoError(t, err)
	_, err = g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "key-1", Request: planned[0].Request})
	require.True(t, fault.IsCode(err, fault.PaymentDeclined), "no intent was made, so nothing can be charged: %v", err)
	require.Equal(t, "generic_decline", fault.As(err).Provider.Detail)
}

func TestThreeDSecureIsPendingWithALink(t *testing.T) {
	t.Parallel()
	s := startSimulated(t)
	g := open(t, s.base)
	for returnURL, want := range map[string]gateways.Outcome{"https://shop.example/back": gateways.Pending, "": gateways.Declined} {
		p := card(returnURL)
		p.MerchantReference = "of-3ds-" + string(want)
		p.Method.Token = "pm_card_threeDSecure2Required"
		planned, err := g.Plan(p)
		require.NoError(t, err)
		o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: p.MerchantReference + "-p", Request: planned[0].Request})
		require.NoError(t, err)
		id := o.ProviderPaymentID
		o, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: p.MerchantReference + "-c", ProviderPaymentID: id, Request: planned[1].Request})
		require.NoError(t, err)
		require.Equal(t, want, o.Outcome)
		require.False(t, o.Final)
		if want == gateways.Declined {
			require.Equal(t, "payment_intent_action_required", o.DeclineCode)
			continue
		}
		require.Equal(t, "redirect", o.NextAction.Type)
		require.NotEmpty(t, o.NextAction.URL)
		require.True(t, s.sim.Challenge(id, true))
		o, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
		require.NoError(t, err)
		require.Equal(t, gateways.Succeeded, o.Outcome)
	}
}

// A confirm repeated after its key lapsed must not try the card again: the payment method went in with the prepare and
// Stripe took it off after the decline.
func TestALateRepeatAfterADeclineFindsNothingToCharge(t *testing.T) {
	t.Parallel()
	s := startSimulated(t)
	g := open(t, s.base)
	p := card("")
	p.Method.Token = "pm_card_visa_chargeDeclined"
	planned, err := g.Plan(p)
	require.NoError(t, err)
	o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: "k-p", Request: planned[0].Request})
	require.NoError(t, err)
	op := gateways.Operation{Key: "k-c", ProviderPaymentID: o.ProviderPaymentID, Request: planned[1].Request}
	o, err = g.Send(t.Context(), gateways.Confirm, op)
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	s.sim.PruneKeys()
	_, err = g.Send(t.Context(), gateways.Confirm, op)
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
	o, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: op.ProviderPaymentID})
	require.NoError(t, err)
	require.Equal(t, gateways.Declined, o.Outcome)
	require.Len(t, s.sim.Charges(stripesim.Filter{}), 1, "one try at the card")
}

// begin sends a payment up to its confirm and returns what that said.
func begin(t *testing.T, g *Gateway, p gateways.Payment) gateways.Observation {
	t.Helper()
	planned, err := g.Plan(p)
	require.NoError(t, err)
	o, err := g.Send(t.Context(), gateways.Prepare, gateways.Operation{Key: p.MerchantReference + "-p", Request: planned[0].Request})
	require.NoError(t, err)
	o, err = g.Send(t.Context(), gateways.Confirm, gateways.Operation{Key: p.MerchantReference + "-c", ProviderPaymentID: o.ProviderPaymentID, Request: planned[1].Request})
	require.NoError(t, err)
	return o
}

func TestAVoucherIsPendingUntilItIsPaidOrLapses(t *testing.T) {
	t.Parallel()
	s := startSimulated(t)
	g := open(t, s.base)
	for _, c := range []struct {
		pay     bool
		outcome gateways.Outcome
		code    string
	}{{true, gateways.Succeeded, ""}, {false, gateways.Declined, "payment_intent_payment_attempt_expired"}} {
		p := card("")
		p.MerchantReference = fmt.Sprintf("of-konbini-%v", c.pay)
		p.Method = gateways.Method{Type: methodKonbini, Token: "pm_konbini__a"}
		o := begin(t, g, p)
		require.Equal(t, gateways.Pending, o.Outcome)
		require.Equal(t, "voucher", o.NextAction.Type)
		require.NotEmpty(t, o.NextAction.URL)
		require.Contains(t, o.NextAction.Code, "Lawson ")
		due, err := time.Parse(time.RFC3339, o.NextAction.Due)
		require.NoError(t, err)
		require.Less(t, time.Until(due), g.Capabilities().PendingFor[methodKonbini], "the bound covers the default")
		require.Greater(t, time.Until(due), g.Capabilities().PendingFor[methodKonbini]-48*time.Hour)

		require.True(t, s.sim.Challenge(o.ProviderPaymentID, c.pay))
		o, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: o.ProviderPaymentID})
		require.NoError(t, err)
		require.Equal(t, c.outcome, o.Outcome)
		require.Equal(t, c.code, o.DeclineCode)
		require.False(t, o.Final, "the intent could be paid another way until it is canceled")
	}
}

func TestATransferIsPendingUntilAllOfItIsThere(t *testing.T) {
	t.Parallel()
	s := startSimulated(t)
	g := open(t, s.base)
	for _, m := range []gateways.Method{
		{Type: methodTransfer, Token: "cus_1"}, {Type: methodTransfer, Token: "pm_bank_transfer__a", Reference: "cus_1"},
	} {
		p := card("")
		p.MerchantReference, p.Method = "of-"+m.Token, m
		o := begin(t, g, p)
		require.Equal(t, gateways.Pending, o.Outcome)
		require.Equal(t, "transfer", o.NextAction.Type)
		require.Equal(t, "1234567", o.NextAction.Account)
		require.NotEmpty(t, o.NextAction.Bank)
		require.NotEmpty(t, o.NextAction.Holder)

		require.True(t, s.sim.Transfer(o.ProviderPaymentID, 1000))
		n, err := withHook(t, hookKey).ReadNotice(s.Seal(t, s.notice(t, "payment_intent.partially_funded", o.ProviderPaymentID).Body, gatewaytest.Seal{At: time.Now()}))
		require.NoError(t, err)
		require.Equal(t, gateways.Pending, n.Says)
		o, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: o.ProviderPaymentID})
		require.NoError(t, err)
		require.Equal(t, gateways.Pending, o.Outcome, "a part is not a payment")
		require.Zero(t, o.CapturedMinor)
		require.True(t, s.sim.Transfer(o.ProviderPaymentID, 500))
		o, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: o.ProviderPaymentID})
		require.NoError(t, err)
		require.Equal(t, gateways.Succeeded, o.Outcome)
		require.Equal(t, int64(1500), o.CapturedMinor)
	}
}

// An intent that was made for manual capture elsewhere: the money is held, not taken.
func TestAHeldPaymentIsPendingWithWhatIsHeld(t *testing.T) {
	t.Parallel()
	base, _ := scripted(t, 200, strings.Replace(intent("requires_capture", ""), `"amount_received":0`, `"amount_received":0,"amount_capturable":1500`, 1))
	o, err := open(t, base).Lookup(t.Context(), gateways.Query{ProviderPaymentID: "pi_1"})
	require.NoError(t, err)
	require.Equal(t, gateways.Pending, o.Outcome)
	require.Equal(t, int64(1500), o.AuthorizedMinor)
	require.Zero(t, o.CapturedMinor)
	require.False(t, o.Final)
}
