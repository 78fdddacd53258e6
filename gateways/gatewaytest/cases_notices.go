package gatewaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

// post is one payment's webhook before it is sealed.
type post struct {
	bench
	Notifying
	reader gateways.Notifier
	hook   Webhook
	a      *attempt
	body   []byte
}

// now is when the webhooks of the suite arrive; real providers' clocks are near ours.
func now() time.Time { return time.Now().Truncate(time.Second) }

func webhook(t *testing.T, h Harness) post {
	t.Helper()
	b := setup(t, h)
	reader, ok := b.gw.(gateways.Notifier)
	if !ok {
		t.Skip("the gateway reads no webhooks")
	}
	sender, ok := b.Provider.(Notifying)
	require.True(t, ok && h.Webhook != nil, "a gateway that reads webhooks has a harness that sends them")
	a := b.prepared(t)
	_, err := b.confirm(t.Context(), a)
	require.NoError(t, err)
	body := sender.NoticeBody(t, a.id, a.payment.MerchantReference)
	require.True(t, json.Valid(body), "the harness gives the body before it is signed")
	return post{b, sender, reader, *h.Webhook, a, body}
}

// signed leaves a case out where nothing is signed.
func (p post) signed(t *testing.T) {
	t.Helper()
	if p.hook.Proof != gateways.ProofSigned {
		t.Skip("the provider signs no webhooks")
	}
}

func (p post) genuine(t *testing.T, body []byte) gateways.Incoming {
	t.Helper()
	return p.Seal(t, body, Seal{At: now()})
}

// about asserts that a notice names the payment, by id or by reference, and no other.
func (p post) about(t *testing.T, n gateways.Notice) {
	t.Helper()
	require.True(t, n.ProviderPaymentID != "" || n.MerchantReference != "", "the notice names its payment")
	p.noOther(t, n)
}

func (p post) noOther(t *testing.T, n gateways.Notice) {
	t.Helper()
	if n.ProviderPaymentID != "" && p.a.id != "" {
		require.Equal(t, p.a.id, n.ProviderPaymentID)
	}
	if n.MerchantReference != "" {
		require.Equal(t, p.a.payment.MerchantReference, n.MerchantReference)
	}
}

func refusedAs(t *testing.T, err error, codes ...fault.Code) {
	t.Helper()
	require.Error(t, err)
	f := fault.As(err)
	require.Contains(t, codes, f.Code, "%v", err)
	require.Equal(t, fault.PolicyOf(f.Code).Class, f.Class, "class and code agree")
}

func noticeGenuine(t *testing.T, h Harness) {
	p := webhook(t, h)
	first, err := p.reader.ReadNotice(p.genuine(t, p.body))
	require.NoError(t, err)
	p.about(t, first)
	require.NotEmpty(t, first.EventID)
	require.NotEmpty(t, first.EventType)
	require.Equal(t, p.hook.Proof, first.Proof)
	require.Equal(t, first.Proof == gateways.ProofSecret, !first.Secret.IsZero(), "a secret comes with its proof, and only then")
	require.Contains(t, []gateways.Environment{"", p.gw.Account().Environment}, first.Environment)
	require.Contains(t, []gateways.Outcome{"", gateways.Succeeded}, first.Says, "the payment is captured")

	later := now().Add(time.Hour)
	again, err := p.reader.ReadNotice(p.Seal(t, p.body, Seal{At: later}))
	require.NoError(t, err)
	require.Equal(t, first.EventID, again.EventID, "a resend is the same event")

	other := p.prepared(t)
	_, err = p.confirm(t.Context(), other)
	require.NoError(t, err)
	theirs, err := p.reader.ReadNotice(p.genuine(t, p.NoticeBody(t, other.id, other.payment.MerchantReference)))
	require.NoError(t, err)
	require.NotEqual(t, first.EventID, theirs.EventID, "another event has another id")
}

// noticeTampered flips bytes all over the request's body.
func noticeTampered(t *testing.T, h Harness) {
	p := webhook(t, h)
	p.signed(t)
	in := p.genuine(t, p.body)
	_, err := p.reader.ReadNotice(in)
	require.NoError(t, err)
	for i := 0; i < len(in.Body); i += max(1, len(in.Body)/97) {
		spoiled := in
		spoiled.Body = bytes.Clone(in.Body)
		spoiled.Body[i] ^= 1
		_, err := p.reader.ReadNotice(spoiled)
		refusedAs(t, err, fault.WebhookUnproven, fault.WebhookMalformed)
	}
	for _, body := range [][]byte{nil, in.Body[:len(in.Body)-1], append(bytes.Clone(in.Body), in.Body...)} {
		spoiled := in
		spoiled.Body = body
		_, err := p.reader.ReadNotice(spoiled)
		refusedAs(t, err, fault.WebhookUnproven, fault.WebhookMalformed)
	}
}

