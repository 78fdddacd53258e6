package toss

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

// Toss's headers, in the canonical form of net/http.
const (
	headerSignature = "Tosspayments-Webhook-Signature"
	headerTime      = "Tosspayments-Webhook-Transmission-Time"
)

const (
	maxNotice = 1 << 20
	// staleAfter covers Toss's series of resends (about 3 days 19 hours): whether a resend carries a new time is not known.
	staleAfter = 5 * 24 * time.Hour
	callback   = "DEPOSIT_CALLBACK"
	// maxSignatures bounds what a hostile header can make us compute.
	maxSignatures = 8
)

var (
	eventShape = regexp.MustCompile(`^[A-Za-z0-9_.]{1,64}$`)
	// signedEvents are the only ones Toss signs, and the only ones that say anything by themselves.
	signedEvents = map[string]bool{"payout.changed": true, "seller.changed": true}
	// paymentEvents always name a payment; one that does not is not Toss's.
	paymentEvents = map[string]bool{callback: true, "PAYMENT_STATUS_CHANGED": true, "CANCEL_STATUS_CHANGED": true}
)

// fields is a JSON object of which nothing is believed yet: any field may be missing, null or of another type.
type fields map[string]json.RawMessage

func (f fields) text(key string) string {
	var s string
	if json.Unmarshal(f[key], &s) != nil {
		return ""
	}
	return s
}

func (f fields) object(key string) fields {
	var o fields
	if json.Unmarshal(f[key], &o) != nil {
		return nil
	}
	return o
}

// ReadNotice reads all three of Toss's envelopes: general ({eventType, data}), flat (a deposit callback without an event
// type) and entity ({eventType, entityBody}). Payment events are not signed: the per-payment secret that some carry is for
// the caller to compare, and without one the notice is only a hint. A status, amount or type that is not known is no
// error, since the payment itself is looked up.
func (g *Gateway) ReadNotice(in gateways.Incoming) (gateways.Notice, error) {
	var top fields
	if len(in.Body) > maxNotice || json.Unmarshal(in.Body, &top) != nil || top == nil {
		return gateways.Notice{}, malformed("the body is no JSON object")
	}
	kind := top.text("eventType")
	if signedEvents[kind] {
		return g.readSigned(in, top, kind)
	}
	about := top.object("data")
	if about == nil {
		about, kind = top, firstOf(kind, callback)
	}
	n := gateways.Notice{
		EventType:         safeEvent(kind),
		ProviderPaymentID: shaped(paymentKeyShape, about.text("paymentKey")),
		MerchantReference: shaped(anyOrderID, about.text("orderId")),
		Proof:             gateways.ProofNone,
		ProviderTime:      korean(top.text("createdAt")),
		Says:              gateways.Unknown,
	}
	known := n.ProviderPaymentID != "" || n.MerchantReference != ""
	if !known && paymentEvents[kind] {
		return gateways.Notice{}, malformed("a payment event names neither paymentKey nor orderId")
	}
	status := firstOf(about.text("status"), about.text("cancelStatus"))
	transaction := firstOf(about.text("transactionKey"), about.text("lastTransactionKey"))
	n.EventID = eventID(kind, firstOf(n.ProviderPaymentID, n.MerchantReference), status, transaction, top.text("createdAt"))
	if !known {
		n.EventID = eventID(kind, string(in.Body)) // about no payment: the same bytes are the same event
		return n, nil
	}
	// A deposit callback always carries the payment's secret, so one without it is compared too: nothing never equals something.
	if s := about.text("secret"); s != "" || kind == callback {
		n.Proof, n.Secret = gateways.ProofSecret, secret.New(s)
	}
	n.Says = says(kind, status)
	return n, nil
}

// says is what a status claims. Cancels claim nothing: how much went back is in the payment only, so they never save the
// lookup.
func says(kind, status string) gateways.Outcome {
	v, ok := verdicts[status]
	if !ok || kind == "CANCEL_STATUS_CHANGED" || status == "CANCELED" || status == "PARTIAL_CANCELED" {
		return gateways.Unknown
	}
	return v.outcome
}

