package stripe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// documented is Stripe's list of error codes as far as payments meet them, written down independently of the table, with
// what a confirm that gets the code must become. Decline codes stand below.
var documented = []struct {
	codes  string
	typ    stripego.ErrorType
	status int
	write  fault.Code
	read   fault.Code
}{
	{"idempotency_key_in_use", "invalid_request_error", 409, fault.PaymentInProgress, fault.GatewayReadFailed},
	{"lock_timeout", "invalid_request_error", 429, fault.GatewayRateLimited, fault.GatewayRateLimited},
	{"lock_timeout", "invalid_request_error", 409, fault.GatewayRateLimited, fault.GatewayRateLimited},
	{"rate_limit", "invalid_request_error", 429, fault.GatewayRateLimited, fault.GatewayRateLimited},
	{"payment_intent_unexpected_state intent_invalid_state return_intent_already_processed charge_already_captured charge_already_refunded resource_already_exists token_already_used token_in_use status_transition_invalid", "invalid_request_error", 400, fault.PaymentAlready, fault.GatewayReadFailed},
	{"payment_method_provider_timeout payment_intent_payment_attempt_failed payment_intent_payment_attempt_expired", "card_error", 402, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"card_declined expired_card incorrect_cvc incorrect_number invalid_number invalid_cvc invalid_expiry_month invalid_expiry_year insufficient_funds processing_error authentication_required payment_intent_authentication_failure payment_intent_action_required card_decline_rate_limit_exceeded", "card_error", 402, fault.PaymentDeclined, fault.GatewayReadFailed},
	{"card_decline_rate_limit_exceeded", "card_error", 429, fault.PaymentDeclined, fault.GatewayReadFailed},
	{"payment_method_provider_decline payment_method_customer_decline payment_method_not_available payment_method_unactivated payment_intent_konbini_rejected_confirmation_number charge_exceeds_source_limit", "invalid_request_error", 400, fault.PaymentDeclined, fault.GatewayReadFailed},
	{"payment_method_unexpected_state payment_method_currency_mismatch payment_intent_incompatible_payment_method payment_intent_invalid_parameter amount_too_small amount_too_large parameter_missing parameter_unknown parameter_invalid_empty parameter_invalid_integer parameter_invalid_string_blank parameter_invalid_string_empty parameters_exclusive url_invalid", "invalid_request_error", 400, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"resource_missing", "invalid_request_error", 404, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"resource_missing", "invalid_request_error", 400, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"livemode_mismatch testmode_charges_only country_unsupported account_invalid tls_version_unsupported", "invalid_request_error", 403, fault.GatewayMisconfigured, fault.GatewayMisconfigured},
	{"api_key_expired platform_api_key_expired secret_key_required", "invalid_request_error", 401, fault.GatewayMisconfigured, fault.GatewayMisconfigured},
	{"charge_expired_for_capture capture_charge_authorization_expired charge_disputed refund_disputed_payment charge_not_refundable balance_insufficient", "invalid_request_error", 400, fault.PaymentNeedsReview, fault.GatewayReadFailed},
}

const documentedDeclines = "insufficient_funds incorrect_cvc incorrect_number incorrect_pin incorrect_zip invalid_cvc invalid_number " +
	"invalid_expiry_month invalid_expiry_year invalid_pin invalid_amount expired_card authentication_required offline_pin_required " +
	"online_or_offline_pin_required withdrawal_count_limit_exceeded card_velocity_exceeded issuer_not_available processing_error " +
	"reenter_transaction try_again_later approve_with_id no_action_taken generic_decline do_not_honor do_not_try_again call_issuer " +
	"card_not_supported currency_not_supported invalid_account new_account_information_available not_permitted pin_try_exceeded " +
	"restricted_card revocation_of_authorization revocation_of_all_authorizations security_violation service_not_allowed " +
	"stop_payment_order transaction_not_allowed testmode_decline fraudulent lost_card stolen_card pickup_card merchant_blacklist"

func TestEveryDocumentedCodeHasARow(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range documented {
		for _, code := range strings.Fields(d.codes) {
			seen[code] = true
			e := &stripego.Error{Code: stripego.ErrorCode(code), Type: d.typ, HTTPStatusCode: d.status}
			got, listed := codeOf(gateways.Confirm, e)
			require.True(t, listed, "%s has no row", code)
			require.Equal(t, d.write, got, code)
			got, _ = codeOf(read, e)
			require.Equal(t, d.read, got, "%s on a read", code)
		}
	}
	for _, r := range errorTable {
		for _, code := range strings.Fields(r.codes) {
			require.True(t, seen[code], "%s is in the table but not documented: misspelled?", code)
		}
	}
}

func TestEveryDocumentedDeclineCodeDeclines(t *testing.T) {
	t.Parallel()
	for _, decline := range strings.Fields(documentedDeclines) {
		got, listed := codeOf(gateways.Confirm, &stripego.Error{
			Code: stripego.ErrorCodeCardDeclined, DeclineCode: stripego.DeclineCode(decline), Type: stripego.ErrorTypeCard, HTTPStatusCode: 402,
		})
		require.True(t, listed)
		require.Equal(t, fault.PaymentDeclined, got, decline)
	}
	got, _ := codeOf(gateways.Confirm, &stripego.Error{
		Code: stripego.ErrorCodeCardDeclined, DeclineCode: stripego.DeclineCodeDuplicateTransaction, Type: stripego.ErrorTypeCard, HTTPStatusCode: 402,
	})
	require.Equal(t, fault.PaymentAlready, got, "the issuer saw this payment before: look first")
}

func TestUnlistedWordsDecideNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v    verb
		e    stripego.Error
		want fault.Code
	}{
		"UnknownCardError":          {gateways.Confirm, stripego.Error{Code: "new_card_code", Type: "card_error", HTTPStatusCode: 402}, fault.PaymentUnknown},
		"UnknownInvalidRequest":     {gateways.Confirm, stripego.Error{Code: "new_code", Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentUnknown},
		"BareInvalidRequest":        {gateways.Confirm, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentUnknown},
		"BareTooMany":               {gateways.Confirm, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 429}, fault.PaymentUnknown},
		"BareConflict":              {gateways.Confirm, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 409}, fault.PaymentUnknown},
		"ServerError":               {gateways.Confirm, stripego.Error{Type: "api_error", HTTPStatusCode: 500}, fault.PaymentUnknown},
		"OtherBodyUnderTheKey":      {gateways.Confirm, stripego.Error{Type: "idempotency_error", HTTPStatusCode: 400}, fault.PaymentUnknown},
		"InUseOfIdempotencyType":    {gateways.Confirm, stripego.Error{Code: "idempotency_key_in_use", Type: "idempotency_error", HTTPStatusCode: 409}, fault.PaymentInProgress},
		"NoTypeAtAll":               {gateways.Confirm, stripego.Error{HTTPStatusCode: 402}, fault.PaymentUnknown},
		"UnauthorizedWithoutType":   {gateways.Confirm, stripego.Error{HTTPStatusCode: 401}, fault.PaymentUnknown},
		"Unauthorized":              {gateways.Confirm, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 401}, fault.GatewayMisconfigured},
		"Forbidden":                 {gateways.Confirm, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 403}, fault.GatewayMisconfigured},
		"ForbiddenWithUnknownCode":  {gateways.Confirm, stripego.Error{Code: "new_code", Type: "invalid_request_error", HTTPStatusCode: 403}, fault.PaymentUnknown},
		"DeclineOnCancel":           {gateways.Cancel, stripego.Error{Code: "card_declined", Type: "card_error", HTTPStatusCode: 402}, fault.PaymentUnknown},
		"UnexpectedStateOnCancel":   {gateways.Cancel, stripego.Error{Code: "payment_intent_unexpected_state", Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentAlready},
		"DeclineOnPrepare":          {gateways.Prepare, stripego.Error{Code: "card_declined", Type: "card_error", HTTPStatusCode: 402}, fault.PaymentDeclined},
		"ReadServerError":           {read, stripego.Error{Type: "api_error", HTTPStatusCode: 500}, fault.GatewayReadFailed},
		"ReadDecline":               {read, stripego.Error{Code: "card_declined", Type: "card_error", HTTPStatusCode: 402}, fault.GatewayReadFailed},
		"ReadUnauthorized":          {read, stripego.Error{Type: "invalid_request_error", HTTPStatusCode: 401}, fault.GatewayMisconfigured},
		"RefundAboveWhatIsLeft":     {gateways.Refund, stripego.Error{Type: "invalid_request_error", Param: "amount", HTTPStatusCode: 400}, fault.PaymentAlready},
		"RefundOfNothingCaptured":   {gateways.Refund, stripego.Error{Type: "invalid_request_error", Param: "payment_intent", HTTPStatusCode: 400}, fault.PaymentAlready},
		"RefundOfAnOddParameter":    {gateways.Refund, stripego.Error{Type: "invalid_request_error", Param: "reason", HTTPStatusCode: 400}, fault.PaymentUnknown},
		"RefundServerError":         {gateways.Refund, stripego.Error{Type: "api_error", Param: "amount", HTTPStatusCode: 500}, fault.PaymentUnknown},
		"RefundedBefore":            {gateways.Refund, stripego.Error{Code: "charge_already_refunded", Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentAlready},
		"RefundOfADispute":          {gateways.Refund, stripego.Error{Code: "charge_disputed", Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentNeedsReview},
		"RefundWithoutFunds":        {gateways.Refund, stripego.Error{Code: "balance_insufficient", Type: "invalid_request_error", HTTPStatusCode: 400}, fault.PaymentNeedsReview},
		"DeclineOnRefund":           {gateways.Refund, stripego.Error{Code: "card_declined", Type: "card_error", HTTPStatusCode: 402}, fault.PaymentUnknown},
		"AmountOnConfirm":           {gateways.Confirm, stripego.Error{Type: "invalid_request_error", Param: "amount", HTTPStatusCode: 400}, fault.PaymentUnknown},
		"UnknownDeclineCodeIsStill": {gateways.Confirm, stripego.Error{Code: "card_declined", DeclineCode: "brand_new", Type: "card_error", HTTPStatusCode: 402}, fault.PaymentDeclined},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := codeOf(c.v, &c.e)
			require.Equal(t, c.want, got)
		})
	}
}

// A row that an earlier one always shadows would be a lie about what happens.
func TestEveryRowIsReachable(t *testing.T) {
	t.Parallel()
	for i, r := range errorTable {
		codes := strings.Fields(r.codes)
		if len(codes) == 0 {
			codes = []string{""}
		}
		for _, code := range codes {
			for _, v := range r.on {
				e := &stripego.Error{Code: stripego.ErrorCode(code), DeclineCode: stripego.DeclineCode(r.decline), Type: stripego.ErrorType(r.typ), HTTPStatusCode: r.status, Param: r.param}
				for j, other := range errorTable {
					if other.matches(v, e) {
						require.Equal(t, i, j, "row %d (%s) is shadowed by row %d", i, code, j)
						break
					}
				}
			}
		}
	}
}
