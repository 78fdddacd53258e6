package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

// Bounds of a webhook. Stripe documents the five minutes for old ones; the same holds for times ahead of ours, so that a
// stolen secret cannot sign for next year.
const (
	noticeTolerance = 5 * time.Minute
	maxSignatures   = 16 // while a secret is rolled there are two
	maxSignature    = 4 << 10
	maxNotice       = 1 << 20
	maxEventType    = 100
)

const readNotice = name + " read notice"

// ReadNotice reads one webhook. The signature is checked over the raw bytes before anything is decoded; it is our own
// check because stripe-go's takes a time in the future and refuses events of another API version than its own.
func (g *Gateway) ReadNotice(in gateways.Incoming) (gateways.Notice, error) {
	if g.webhookSecret.IsZero() {
		return gateways.Notice{}, fault.Wrap(fault.WebhookOff, readNotice,
			errors.New("no webhook secret is set for this account: set STRIPE_WEBHOOK_SECRET (whsec_…)"))
	}
	if err := proven(g.webhookSecret, in); err != nil {
		return gateways.Notice{}, fault.Wrap(fault.WebhookUnproven, readNotice, err)
	}
	n, err := decodeEvent(in.Body)
	if err != nil {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, readNotice, err)
	}
	return n, nil
}

// proven checks Stripe-Signature: t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">, with several v1 while a secret is
// rolled. Other schemes (v0) are no proof.
func proven(key secret.Value, in gateways.Incoming) error {
	lines := http.Header(in.Header).Values("Stripe-Signature")
	if len(lines) != 1 || len(lines[0]) > maxSignature {
		return errors.New("there is not exactly one Stripe-Signature header")
	}
	if len(in.Body) > maxNotice {
		return errors.New("the body is larger than any event of Stripe's")
	}
	at, signatures, err := parseSignature(lines[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return errors.New("the signed time is no number")
	}
	if off := in.At.Sub(time.Unix(seconds, 0)).Abs(); off > noticeTolerance {
		return errors.New("the signed time is more than five minutes from our clock")
	}
	mac := hmac.New(sha256.New, []byte(key.Reveal())) // the whole text of the secret, whsec_ included
	mac.Write([]byte(at))
	mac.Write([]byte("."))
	mac.Write(in.Body)
	want := mac.Sum(nil)
	right := false
	for _, s := range signatures {
		got, err := hex.DecodeString(s)
		right = (err == nil && hmac.Equal(got, want)) || right
	}
	if !right {
		return errors.New("no signature is right: the body was changed, or the webhook secret is another endpoint's")
	}
	return nil
}

func parseSignature(header string) (at string, signatures []string, err error) {
	for pair := range strings.SplitSeq(header, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch {
		case k == "t" && at != "":
			return "", nil, errors.New("Stripe-Signature holds two times")
		case k == "t":
			at = v
		case k == "v1":
			signatures = append(signatures, v)
		}
	}
	switch {
	case at == "":
		return "", nil, errors.New("Stripe-Signature holds no time")
	case len(signatures) == 0:
		return "", nil, errors.New("Stripe-Signature holds no v1 signature")
	case len(signatures) > maxSignatures:
		return "", nil, errors.New("Stripe-Signature holds too many signatures")
	}
	return at, signatures, nil
}

var (
	eventShape    = regexp.MustCompile(`^evt_[A-Za-z0-9_]{1,250}$`)
	eventTypeRune = regexp.MustCompile(`[^a-z0-9_.]+`)
)

var errForm = errors.New("the body is not an event of Stripe's: an object with an id (evt_…) and a type")

// event is read field by field: what a later API version changes in one must not spoil the others.
type event map[string]json.RawMessage

func (e event) text(key string) string {
	var s string
	if json.Unmarshal(e[key], &s) != nil {
		return ""
	}
	return s
}

func (e event) object(key string) event {
	var o event
	if json.Unmarshal(e[key], &o) != nil {
		return nil
	}
	return o
}

func decodeEvent(body []byte) (gateways.Notice, error) {
	var e event
	if json.Unmarshal(body, &e) != nil || e == nil {
		return gateways.Notice{}, errForm
	}
	id, kind := e.text("id"), e.text("type")
	if !eventShape.MatchString(id) || kind == "" {
		return gateways.Notice{}, errForm
	}
	n := gateways.Notice{EventID: id, EventType: safeType(kind), Proof: gateways.ProofSigned}
	var live *bool
	if json.Unmarshal(e["livemode"], &live) == nil && live != nil {
		n.Environment = gateways.Test
		if *live {
			n.Environment = gateways.Live
		}
	}
	var created int64
	if json.Unmarshal(e["created"], &created) == nil && created > 0 {
		n.ProviderTime = time.Unix(created, 0).UTC()
	}
	about(&n, kind, e.object("data"))
	return n, nil
}

// about fills in whose payment the event is about. Stripe has hundreds of types; those on payments name the intent in one
// of two places, and everything else is about no payment of ours.
func about(n *gateways.Notice, kind string, data event) {
	raw := data["object"]
	object := data.object("object")
	switch {
	case strings.HasPrefix(kind, "payment_intent."):
		if id := object.text("id"); intentShape.MatchString(id) {
			n.ProviderPaymentID = id
		}
		if ref := object.object("metadata").text(referenceField); validReference(ref) == nil {
			n.MerchantReference = ref
		}
		if n.Says = claim(raw); kind == "payment_intent.amount_capturable_updated" {
			n.Says = "" // it waits as before, but for the merchant now: what is held is worth a look
		}
	case strings.HasPrefix(kind, "charge."), strings.HasPrefix(kind, "refund."):
		n.ProviderPaymentID = intentOf(object)
		if kind == "charge.succeeded" {
			n.Says = claimOfCharge(raw)
		}
	}
}

// intentOf reads the field payment_intent of a charge, a refund or a dispute: an id, or the intent itself.
func intentOf(object event) string {
	id := object.text("payment_intent")
	if id == "" {
		id = object.object("payment_intent").text("id")
	}
	if !intentShape.MatchString(id) {
		return ""
	}
	return id
}

// claim is what an intent says about itself; nothing when it is not wholly understood.
func claim(raw json.RawMessage) gateways.Outcome {
	pi := &stripego.PaymentIntent{}
	if json.Unmarshal(raw, pi) != nil || !sound(pi) {
		return ""
	}
	if v := judge(pi); v.outcome != gateways.Unknown {
		return v.outcome
	}
	return ""
}

// claimOfCharge is what a charge says of its intent. One that took the whole amount and of which nothing came back means what the
// intent's own event says beside it, so every paid order would be looked at twice for nothing.
func claimOfCharge(raw json.RawMessage) gateways.Outcome {
	c := &stripego.Charge{}
	if json.Unmarshal(raw, c) != nil {
		return ""
	}
	if c.Status == stripego.ChargeStatusSucceeded && c.Paid && c.Captured && c.AmountCaptured == c.Amount && c.Amount > 0 &&
		c.AmountRefunded == 0 && !c.Refunded && !c.Disputed {
		return gateways.Succeeded
	}
	return ""
}

// safeType keeps what Stripe's types are made of, so that the word can stand in logs and rows.
func safeType(kind string) string {
	kind = eventTypeRune.ReplaceAllString(kind, "")
	if kind == "" {
		return "unknown"
	}
	return kind[:min(len(kind), maxEventType)]
}

// validWebhookSecret refuses what is plainly another thing.
func validWebhookSecret(s secret.Value) error {
	text := s.Reveal()
	if text == "" {
		return nil
	}
	if !strings.HasPrefix(text, "whsec_") || len(text) < 12 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("stripe: the webhook secret is not one: copy the endpoint's signing secret (whsec_…), or leave it out to take no webhooks")
	}
	return nil
}
