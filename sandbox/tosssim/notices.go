package tosssim

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"

	"orderflow/sandbox/notify"
)

// changed makes the webhooks of one change of a payment: for a virtual account two, in the order the settings say.
func (s *Sim) changed(p *payment) {
	switch {
	case p.va == nil:
		s.statusChanged(p)
	case s.settings.CallbackFirst:
		s.callback(p)
		s.statusChanged(p)
	default:
		s.statusChanged(p)
		s.callback(p)
	}
}

// statusChanged is the general envelope. Toss sends it for these statuses only; not for a deposit that is waited for.
func (s *Sim) statusChanged(p *payment) {
	switch p.status {
	case done, canceled, partialCanceled, aborted, expired:
		s.emit(p.account, "PAYMENT_STATUS_CHANGED", map[string]any{
			"eventType": "PAYMENT_STATUS_CHANGED", "createdAt": s.created(), "data": s.view(p),
		}, false)
	}
}

// callback is the flat envelope of a virtual account: no event type, no payment key.
func (s *Sim) callback(p *payment) {
	s.emit(p.account, "DEPOSIT_CALLBACK", map[string]any{
		"createdAt": s.created(), "secret": p.secret, "status": p.status, "transactionKey": p.last, "orderId": p.orderID,
	}, false)
}

// cancelChanged is sent when an asynchronous cancel of a foreign easy payment ends.
func (s *Sim) cancelChanged(p *payment, c *cancellation) {
	s.emit(p.account, "CANCEL_STATUS_CHANGED", map[string]any{
		"eventType": "CANCEL_STATUS_CHANGED", "createdAt": s.created(),
		"data": map[string]any{
			"paymentKey": p.key, "orderId": p.orderID, "cancelStatus": c.status, "transactionKey": c.key,
			"cancelAmount": formatAmount(c.amount, p.currency), "canceledAt": stamp(c.at), "cancelReason": c.reason,
		},
	}, false)
}

// Payout sends the entity envelope, which is about no payment and is signed.
func (s *Sim) Payout(account, payoutID string) {
	s.mu.Lock()
	s.emit(account, "payout.changed", map[string]any{
		"eventType": "payout.changed", "createdAt": s.created(), "version": "2022-11-16", "eventId": "evt_" + rand.Text(),
		"entityType": "payout", "entityBody": map[string]any{"id": payoutID, "status": "COMPLETED"},
	}, true)
	out := s.drain()
	s.mu.Unlock()
	s.publish(out)
}

// created has microseconds and no offset, as Toss's has.
func (s *Sim) created() string {
	return s.cfg.Now().In(seoul).Format("2006-01-02T15:04:05.000000")
}

// emit is the one way a webhook comes into being. It expects the lock to be held.
func (s *Sim) emit(account, kind string, body map[string]any, signed bool) {
	if s.cfg.OnNotice == nil {
		return
	}
	m := notify.Message{Gateway: "toss", Account: account, Kind: kind, Body: encode(body)}
	stable, id := s.settings.StableTransmissionID, "whtrans_"+rand.Text()
	m.Header = func(at time.Time, try int) http.Header {
		h := http.Header{}
		sent := at.In(seoul).Format("2006-01-02T15:04:05.000000-07:00")
		h.Set("Content-Type", "application/json")
		h.Set("Tosspayments-Webhook-Transmission-Time", sent)
		h.Set("Tosspayments-Webhook-Transmission-Retried-Count", strconv.Itoa(try))
		h.Set("Tosspayments-Webhook-Transmission-Id", id)
		if try > 0 && !stable {
			h.Set("Tosspayments-Webhook-Transmission-Id", "whtrans_"+rand.Text())
		}
		if signed && !s.cfg.SecurityKey.IsZero() {
			h.Set("Tosspayments-Webhook-Signature", s.sign(m.Body, sent))
		}
		return h
	}
	s.outbox = append(s.outbox, m)
}

func (s *Sim) sign(body []byte, sent string) string {
	mac := hmac.New(sha256.New, []byte(s.cfg.SecurityKey.Reveal()))
	mac.Write(body)
	mac.Write([]byte(":" + sent))
	old := rand.Text() // the value of a security key that is on its way out
	return "v1:" + base64.StdEncoding.EncodeToString([]byte(old)) + ",v1:" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// drain takes the webhooks nobody has been told of. It expects the lock to be held.
func (s *Sim) drain() []notify.Message {
	out := s.outbox
	s.outbox = nil
	return out
}

func (s *Sim) publish(messages []notify.Message) {
	for _, m := range messages {
		s.cfg.OnNotice(m)
	}
}
