package omise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// documented is Omise's list of error codes, written down independently of the table, with what a card's confirm, a
// cancel and a read that get it must become.
var documented = []struct {
	code                  string
	status                int
	confirm, cancel, read fault.Code
}{
	{"internal_error", 500, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"service_unavailable", 503, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"too_many_requests", 429, fault.GatewayRateLimited, fault.GatewayRateLimited, fault.GatewayRateLimited},
	{"backend_error", 400, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"failed_multi_currency", 400, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"used_token", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"used_token", 404, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"invalid_charge", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"failed_capture", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"failed_expire", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"failed_void", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"failed_reverse", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"failed_refund", 400, fault.PaymentAlready, fault.PaymentAlready, fault.GatewayReadFailed},
	{"expired_charge", 400, fault.PaymentNeedsReview, fault.PaymentNeedsReview, fault.GatewayReadFailed},
	{"failed_fraud_check", 400, fault.PaymentDeclined, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"invalid_card", 400, fault.PaymentDeclined, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"brand_not_supported", 400, fault.PaymentDeclined, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"invalid_card_token", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"missing_card", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_amount", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"bad_request", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_filters", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_page", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_scope", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_bank_account", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"invalid_link", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"documents_locked", 400, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},
	{"authentication_failure", 401, fault.GatewayMisconfigured, fault.GatewayMisconfigured, fault.GatewayMisconfigured},
	{"not_found", 404, fault.PaymentInvalid, fault.PaymentNotFound, fault.GatewayReadFailed},
	{"service_not_found", 404, fault.GatewayMisconfigured, fault.GatewayMisconfigured, fault.GatewayMisconfigured},

	// The groups of which only the status is documented.
	{"some_permission", 403, fault.GatewayMisconfigured, fault.GatewayMisconfigured, fault.GatewayMisconfigured},
	{"some_authentication", 401, fault.GatewayMisconfigured, fault.GatewayMisconfigured, fault.GatewayMisconfigured},
	{"some_unprocessable", 422, fault.PaymentInvalid, fault.PaymentInvalid, fault.GatewayReadFailed},

	// What nobody documented is never a decision.
	{"brand_new", 400, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"brand_new", 402, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"brand_new", 404, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"brand_new", 409, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
	{"brand_new", 500, fault.PaymentUnknown, fault.PaymentUnknown, fault.GatewayReadFailed},
}

func TestEveryDocumentedErrorHasARow(t *testing.T) {
	t.Parallel()
	for _, d := range documented {
		e := apiError{Object: "error", Code: d.code, status: d.status}
		for v, want := range map[verb]fault.Code{gateways.Confirm: d.confirm, gateways.Cancel: d.cancel, read: d.read} {
			got, _ := codeOf(v, methodCard, e)
			require.Equal(t, want, got, "%s of %s (%d)", v, d.code, d.status)
		}
		if _, listed := codeOf(gateways.Confirm, methodCard, e); d.code != "brand_new" {
			require.True(t, listed, "%s has no row", d.code)
		}
	}
}

// Every code in the table is in the list above, so that a row cannot be added without saying what it should do.
func TestEveryRowIsDocumentedAndReachable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, d := range documented {
		known[d.code] = true
	}
	for i, r := range errorTable {
		for _, code := range append(strings.Fields(r.codes), map[bool]string{true: "some_code"}[r.codes == ""]) {
			if code == "" {
				continue
			}
			require.True(t, known[code] || r.codes == "", "%s is not in the list", code)
			for _, v := range r.on {
				e := apiError{Object: "error", Code: code, status: r.status}
				for j, other := range errorTable {
					if other.matches(v, r.method, e) {
						require.Equal(t, i, j, "row %d (%s) is shadowed by row %d", i, code, j)
						break
					}
				}
			}
		}
	}
}

// A second charge on one source is refused under a code that is documented nowhere. Whatever could be it is looked up.
func TestARefusedSourceIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"bad_request", "not_found", "used_token", "invalid_charge"} {
		got, _ := codeOf(gateways.Confirm, methodSource, apiError{Object: "error", Code: code, status: 400})
		require.Equal(t, fault.PaymentAlready, got, code)
	}
	got, _ := codeOf(gateways.Confirm, methodCard, apiError{Object: "error", Code: "bad_request", status: 400})
	require.Equal(t, fault.PaymentInvalid, got)
}

// An answer that is no error of Omise's says nothing, whatever its status is.
func TestAStatusAloneDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 402, 403, 404, 409, 422, 429, 500, 502, 503} {
		for _, body := range []string{
			"", "{}", "null", "[]", "<html>", `{"code":"invalid_card"}`, `{"object":"charge","code":"invalid_card"}`,
			`{"object":"error"}`, `{"object":"error","code":7}`, `{"object":"error","code":"Not A Code"}`, `{"object":"error","code":"invalid_card"`,
		} {
			base, _ := scripted(t, status, body)
			g := open(t, base)
			_, err := g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
			require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%d %s: %v", status, body, err)
			_, err = g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: "chrg_test_1"})
			require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%d %s: %v", status, body, err)
		}
	}
}

func TestAFaultSaysWhatOmiseSaidAndNoMore(t *testing.T) {
	t.Parallel()
	const marker = "4242424242424242"
	base, _ := scripted(t, 400, fmt.Sprintf(`{"object":"error","location":"x","code":"used_token","message":"token %s was used"}`, marker))
	g := open(t, base)
	_, err := g.Send(t.Context(), gateways.Confirm, cardOp(t, g))
	f := fault.As(err)
	require.Equal(t, fault.PaymentAlready, f.Code)
	require.Equal(t, fault.Conflict, f.Class)
	require.Equal(t, fault.Provider{Name: "omise", HTTPStatus: 400, Code: "used_token"}, f.Provider)
	require.NotContains(t, fmt.Sprintf("%+v %v", f, f.Cause), marker)
	require.Equal(t, "omise confirm", f.Op)
	require.Equal(t, time.Duration(0), f.RetryAfter)
}