// noticeReformatted: the same JSON in other bytes. Where the signature covers the bytes of the request, only the
// original verifies.
func noticeReformatted(t *testing.T, h Harness) {
	p := webhook(t, h)
	p.signed(t)
	in := p.genuine(t, p.body)
	if !bytes.Equal(in.Body, p.body) {
		t.Skip("the body travels inside of its signature")
	}
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, in.Body, "", "\t"))
	var decoded any
	require.NoError(t, json.Unmarshal(in.Body, &decoded))
	sorted, err := json.Marshal(decoded)
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"Indented":        indented.Bytes(),
		"Sorted":          append(sorted, ' '),
		"TrailingNewline": append(bytes.Clone(in.Body), '\n'),
		"LeadingSpace":    append([]byte(" "), in.Body...),
		"ByteOrderMark":   append([]byte("\xef\xbb\xbf"), in.Body...),
		"Escaped":         bytes.Replace(in.Body, []byte("a"), []byte(`\u0061`), 1),
	} {
		spoiled := in
		spoiled.Body = body
		_, err := p.reader.ReadNotice(spoiled)
		require.Error(t, err, name)
		refusedAs(t, err, fault.WebhookUnproven)
	}
}

func noticeUnsigned(t *testing.T, h Harness) {
	p := webhook(t, h)
	if p.hook.Proof == gateways.ProofNone {
		t.Skip("nothing proves this provider's webhooks")
	}
	for name, how := range map[string]Seal{"Unsigned": {Unsigned: true}, "WrongSecret": {WrongSecret: true}} {
		how.At = now()
		n, err := p.reader.ReadNotice(p.Seal(t, p.body, how))
		if p.hook.Proof == gateways.ProofSecret && err == nil {
			// The caller compares; what is missing is no proof at all.
			require.Equal(t, how.Unsigned, n.Secret.IsZero(), name)
			require.Equal(t, how.Unsigned, n.Proof != gateways.ProofSecret, name)
			continue
		}
		refusedAs(t, err, fault.WebhookUnproven)
	}
	if p.hook.Proof != gateways.ProofSigned {
		return
	}
	in := p.genuine(t, p.body)
	for name := range in.Header {
		if name == "Content-Type" {
			continue
		}
		for _, value := range []string{"x", "", "=", ",,,", "t=,v1=", strings.Repeat("v1=00,", 5000), "\x00"} {
			spoiled := in
			spoiled.Header = http.Header(in.Header).Clone()
			spoiled.Header[name] = []string{value}
			_, err := p.reader.ReadNotice(spoiled)
			if err == nil {
				continue // not the header that proves
			}
			refusedAs(t, err, fault.WebhookUnproven, fault.WebhookMalformed)
		}
	}
}

func noticeTimes(t *testing.T, h Harness) {
	p := webhook(t, h)
	if p.hook.Tolerance <= 0 {
		t.Skip("no time is signed")
	}
	arrival := now()
	for off, ok := range map[time.Duration]bool{
		0: true, -p.hook.Tolerance + time.Second: true, p.hook.Tolerance - time.Second: true,
		-p.hook.Tolerance - time.Second: false, p.hook.Tolerance + time.Second: false,
		-10 * 365 * 24 * time.Hour: false, 10 * 365 * 24 * time.Hour: false,
	} {
		_, err := p.reader.ReadNotice(p.Seal(t, p.body, Seal{At: arrival.Add(off), Now: arrival}))
		if ok {
			require.NoError(t, err, off)
			continue
		}
		require.Error(t, err, off)
		refusedAs(t, err, fault.WebhookUnproven)
	}
}

func noticeOff(t *testing.T, h Harness) {
	p := webhook(t, h)
	if !p.hook.OffUnsecured {
		t.Skip("without a webhook secret this provider's webhooks are hints, or the secret is the key itself")
	}
	for _, none := range []secret.Value{{}, secret.New("")} {
		gw := p.Open(t, func(s *gateways.Settings) { s.WebhookSecret = none })
		require.False(t, gw.Capabilities().WebhookProof)
		reader, ok := gw.(gateways.Notifier)
		require.True(t, ok)
		for _, how := range []Seal{{At: now()}, {At: now(), Unsigned: true}, {At: now(), WrongSecret: true}} {
			_, err := reader.ReadNotice(p.Seal(t, p.body, how))
			refusedAs(t, err, fault.WebhookOff)
		}
	}
}