// eventID names an event that has no id of its own: what it is about, the status and the transaction. The time of its making
// is in it too, because a deposit that is taken back makes the payment wait again, in a status it had before and perhaps
// under the same transaction. Resends carry the same body. The transmission id is not used: nobody says that it is the same
// over resends.
func eventID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return "toss-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// readSigned reads the events about payouts and sellers, which are about no payment of ours.
func (g *Gateway) readSigned(in gateways.Incoming, top fields, kind string) (gateways.Notice, error) {
	if g.security.IsZero() {
		return gateways.Notice{}, fault.Wrap(fault.WebhookOff, "toss webhook",
			errors.New("payout and seller events are signed: set TOSS_WEBHOOK_SECRET to the security key of the dashboard"))
	}
	header := http.Header(in.Header)
	sent := header.Get(headerTime)
	if !g.signed(in.Body, sent, header.Get(headerSignature)) {
		return gateways.Notice{}, unproven("the signature is missing or wrong")
	}
	at := korean(sent)
	if at.IsZero() || (!in.At.IsZero() && in.At.Sub(at).Abs() > staleAfter) {
		return gateways.Notice{}, unproven("the transmission time cannot be read or is days away")
	}
	id := top.text("eventId")
	if id == "" {
		return gateways.Notice{}, malformed("a signed event has no eventId")
	}
	return gateways.Notice{
		EventID: eventID(kind, id), EventType: kind, Proof: gateways.ProofSigned,
		ProviderTime: korean(top.text("createdAt")), Says: gateways.Unknown,
	}, nil
}

// signed checks "v1:<base64>,v1:<base64>": an HMAC-SHA256 over the raw body, a colon and the transmission time. While the
// security key is changed there are two, of which either may match.
func (g *Gateway) signed(body []byte, sent, header string) bool {
	if sent == "" {
		return false
	}
	ok := false
	for _, want := range g.signatures(body, sent) {
		for i, part := range strings.Split(header, ",") {
			encoded, v1 := strings.CutPrefix(strings.TrimSpace(part), "v1:")
			if !v1 || i >= maxSignatures {
				continue
			}
			if got, err := base64.StdEncoding.DecodeString(encoded); err == nil && hmac.Equal(got, want) {
				ok = true
			}
		}
	}
	return ok
}

// signatures are the values that are right. Nobody says whether the key is the text of the security key or the 32 bytes it
// spells; whoever knows one knows the other, so both are taken.
func (g *Gateway) signatures(body []byte, sent string) [][]byte {
	shown := g.security.Reveal()
	spelled, _ := hex.DecodeString(shown) // checked by Open
	var out [][]byte
	for _, key := range [][]byte{[]byte(shown), spelled} {
		mac := hmac.New(sha256.New, key)
		mac.Write(body)
		mac.Write([]byte(":" + sent))
		out = append(out, mac.Sum(nil))
	}
	return out
}

// usableSecurityKey checks the form of the dashboard's security key, 64 hexadecimal digits. Absent is a choice: payment
// events need none.
func usableSecurityKey(key string) error {
	if key == "" {
		return nil
	}
	if b, err := hex.DecodeString(key); err != nil || len(b) != 32 {
		return errors.New("toss: TOSS_WEBHOOK_SECRET must be the security key of the dashboard, 64 hexadecimal digits; leave it out if you take no payout or seller events")
	}
	return nil
}

func shaped(shape *regexp.Regexp, s string) string {
	if !shape.MatchString(s) {
		return ""
	}
	return s
}

func safeEvent(kind string) string {
	if !eventShape.MatchString(kind) {
		return "unknown"
	}
	return kind
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func malformed(why string) *fault.Error {
	return fault.Wrap(fault.WebhookMalformed, "toss webhook", errors.New(why))
}

func unproven(why string) *fault.Error {
	return fault.Wrap(fault.WebhookUnproven, "toss webhook", errors.New(why))
}
