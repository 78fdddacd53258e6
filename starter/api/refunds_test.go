package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: a refund is stored once per key, never above what is left, and tells nobody what only the bank should know. Method: the real
// sandbox took the money; what the worker would do with the refund is left undone, so every refund stays open. How refunds come
// to an end is shown end to end (e2e).

func (b *bundle) paid(id string) {
	b.t.Helper()
	b.working()
	b.place(id)
	require.Equal(b.t, 201, b.pay(id, card("pm_card_visa")).status)
}

func (b *bundle) refund(id string, body any, options ...option) answer {
	b.t.Helper()
	return b.call("POST", pathOf(id)+"/refunds", body, append([]option{as(operatorKey)}, options...)...)
}

func back(amount int) fields {
	f := fields{"reason": "requested_by_buyer"}
	if amount != 0 {
		f["amount"] = amount
	}
	return f
}

func TestRefundOrder(t *testing.T) {
	t.Run("NeedsTheScope", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		require.Equal(t, "forbidden", b.refund("O-1", back(0), as(shopKey)).problem())
		require.Equal(t, "forbidden", b.refund("O-1", back(0), as(otherKey)).problem())
	})
	t.Run("OneKeyIsOneRefund", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		a := b.refund("O-1", back(0), key("r-1"))
		require.Equal(t, 202, a.status, string(a.body))
		require.Equal(t, "checking", a.at("outcome"))
		require.EqualValues(t, 4800, a.at("amount"))
		require.NotEmpty(t, a.header.Get("Retry-After"))
		again := b.refund("O-1", back(0), key("r-1"))
		require.Equal(t, 202, again.status, "nothing is left, and it is the same refund")
		require.Equal(t, a.at("id"), again.at("id"))
		require.Equal(t, 1, b.count("SELECT count(*) FROM refunds"))
		require.Equal(t, 1, b.count("SELECT count(*) FROM operations WHERE kind = 'refund'"))
		b.exec("DELETE FROM idempotency_keys") // pruned: the row behind it catches the replay
		again = b.refund("O-1", back(0), key("r-1"))
		require.Equal(t, a.at("id"), again.at("id"))
		require.Equal(t, "idempotency-key-reused", b.refund("O-1", back(100), key("r-1")).problem())
		b.exec("DELETE FROM idempotency_keys")
		require.Equal(t, "idempotency-key-reused", b.refund("O-1", back(100), key("r-1")).problem(), "also by the row")
	})
	t.Run("ManyAtOnceNeverExceedWhatIsLeft", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		answers := make([]answer, 12)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = b.refund("O-1", back(900), key(fmt.Sprintf("r-%d", i))) })
		}
		wg.Wait()
		stored := 0
		for _, a := range answers {
			switch {
			case a.status == 202:
				stored++
			case a.problem() == "more-than-left":
				require.EqualValues(t, 300, a.at("left"))
			default:
				require.Equal(t, "order-changed", a.problem(), string(a.body))
			}
		}
		require.LessOrEqual(t, stored, 5)
		require.Equal(t, stored, b.count("SELECT count(*) FROM refunds"))
		for i := range answers { // whoever was told to come again does
			if answers[i].problem() == "order-changed" && b.refund("O-1", back(900), key(fmt.Sprintf("r-%d", i))).status == 202 {
				stored++
			}
		}
		require.Equal(t, 5, stored)
	})
	t.Run("WhatIsWrongIsSaidAndNotRepeated", func(t *testing.T) {
		b := setup(t)
		b.paid("O-1")
		const account = "110-9345-MARKER"
		for name, c := range map[string]struct {
			body any
			want string
		}{
			"NoReason":         {fields{"amount": 1}, "validation"},
			"FreeReason":       {fields{"reason": account}, "validation"},
			"NoAmount":         {fields{"reason": "other", "amount": 0}, "validation"},
			"NegativeAmount":   {fields{"reason": "other", "amount": -1}, "validation"},
			"HalfAPayout":      {fields{"reason": "other", "payout": fields{"bank": "", "account": account, "holder": "h"}}, "validation"},
			"CardAsAccount":    {fields{"reason": "other", "payout": fields{"bank": "20", "account": "4242424242424242", "holder": "h"}}, "validation"},
			"PayoutNotWanted":  {fields{"reason": "other", "payout": fields{"bank": "20", "account": account, "holder": account}}, "refund-invalid"},
			"AnotherAttempt":   {fields{"reason": "other", "attempt_id": "att_" + account}, "validation"},
			"AnUnknownField":   {fields{"reason": "other", account: 1}, "validation"},
			"PayoutOtherTypes": {fields{"reason": "other", "payout": account}, "validation"},
		} {
			a := b.refund("O-1", c.body, key("bad-"+name))
			require.Equal(t, c.want, a.problem(), "%s: %s", name, a.body)
			require.NotContains(t, string(a.body), account, name)
			require.NotContains(t, string(a.body), "4242424242424242", name)
		}
		require.Zero(t, b.count("SELECT count(*) FROM refunds"))
		require.Zero(t, b.count("SELECT count(*) FROM idempotency_keys WHERE operation LIKE '%refunds'"), "refused by form: no key is claimed")
		a := b.refund("O-1", back(4801), key("over"))
		require.Equal(t, "more-than-left", a.problem())
		require.EqualValues(t, 4800, a.at("left"))
		require.Equal(t, "paid", a.at("order", "states", "payment"))
		b.exec("UPDATE payments SET dispute = 'open', disputed_minor = captured_minor")
		require.Equal(t, "refund-disputed", b.refund("O-1", back(1)).problem())
	})
	t.Run("SpecifiedForTheScope", func(t *testing.T) {
		b := setup(t)
		spec := string(b.call("GET", "/openapi.json", nil).body)
		require.True(t, strings.Contains(spec, "/v1/orders/{id}/refunds"))
	})
}