// noticeDrift: an event type or API version that came after us is read all the same.
func noticeDrift(t *testing.T, h Harness) {
	p := webhook(t, h)
	for name, c := range map[string]struct{ path, value string }{
		"Type":        {p.hook.Type, "payment.never_heard_of"},
		"OddType":     {p.hook.Type, "a\nb\x1b[31m" + strings.Repeat("é", 500)},
		"Version":     {p.hook.Version, "2099-01-01.x"},
		"FutureField": {"of_a_later_version", "x"},
	} {
		if c.path == "" {
			continue
		}
		n, err := p.reader.ReadNotice(p.genuine(t, edit(t, p.body, c.path, c.value)))
		require.NoError(t, err, name)
		p.noOther(t, n)
		require.LessOrEqual(t, len(n.EventType), 200)
		require.NotContains(t, n.EventType, "\n")
		require.NotContains(t, n.EventType, "\x1b")
	}
}

func noticeOtherMode(t *testing.T, h Harness) {
	p := webhook(t, h)
	if p.hook.OtherMode == nil {
		t.Skip("the webhooks do not say their mode")
	}
	n, err := p.reader.ReadNotice(p.genuine(t, p.hook.OtherMode(p.body)))
	require.NoError(t, err)
	require.Equal(t, gateways.Test, p.gw.Account().Environment)
	require.Equal(t, gateways.Live, n.Environment)
}

func noticeNoID(t *testing.T, h Harness) {
	p := webhook(t, h)
	if p.hook.EventID == "" {
		t.Skip("the provider's events have no id")
	}
	for _, value := range []any{absent{}, nil, "", 7, true, []any{}, map[string]any{}, "a\nb", strings.Repeat("x", 5000)} {
		_, err := p.reader.ReadNotice(p.genuine(t, edit(t, p.body, p.hook.EventID, value)))
		require.Error(t, err, "%v", value)
		refusedAs(t, err, fault.WebhookMalformed)
	}
}

// noticeNulls puts null, and values of other types, at every place of the body in turn. Whatever is read of it never names
// another payment; what is refused is refused as malformed (or unproven, where the proof is in the body).
func noticeNulls(t *testing.T, h Harness) {
	p := webhook(t, h)
	for _, path := range paths(t, p.body) {
		for _, value := range []any{nil, absent{}, "REVIEW", "1500", -1.5, true, []any{nil}, map[string]any{"id": nil}} {
			n, err := p.reader.ReadNotice(p.genuine(t, edit(t, p.body, path, value)))
			if err != nil {
				require.Contains(t, []fault.Code{fault.WebhookMalformed, fault.WebhookUnproven}, fault.As(err).Code, "%s=%v: %v", path, value, err)
				continue
			}
			require.NotEmpty(t, n.EventID, "%s=%v", path, value)
			if text, ok := value.(string); ok && (n.ProviderPaymentID == text || n.MerchantReference == text) {
				continue // it names what the body now names
			}
			p.noOther(t, n)
		}
	}
}

func noticeRubbish(t *testing.T, h Harness) {
	p := webhook(t, h)
	deep := []byte(strings.Repeat(`{"data":`, 100_000) + "1" + strings.Repeat("}", 100_000))
	for name, body := range map[string][]byte{
		"Empty": {}, "Null": []byte("null"), "List": []byte("[]"), "Object": []byte("{}"), "Text": []byte(`"x"`), "Number": []byte("1e999"),
		"HTML": []byte("<html>"), "Cut": p.body[:len(p.body)/2], "Two": append(bytes.Clone(p.body), p.body...),
		"Deep": deep, "Binary": {0x1f, 0x8b, 0, 0xff}, "Form": []byte("id=evt_1&type=x"),
	} {
		for _, how := range []Seal{{At: now()}, {At: now(), Unsigned: true}} {
			_, err := p.reader.ReadNotice(p.Seal(t, body, how))
			require.Error(t, err, name)
			refusedAs(t, err, fault.WebhookMalformed, fault.WebhookUnproven)
		}
	}
	for _, body := range [][]byte{nil, []byte("{}"), []byte("null"), p.body} {
		_, err := p.reader.ReadNotice(gateways.Incoming{Body: body, At: now()})
		if p.hook.Proof == gateways.ProofSigned || len(body) < len(p.body) {
			refusedAs(t, err, fault.WebhookMalformed, fault.WebhookUnproven)
		}
	}
	const marker = "MARKER-4242424242424242"
	_, err := p.reader.ReadNotice(p.genuine(t, fmt.Appendf(nil, `{"id":"%s","type":"%s","data":"%s"`, marker, marker, marker)))
	silent(t, err, marker)
}
