package gatewaytest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

func amounts(t *testing.T, h Harness) {
	b := setup(t, h)
	for _, p := range h.Prices {
		t.Run(p.Amount.String(), func(t *testing.T) {
			a := b.plan(t, b.Payment(t, reference(), p.Amount))
			wire := string(a.planned[gateways.Confirm])
			if b.caps.Prepares {
				wire = string(a.planned[gateways.Prepare])
			}
			require.Contains(t, wire, p.Wire)
			b.prepare(t, a)
			o, err := b.confirm(t.Context(), a)
			require.NoError(t, err)
			b.paid(t, a, o)
			b.charged(t, a, 1)
		})
	}
}

func refusedAmounts(t *testing.T, h Harness) {
	b := setup(t, h)
	zero, negative := standard(h), standard(h)
	zero.Minor, negative.Minor = 0, -1
	strange := standard(h)
	strange.Currency = "ZZZ"
	for _, amount := range append(h.Refused, zero, negative, strange) {
		p := b.Payment(t, reference(), standard(h))
		p.Amount = amount
		if p.Method.Amount != "" {
			p.Method.Amount = amount.Decimal() // refused for itself, not for differing from what the redirect carried
		}
		_, err := b.gw.Plan(p)
		f := class(t, err, fault.Invalid)
		require.Error(t, f.Cause, "the cause says what to do")
	}
	require.Empty(t, b.Writes(t), "planning sends nothing")
}

// references: ours are short and safe, yet nothing may break or be cut if one is not. Refused by form is as good as
// carried whole.
func references(t *testing.T, h Harness) {
	b := setup(t, h)
	for name, ref := range map[string]string{
		"OneCharacter": "a",
		"FormSyntax":   "a&amount=1;b=%20+c[d]#e",
		"Slashes":      "../../v1/refunds",
		"Quotes":       `a"b'c\d`,
		"Spaces":       "order 66 b",
		"Japanese":     "注文-12345",
		"Emoji":        "👨‍👩‍👧-ギフト",
		"SixtyFour":    strings.Repeat("x", 64),
		"TooLong":      strings.Repeat("x", 2000),
		"Null":         "a\x00b",
		"LineBreak":    "a\r\nIdempotency-Key: b",
		"InvalidUTF8":  "a\xffb",
		"Empty":        "",
	} {
		t.Run(name, func(t *testing.T) {
			p := b.Payment(t, reference(), standard(h))
			p.MerchantReference = ref
			if p.Method.Reference != "" {
				p.Method.Reference = ref
			}
			_, err := b.gw.Plan(p)
			if err != nil {
				class(t, err, fault.Invalid)
				return
			}
			require.NotContains(t, []string{"Null", "InvalidUTF8", "Empty", "TooLong"}, name, "refused cleanly")
			a := b.prepare(t, b.plan(t, b.Payment(t, ref, standard(h))))
			_, err = b.confirm(t.Context(), a)
			require.NoError(t, err)
			o, err := b.lookup(t.Context(), a.nameless())
			require.NoError(t, err)
			b.paid(t, a, o)
			b.charged(t, a, 1)
		})
	}
}

func descriptions(t *testing.T, h Harness) {
	b := setup(t, h)
	for name, text := range map[string]string{
		"Family":      strings.Repeat("👨‍👩‍👧 ギフト券 ﷽", 200),
		"Null":        "a\x00b",
		"InvalidUTF8": "gift\xed\xa0\x80card",
		"RightToLeft": "\u202egift",
		"FormSyntax":  "a&amount=1&currency=usd",
		"Long":        strings.Repeat("é", 5000),
		"Combining":   strings.Repeat("e\u0301", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			p := b.Payment(t, reference(), standard(h))
			p.Description = text
			a := b.prepare(t, b.plan(t, p))
			o, err := b.confirm(t.Context(), a)
			require.NoError(t, err)
			b.paid(t, a, o)
			b.charged(t, a, 1)
		})
	}
}

