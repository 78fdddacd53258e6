package twoctwopsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orderflow/internal/secret"
)

// TestNoOrderOfCallsTakesMoneyTwice: whatever is asked for in whatever order, an invoice number is paid at most once, what is
// paid stays paid, and an inquiry says "paid" exactly when the books do. It does not cover Receive, which is money that
// nobody asked for.
func TestNoOrderOfCallsTakesMoneyTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var ahead atomic.Int64
		s, err := New(Config{
			Merchants: []Merchant{{ID: merchantID, Secret: secret.New(key)}},
			Now:       func() time.Time { return time.Unix(1_800_000_000, ahead.Load()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Configure(func(set *Settings) {
			set.DuplicateAt = rapid.SampledFrom([]string{AtToken, AtPayment}).Draw(t, "duplicate")
			set.IdempotencyReplay = rapid.Bool().Draw(t, "replay")
			set.PageRetries = rapid.Bool().Draw(t, "retries")
		})
		ask := func(path string, claims map[string]any, signed bool) object {
			raw, _ := json.Marshal(claims)
			if signed {
				jwt, _ := sign(secret.New(key), claims)
				raw, _ = json.Marshal(map[string]string{"payload": jwt})
			}
			res := httptest.NewRecorder()
			s.ServeHTTP(res, httptest.NewRequest(http.MethodPost, apiRoot+path, strings.NewReader(string(raw))))
			o, _ := decodeObject(res.Body.Bytes())
			if jwt := o.text("payload"); jwt != "" {
				claims, _ := peek(jwt)
				o, _ = decodeObject(claims)
			}
			return o
		}
		invoices := []string{"P1", "P2"}
		var tokens []string
		paid := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			invoice := rapid.SampledFrom(invoices).Draw(t, "invoice")
			switch rapid.SampledFrom([]string{"token", "pay", "pay", "cancel", "act", "wait"}).Draw(t, "step") {
			case "token":
				o := ask("paymentToken", map[string]any{
					"merchantID": merchantID, "invoiceNo": invoice, "description": "x", "amount": "80.50", "currencyCode": "THB", "idempotencyID": invoice,
				}, true)
				if text := o.text("paymentToken"); text != "" {
					tokens = append(tokens, text)
				}
			case "pay":
				if len(tokens) > 0 {
					card := rapid.SampledFrom([]string{"ok__x", "3ds__x", "insufficient__x", "late__1m__x"}).Draw(t, "card")
					ask("payment", doPaymentBody(rapid.SampledFrom(tokens).Draw(t, "token"), "CC", card), false)
				}
			case "cancel":
				if len(tokens) > 0 {
					ask("cancelTransaction", map[string]any{"paymentToken": rapid.SampledFrom(tokens).Draw(t, "token")}, false)
				}
			case "act":
				s.Act(invoice, rapid.Bool().Draw(t, "pass"))
			case "wait":
				ahead.Add(int64(time.Duration(rapid.IntRange(1, 40).Draw(t, "minutes")) * time.Minute))
			}
			for _, invoice := range invoices {
				captured := s.Charges(Filter{MerchantReference: invoice, CapturedOnly: true})
				if len(captured) > 1 {
					t.Fatalf("%s is paid %d times", invoice, len(captured))
				}
				if paid[invoice] && len(captured) == 0 {
					t.Fatal("what was paid is paid no more")
				}
				paid[invoice] = len(captured) == 1
				said := code(ask("paymentInquiry", map[string]any{"merchantID": merchantID, "invoiceNo": invoice}, true))
				if (said == "0000") != paid[invoice] {
					t.Fatal(fmt.Sprintf("the inquiry says %s with %d captures in the books", said, len(captured)))
				}
			}
		}
	})
}
