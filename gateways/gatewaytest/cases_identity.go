package gatewaytest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// altered: an answer that fits in everything but one field. The gateway may refuse it; otherwise the observation carries
// what the answer says, never what was asked, so that the caller's comparison can fail.
func altered(t *testing.T, h Harness) {
	for _, field := range []Field{FieldAmount, FieldCurrency, FieldReference, FieldID} {
		require.Contains(t, h.Altered, field, "the harness alters every field that an observation has")
	}
	for field, alter := range h.Altered {
		t.Run(string(field), func(t *testing.T) {
			b := setup(t, h)
			a := b.prepared(t)
			_, err := b.confirm(t.Context(), a)
			require.NoError(t, err)
			raw := b.Raw(t, a.id)
			wrong := alter(raw)
			require.NotEqual(t, string(raw), string(wrong), "the harness alters")
			want := identity(a)

			b.Arm(t, Fault{Kind: Answer, On: Lookup, Body: wrong})
			o, err := b.lookup(t.Context(), a)
			visible(t, field, want, o, err)
			if b.repeatable(gateways.Confirm, a) {
				b.Arm(t, Fault{Kind: Answer, On: gateways.Confirm, Body: wrong})
				o, err = b.gw.Send(t.Context(), gateways.Confirm, a.operation(gateways.Confirm))
				visible(t, field, want, o, err)
			}
		})
	}
}

// identity is what an observation of an attempt must say in each field.
func identity(a *attempt) map[Field]any {
	return map[Field]any{
		FieldAmount: a.payment.Amount.Minor, FieldCurrency: a.payment.Amount.Currency,
		FieldReference: a.payment.MerchantReference, FieldID: a.id,
	}
}

func visible(t *testing.T, field Field, want map[Field]any, o gateways.Observation, err error) {
	t.Helper()
	if err != nil {
		unsettled(t, o, err)
		return
	}
	if o.Outcome == gateways.Unknown {
		return
	}
	said := map[Field]any{
		FieldAmount: o.AmountMinor, FieldCurrency: o.Currency, FieldReference: o.MerchantReference, FieldID: o.ProviderPaymentID,
	}
	if field == FieldAccount {
		t.Fatalf("an answer about another merchant account was believed: %s", o.Outcome) // an observation has no place for it
	}
	if field == FieldAmount && o.CapturedMinor != want[FieldAmount] {
		return
	}
	require.NotEqual(t, want[field], said[field], "the wrong %s shows", field)
}

// settings: what contradicts itself is refused at the start, in words that quote nothing secret.
func settings(t *testing.T, h Harness) {
	require.NotNil(t, h.Registration, "the harness names the registration")
	b := setup(t, h)
	var good gateways.Settings
	b.Open(t, func(s *gateways.Settings) { good = *s })
	_, err := h.Registration.Open(good)
	require.NoError(t, err)

	for _, env := range []gateways.Environment{gateways.Test, gateways.Live} {
		s := good
		s.Environment = env
		if gw, err := h.Registration.Open(s); err == nil {
			require.Equal(t, env, gw.Account().Environment, "an environment is never overruled in silence")
		} else {
			require.NotEqual(t, b.gw.Account().Environment, env, "%v", err)
			require.NotContains(t, err.Error(), good.SecretKey.Reveal())
		}
	}
	for name, spoil := range map[string]func(*gateways.Settings){
		"NoName":          func(s *gateways.Settings) { s.Name = "" },
		"NoKey":           func(s *gateways.Settings) { s.SecretKey = secret.Value{} },
		"NegativeTimeout": func(s *gateways.Settings) { s.Timeout = -time.Second },
		"BaseIsNoURL":     func(s *gateways.Settings) { s.APIBase = "sandbox:8090" },
		"BaseOfOther":     func(s *gateways.Settings) { s.APIBase = "ftp://127.0.0.1/" },
		"BaseWithUser":    func(s *gateways.Settings) { s.APIBase = "https://u:HUSH@example.org" },
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			spoil(&s)
			gw, err := h.Registration.Open(s)
			require.Error(t, err)
			require.Nil(t, gw)
			require.NotContains(t, err.Error(), good.SecretKey.Reveal())
			require.NotContains(t, err.Error(), "HUSH")
		})
	}
}

