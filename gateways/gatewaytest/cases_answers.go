package gatewaytest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

type rubbish struct {
	name   string
	status int
	body   []byte
}

// rubbishes are answers that no provider means: what broken proxies, cut connections and foreign servers send.
func rubbishes(h Harness, raw []byte) []rubbish {
	out := []rubbish{
		{"CutJSON", 200, raw[:len(raw)/2]},
		{"TwoDocuments", 200, append(bytes.Clone(raw), raw...)},
		{"HTML", 200, []byte("<html><body>It works!</body></html>")},
		{"Empty", 200, nil},
		{"EmptyObject", 200, []byte("{}")},
		{"Null", 200, []byte("null")},
		{"List", 200, []byte("[]")},
		{"Text", 200, []byte(`"succeeded"`)},
		{"Deep", 200, bytes.Repeat([]byte("["), 1<<20)},
		{"TooBig", 200, append(bytes.Repeat([]byte(" "), 16<<20), raw...)},
		{"HTMLBadRequest", 400, []byte("<html>400</html>")},
		{"HTMLForbidden", 403, []byte("<html>blocked by a firewall</html>")},
		{"HTMLNotFound", 404, []byte("<html>404</html>")},
		{"EmptyConflict", 409, nil},
		{"EmptyPaymentRequired", 402, nil},
		{"EmptyObjectPaymentRequired", 402, []byte(`{}`)},
		{"HTMLTooMany", 429, []byte("<html>slow down</html>")},
		{"EmptyBadGateway", 502, nil},
		{"EmptyUnavailable", 503, nil},
		{"HTMLGatewayTimeout", 504, []byte("<html>504</html>")},
		{"Redirect", 302, raw},
	}
	for name, body := range h.WrongObjects {
		out = append(out, rubbish{"WrongObject" + name, 200, body})
	}
	return out
}

func garbage(t *testing.T, h Harness) {
	b := setup(t, h)
	example := b.prepared(t)
	_, err := b.confirm(t.Context(), example)
	require.NoError(t, err)
	raw := b.Raw(t, example.id)
	for _, r := range rubbishes(h, raw) {
		t.Run(r.name, func(t *testing.T) {
			a := b.prepared(t)
			b.Arm(t, Fault{Kind: Answer, On: gateways.Confirm, Effect: true, Status: r.status, Body: r.body})
			o, err := b.confirm(t.Context(), a)
			unsettled(t, o, err)
			if err != nil {
				class(t, err, fault.Unknown)
			}

			b.Arm(t, Fault{Kind: Answer, On: Lookup, Status: r.status, Body: r.body})
			o, err = b.lookup(t.Context(), a)
			unsettled(t, o, err)
			if err != nil {
				class(t, err, fault.Transient)
			}
			o, err = b.lookup(t.Context(), a)
			require.NoError(t, err)
			b.paid(t, a, o)
			b.charged(t, a, 1)
		})
	}
}

// otherPayment: a provider, a cache or a key of another payment answers about somebody else's money. The gateway may
// refuse it; if it does not, the observation carries the ids of the answer, so that the caller sees the difference.
func otherPayment(t *testing.T, h Harness) {
	b := setup(t, h)
	other := b.prepared(t)
	_, err := b.confirm(t.Context(), other)
	require.NoError(t, err)
	raw := b.Raw(t, other.id)

	a := b.prepared(t)
	for _, on := range []gateways.Kind{gateways.Confirm, Lookup} {
		b.Arm(t, Fault{Kind: Answer, On: on, Status: 200, Body: raw})
		var o gateways.Observation
		if on == Lookup {
			o, err = b.lookup(t.Context(), a)
		} else {
			o, err = b.confirm(t.Context(), a)
		}
		if err != nil {
			unsettled(t, o, err)
			continue
		}
		require.Equal(t, other.id, o.ProviderPaymentID)
		require.Equal(t, other.payment.MerchantReference, o.MerchantReference)
	}
	b.charged(t, a, 0)
}

// untouchedConfirm: "no confirm has reached me" in answer to a confirm contradicts itself. Believed, it would pass for "nothing
// happened"; it is an unknown outcome, and a lookup decides.
func untouchedConfirm(t *testing.T, h Harness) {
	b := setup(t, h)
	a := b.prepared(t)
	if !b.caps.Prepares && a.id == "" {
		t.Skip("the provider has no object before the confirm")
	}
	b.Arm(t, Fault{Kind: Answer, On: gateways.Confirm, Status: 200, Body: b.Raw(t, a.id)})
	o, err := b.confirm(t.Context(), a)
	unsettled(t, o, err)
}

func otherMode(t *testing.T, h Harness) {
	if h.OtherMode == nil {
		t.Skip("the provider's answers do not say their mode")
	}
	b := setup(t, h)
	a := b.prepared(t)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	live := h.OtherMode(b.Raw(t, a.id))
	b.Arm(t, Fault{Kind: Answer, On: Lookup, Status: 200, Body: live})
	o, err := b.lookup(t.Context(), a)
	if err != nil {
		unsettled(t, o, err)
		return
	}
	require.Equal(t, gateways.Test, b.gw.Account().Environment)
	require.Equal(t, gateways.Live, o.Account.Environment)
}

// quoting: a provider's messages may repeat what was sent. Codes go into faults, sentences never do.
func quoting(t *testing.T, h Harness) {
	if h.Quoting == nil {
		t.Skip("the harness knows no quoting refusal")
	}
	const marker = "MARKER-4242424242424242-buyer@example.org"
	b := setup(t, h)
	status, body := h.Quoting(marker)
	require.Contains(t, string(body), marker, "the harness quotes")
	a := b.prepared(t)
	for _, answer := range []rubbish{{"refusal", status, body}, {"text", 200, []byte(marker)}, {"text", 500, []byte(marker)}} {
		b.Arm(t, Fault{Kind: Answer, On: gateways.Confirm, Status: answer.status, Body: answer.body})
		_, err := b.confirm(t.Context(), a)
		silent(t, err, marker)
		b.Arm(t, Fault{Kind: Answer, On: Lookup, Status: answer.status, Body: answer.body})
		_, err = b.lookup(t.Context(), a)
		silent(t, err, marker)
	}
}

// silent walks the whole chain of causes, since logs print those too.
func silent(t *testing.T, err error, marker string) {
	t.Helper()
	require.Error(t, err)
	for e := err; e != nil; e = errors.Unwrap(e) {
		require.NotContains(t, e.Error(), marker)
		require.NotContains(t, fmt.Sprintf("%+v", e), marker)
	}
}
