package stripesim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/notify"
)

// Notice is the webhook of an event.
func (s *Sim) Notice(account, kind string, event []byte) notify.Message {
	return notify.Message{
		Gateway: "stripe", Account: account, Kind: kind, Body: event,
		Header: func(at time.Time, _ int) http.Header { return Sign(s.cfg.WebhookSecret, at, event) },
	}
}

// Sign makes the headers of one delivery: Stripe signs the time and the raw body, anew for each try.
func Sign(key secret.Value, at time.Time, body []byte) http.Header {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key.Reveal())) // the whole text of the secret, whsec_ included
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return http.Header{
		"Content-Type":     {"application/json; charset=utf-8"},
		"User-Agent":       {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
		"Stripe-Signature": {"t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))},
	}
}