// changedBody: a key that meets another request, of the same payment or of another one. Providers refuse it, answer with
// the first payment, or (keyless) take it as its own. Never is it a second effect, and what comes back names what it is.
func changedBody(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	b.guarded(t, gateways.Confirm, a)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)

	t.Run("OfTheSamePayment", func(t *testing.T) {
		p := a.payment
		p.Amount.Minor *= 2
		p.Description = "changed"
		planned, err := b.gw.Plan(p)
		if err != nil {
			class(t, err, fault.Invalid) // its amount is bound to what the buyer agreed to
			return
		}
		for _, w := range planned {
			op := a.operation(w.Kind)
			op.Request = w.Request
			o, err := b.gw.Send(t.Context(), w.Kind, op)
			if err != nil {
				unsettled(t, o, err)
			} else {
				require.NotEqual(t, p.Amount.Minor, o.CapturedMinor, "the new amount is never taken")
			}
		}
		b.charged(t, a, 1)
	})
	t.Run("OfAnotherPayment", func(t *testing.T) {
		other := b.prepared(t)
		op := other.operation(gateways.Confirm)
		op.Key = a.operation(gateways.Confirm).Key
		o, err := b.gw.Send(t.Context(), gateways.Confirm, op)
		o, err = b.hinted(t.Context(), other, o, err)
		captured := len(b.Captures(t, other.payment.MerchantReference))
		switch {
		case err != nil:
			unsettled(t, o, err)
			require.Zero(t, captured)
		case o.MerchantReference == other.payment.MerchantReference:
			require.Equal(t, captured > 0, o.Outcome == gateways.Succeeded, "it is the other payment's own answer")
		default:
			require.Equal(t, a.payment.MerchantReference, o.MerchantReference, "the first payment's answer is named as such")
			require.Equal(t, a.id, o.ProviderPaymentID)
			require.Zero(t, captured)
		}
		b.charged(t, a, 1)
	})
}

// alikeReferences: a lookup by reference compares whole references, not prefixes, cases or lookalikes.
func alikeReferences(t *testing.T, h Harness) {
	b := setup(t, h)
	for name, pair := range map[string][2]string{
		"Prefix":      {"order-77", "order-777"},
		"Suffix":      {"order-88", "x-order-88"},
		"Case":        {"order-aB", "order-Ab"},
		"Punctuation": {"order-9.1", "order-9_1"},
		"Zeros":       {"order-1", "order-01"},
		"FullWidth":   {"order-5a", "order-５a"},
		"Wildcard":    {"order-6x", "order-6%"},
	} {
		t.Run(name, func(t *testing.T) {
			var planned []*attempt
			for _, ref := range pair {
				p := b.Payment(t, reference(), standard(h))
				p.MerchantReference = ref
				if p.Method.Reference != "" {
					p.Method.Reference = ref
				}
				if _, err := b.gw.Plan(p); err != nil {
					class(t, err, fault.Invalid)
					continue
				}
				planned = append(planned, b.plan(t, b.Payment(t, ref, standard(h))))
			}
			for i, a := range planned {
				b.prepare(t, a)
				_, err := b.confirm(t.Context(), a)
				require.NoError(t, err)
				if i == 0 && len(planned) == 2 {
					o, err := b.lookup(t.Context(), planned[1].nameless())
					require.NoError(t, err)
					require.NotEqual(t, gateways.Succeeded, o.Outcome, "the other one is not it")
				}
			}
			for _, a := range planned {
				o, err := b.lookup(t.Context(), a.nameless())
				require.NoError(t, err)
				b.paid(t, a, o)
				b.charged(t, a, 1)
			}
		})
	}
}

