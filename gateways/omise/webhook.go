package omise

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

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// signatureAge is how far the signed time may lie from ours, both ways.
const signatureAge = 5 * time.Minute

// Bounds of what a webhook may hold.
const (
	maxSignatures = 1024 // bytes of the header; two values are 129
	maxEventType  = 100
)

var eventShape = regexp.MustCompile(`^evnt_[A-Za-z0-9_]{1,250}$`)

// ReadNotice reads an event. With a webhook secret the signature must be right; without one nothing proves the event, and
// it is a hint. omise-go's own decoder is not used: it panics on an event without data, and it expects the version that
// this gateway asks for, while events come in the account's. So no field but the ids is taken for granted.
func (g *Gateway) ReadNotice(in gateways.Incoming) (gateways.Notice, error) {
	n := gateways.Notice{Proof: gateways.ProofNone}
	if !g.webhookKey.IsZero() {
		if err := g.verify(in); err != nil {
			return gateways.Notice{}, fault.Wrap(fault.WebhookUnproven, "omise webhook", err)
		}
		n.Proof = gateways.ProofSigned
	}
	var event map[string]json.RawMessage
	if len(in.Body) > maxAnswer || json.Unmarshal(in.Body, &event) != nil || text(event["object"]) != "event" {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, "omise webhook", errors.New("the body is no event"))
	}
	if n.EventID = text(event["id"]); !eventShape.MatchString(n.EventID) {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, "omise webhook", errors.New("the event has no id (evnt_…)"))
	}
	n.EventType = eventType(text(event["key"]))
	n.ProviderTime = eventTime(event)
	switch string(event["livemode"]) {
	case "true":
		n.Environment = gateways.Live
	case "false":
		n.Environment = gateways.Test
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(event["data"], &data) != nil {
		return n, nil // an event about nothing that we can read is still an event
	}
	if text(data["object"]) == "charge" {
		n.ProviderPaymentID = chargeID(data["id"])
		if ref := referenceIn(data["metadata"]); validReference(ref) {
			n.MerchantReference = ref
		}
		if n.Says = says(data); n.Says == gateways.Pending && n.EventType != "charge.create" {
			n.Says = "" // only the echo of our own charge says no more than that it waits; another event says that something happened
		}
		return n, nil
	}
	n.ProviderPaymentID = chargeID(data["charge"]) // a refund's, a dispute's
	return n, nil
}

// verify checks the signature over the raw bytes. For a day after the secret was changed there are two signatures.
func (g *Gateway) verify(in gateways.Incoming) error {
	header := http.Header(in.Header)
	signatures := strings.Join(header.Values("Omise-Signature"), ",")
	stamps := header.Values("Omise-Signature-Timestamp")
	if signatures == "" || len(stamps) != 1 {
		return errors.New("the signature headers are missing")
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	if err != nil || len(signatures) > maxSignatures {
		return errors.New("the signature headers cannot be read")
	}
	if off := in.At.Sub(time.Unix(seconds, 0)); off > signatureAge || off < -signatureAge {
		return errors.New("the signed time is more than five minutes off")
	}
	mac := hmac.New(sha256.New, []byte(g.webhookKey.Reveal()))
	mac.Write([]byte(stamps[0] + "."))
	mac.Write(in.Body)
	want, right := mac.Sum(nil), false
	for given := range strings.SplitSeq(signatures, ",") {
		sum, err := hex.DecodeString(strings.TrimSpace(given))
		if err == nil && hmac.Equal(sum, want) {
			right = true
		}
	}
	if !right {
		return errors.New("no signature is right")
	}
	return nil
}

// eventType keeps the characters that Omise's words are made of.
func eventType(s string) string {
	s = strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || r == '_' || r == '.' {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxEventType)]
}

// eventTime reads created_at, which older accounts call created.
func eventTime(event map[string]json.RawMessage) time.Time {
	for _, field := range []string{"created_at", "created"} {
		if at, err := time.Parse(time.RFC3339, text(event[field])); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// chargeID reads an id, or the id of an object in its place.
func chargeID(raw json.RawMessage) string {
	id := text(raw)
	var object struct {
		ID json.RawMessage `json:"id"`
	}
	if id == "" && json.Unmarshal(raw, &object) == nil {
		id = text(object.ID)
	}
	if !chargeShape.MatchString(id) {
		return ""
	}
	return id
}

// says is what a charge in an event claims, or nothing where it is not plain: charge.complete is also sent for a failure
// and for an authorization, so only the charge's own status counts, and a refund is worth a look even when the charge is
// known to be paid.
func says(data map[string]json.RawMessage) gateways.Outcome {
	for _, field := range []string{"refunded_amount", "refunded"} {
		if raw := string(data[field]); raw != "" && raw != "0" && raw != "null" {
			return ""
		}
	}
	paid := string(data["paid"]) == "true" || string(data["captured"]) == "true"
	switch status := text(data["status"]); {
	case status == statusSuccessful && paid:
		return gateways.Succeeded
	case paid:
		return ""
	case status == statusPending:
		return gateways.Pending
	case status == statusExpired, status == statusReversed,
		status == statusFailed && failures[text(data["failure_code"])] == declines:
		return gateways.Declined
	}
	return ""
}