// keys: the key of one kind never leaks into another, and nothing below the gateway replaces it.
func keys(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.guarded(t, gateways.Confirm, a)
	if h.NoKeys {
		t.Skip("the provider takes no keys: the stored key stays with us")
	}
	c, cancels := b.gw.(gateways.Canceler)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Confirm, Times: 2})
	for i := range 3 {
		_, err := b.confirm(t.Context(), a)
		require.Equal(t, i < 2, err != nil)
	}
	if cancels {
		planned, err := c.PlanCancel(a.id)
		require.NoError(t, err)
		a.planned[gateways.Cancel] = planned.Request
		_, _ = b.gw.Send(t.Context(), gateways.Cancel, a.operation(gateways.Cancel))
	}
	seen := map[string]gateways.Kind{}
	for _, w := range b.Writes(t) {
		require.Equal(t, a.operation(w.Kind).Key, w.Key, "the stored key, unchanged")
		if kind, ok := seen[w.Key]; ok {
			require.Equal(t, kind, w.Kind, "one key, one kind")
		}
		seen[w.Key] = w.Kind
	}
	require.Len(t, writesOf(b.Writes(t), gateways.Confirm), 3)
	b.charged(t, a, 1)
}

// frozenBytes: what was stored is what goes out, from a process that was started later and would plan it differently.
func frozenBytes(t *testing.T, h Harness) {
	b := setup(t, h)
	p := b.Payment(t, reference(), standard(h))
	first, err := b.gw.Plan(p)
	require.NoError(t, err)
	second, err := b.gw.Plan(p)
	require.NoError(t, err)
	require.Equal(t, first, second, "planning is pure")

	a := b.plan(t, p)
	b.prepare(t, a)
	b.Arm(t, Fault{Kind: CutBefore, On: gateways.Confirm})
	_, err = b.confirm(t.Context(), a)
	class(t, err, fault.Unknown)
	if b.repeatable(gateways.Confirm, a) {
		b.gw = b.Open(t, nil)
		_, err = b.confirm(t.Context(), a)
		require.NoError(t, err)
	}
	var sent [][]byte
	for _, w := range b.Writes(t) {
		if !h.SignsRequests {
			require.Equal(t, string(a.planned[w.Kind]), string(w.Body))
		}
		if w.Kind == gateways.Confirm {
			sent = append(sent, w.Body)
		}
	}
	require.NotEmpty(t, sent)
	for _, body := range sent {
		require.Equal(t, string(sent[0]), string(body), "byte-identical over sends")
	}
}

func noKey(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	before := len(b.Writes(t))
	unusable := []string{"", " ", "a b", "a\r\nb", strings.Repeat("k", 2000)}
	if h.NoKeys {
		unusable = unusable[:1] // it stays with us, so only its absence is a bug
	}
	for _, key := range unusable {
		op := a.operation(gateways.Confirm)
		op.Key = key
		_, err := b.gw.Send(t.Context(), gateways.Confirm, op)
		class(t, err, fault.Internal)
	}
	op := a.operation(gateways.Confirm)
	op.Request = nil
	_, err := b.gw.Send(t.Context(), gateways.Confirm, op)
	class(t, err, fault.Internal)
	_, err = b.gw.Send(t.Context(), gateways.Kind("teleport"), a.operation(gateways.Confirm))
	class(t, err, fault.Internal)
	require.Len(t, b.Writes(t), before, "nothing left")
	b.charged(t, a, 0)
}

func concurrent(t *testing.T, h Harness) {
	b := setup(t, h)
	attempts := make([]*attempt, 8)
	for i := range attempts {
		attempts[i] = b.prepared(t)
	}
	sends := 1
	if b.repeatable(gateways.Confirm, attempts[0]) {
		sends = 4
	}
	var wg sync.WaitGroup
	for _, a := range attempts {
		for range sends {
			op, q := a.operation(gateways.Confirm), a.query()
			wg.Go(func() { _, _ = b.gw.Send(context.WithoutCancel(t.Context()), gateways.Confirm, op) })
			wg.Go(func() {
				_, _ = b.gw.Lookup(t.Context(), q)
			})
		}
	}
	wg.Wait()
	for _, a := range attempts {
		b.charged(t, a, 1)
		o, err := b.lookup(t.Context(), a)
		require.NoError(t, err)
		b.paid(t, a, o)
	}
}