// listing: many payments of the same second, over several pages. Each is found by its reference alone.
func listing(t *testing.T, h Harness) {
	if h.ListPage <= 0 {
		t.Skip("no lookup of this gateway walks a listing")
	}
	b := setup(t, h)
	attempts := make([]*attempt, 2*h.ListPage+3)
	for i := range attempts {
		attempts[i] = b.plan(t, b.Payment(t, fmt.Sprintf("list-%06d", i), standard(h)))
	}
	next := make(chan *attempt)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for a := range next {
				if b.caps.Prepares {
					if o, err := b.gw.Send(t.Context(), gateways.Prepare, a.operation(gateways.Prepare)); err == nil {
						a.learn(o)
					}
				}
				_, _ = b.confirm(t.Context(), a)
			}
		})
	}
	for _, a := range attempts {
		next <- a
	}
	close(next)
	workers.Wait()
	for _, i := range []int{0, 1, h.ListPage - 1, h.ListPage, h.ListPage + 1, 2 * h.ListPage, len(attempts) - 1} {
		a := attempts[i]
		require.NotEmpty(t, a.id, "payment %d was made", i)
		o, err := b.lookup(t.Context(), a.nameless())
		require.NoError(t, err)
		b.paid(t, a, o)
	}
	absent := attempts[0].nameless()
	absent.payment.MerchantReference = "list-absent"
	o, err := b.lookup(t.Context(), absent)
	require.NoError(t, err)
	require.Equal(t, gateways.NotFound, o.Outcome)
}

// waiting: a payment that needs its buyer is pending with something to do, and only the buyer ends it.
func waiting(t *testing.T, h Harness) {
	for _, pays := range []bool{true, false} {
		t.Run(map[bool]string{true: "Pays", false: "Refuses"}[pays], func(t *testing.T) {
			b := setup(t, h)
			buyer, a := b.waits(t)
			o, err := b.confirm(t.Context(), a)
			require.NoError(t, err)
			b.pends(t, a, o)
			if b.repeatable(gateways.Confirm, a) {
				b.pends(t, a, b.repeated(t, a))
			}
			o, err = b.lookup(t.Context(), a)
			require.NoError(t, err)
			b.pends(t, a, o)

			buyer.Act(t, a.id, a.payment.MerchantReference, pays)
			o, err = b.lookup(t.Context(), a)
			require.NoError(t, err)
			if pays {
				b.paid(t, a, o)
				b.charged(t, a, 1)
				return
			}
			require.Equal(t, gateways.Declined, o.Outcome)
			require.Equal(t, !b.caps.DeclineLeavesOpen, o.Final)
			require.Zero(t, o.CapturedMinor)
			b.charged(t, a, 0)
		})
	}
}

func waitingLost(t *testing.T, h Harness) {
	b := setup(t, h)
	buyer, a := b.waits(t)
	b.Arm(t, Fault{Kind: LoseAnswer, On: gateways.Confirm})
	_, err := b.confirm(t.Context(), a)
	class(t, err, fault.Unknown)
	o, err := b.lookup(t.Context(), a)
	require.NoError(t, err)
	if h.ActionSaidOnce && o.NextAction == nil {
		o.NextAction = &gateways.NextAction{Type: "lost", URL: "lost with the answer"}
	}
	b.pends(t, a, o)
	a.learn(o)
	buyer.Act(t, a.id, a.payment.MerchantReference, true)
	o, err = b.lookup(t.Context(), a.nameless())
	require.NoError(t, err)
	b.paid(t, a, o)
	b.charged(t, a, 1)
}

func (b bench) waits(t *testing.T) (Buying, *attempt) {
	t.Helper()
	buyer, ok := b.Provider.(Buying)
	if !ok {
		t.Skip("the harness has no payments that wait for their buyer")
	}
	amount := standard(b.h)
	if amount == (money.Amount{}) {
		t.Fatal("the harness has no price")
	}
	return buyer, b.prepare(t, b.plan(t, buyer.Waiting(t, reference(), amount)))
}

// pends asserts that an observation says: nothing taken yet, the buyer has something to do.
func (b bench) pends(t *testing.T, a *attempt, o gateways.Observation) {
	t.Helper()
	require.Equal(t, gateways.Pending, o.Outcome)
	require.False(t, o.Final)
	require.Zero(t, o.CapturedMinor)
	require.Equal(t, a.payment.MerchantReference, o.MerchantReference)
	require.Equal(t, a.payment.Amount.Minor, o.AmountMinor)
	require.Equal(t, a.payment.Amount.Currency, o.Currency)
	require.NotNil(t, o.NextAction, "the buyer is told what to do")
	require.NotEmpty(t, o.NextAction.Type)
	require.NotEmpty(t, o.NextAction.URL+o.NextAction.Code+o.NextAction.QR+o.NextAction.Account)
	b.charged(t, a, 0)
}
