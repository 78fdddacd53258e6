package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// Goal: charge.complete and charge.expire end in a lookup, whatever status the charge in them has, and only the lookup decides.
// Method: one order per event, claimed status and true status; the event is signed with the account's secret, and nobody else
// looks or tells. Not covered: forged signatures (starter/webhooks).

// claims are a charge's statuses as an event would carry them.
var claims = map[string]string{
	"pending":    `"status":"pending","authorized":true,"paid":false,"captured_amount":0`,
	"successful": `"status":"successful","authorized":true,"paid":true,"captured_amount":600`,
	"failed":     `"status":"failed","authorized":false,"paid":false,"failure_code":"payment_rejected"`,
	"expired":    `"status":"expired","authorized":false,"paid":false,"expired":true`,
	"reversed":   `"status":"reversed","authorized":true,"paid":false,"reversed":true`,
}

// truths bring a charge into its true status, without anybody telling us.
var truths = map[string]func(w *world, p *pending){
	"pending":    func(*world, *pending) {},
	"successful": func(w *world, p *pending) { require.True(w.t, p.act(w, p.payment, true), p.id) },
	"failed":     func(w *world, p *pending) { require.True(w.t, p.act(w, p.payment, false), p.id) },
	"expired":    func(w *world, p *pending) { w.omiseCall("/charges/" + p.payment + "/expire") },
}

// ended is where a true status has to lead.
var ended = map[string]order.Status{
	"pending": order.AttemptPending, "successful": order.AttemptSucceeded, "failed": order.AttemptClosed, "expired": order.AttemptClosed,
}

func TestOmiseEventsEndInALookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nobodyLooksYet)
	type told struct {
		*pending
		key, claim, truth string
	}
	var list []told
	var asked []*way
	for _, key := range []string{"charge.complete", "charge.expire"} {
		for claim := range claims {
			for truth := range truths {
				x := *waysThat(named("omise_promptpay"))[0]
				x.name = fmt.Sprintf("%s_says_%s_is_%s", strings.TrimPrefix(key, "charge."), claim, truth)
				asked, list = append(asked, &x), append(list, told{nil, key, claim, truth})
			}
		}
	}
	for i, p := range w.ask("event", asked) {
		list[i].pending = p
		truths[list[i].truth](w, p)
	}
	require.Zero(t, w.number("SELECT count(*) FROM observations WHERE source = 'lookup'"), "nobody has looked")
	for i, p := range list {
		a := w.omiseEvent(fmt.Sprintf("evnt_test_e2e%d", i), p.key, p.payment, claims[p.claim])
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", p.id, a.Raw)
	}
	for _, p := range list {
		w.await(p.id+" looked up", func() bool {
			return w.number("SELECT count(*) FROM observations WHERE order_id = $1 AND source = 'lookup'", p.id) > 0
		})
		w.await(p.id+" at its end", func() bool { return w.cameTo(p.id).attempt == ended[p.truth] })
		if p.truth == "successful" {
			w.awaitStatus(p.id, "completed")
		}
		if p.truth != "pending" {
			w.settled(p.id)
		}
	}
	for _, p := range list { // at rest
		assert.Equal(t, ended[p.truth], w.cameTo(p.id).attempt, p.id)
		assert.Equal(t, p.truth == "successful", w.captured(p.id) == 1, p.id)
	}
	w.booksAgree()
}

// omiseEvent posts one event as Omise signs it.
func (w *world) omiseEvent(id, key, charge, rest string) answer {
	w.t.Helper()
	body := fmt.Sprintf(`{"object":"event","id":%q,"livemode":false,"key":%q,"created_at":%q,"data":{"object":"charge","id":%q,"livemode":false,"amount":600,"currency":"THB",%s}}`,
		id, key, time.Now().UTC().Format(time.RFC3339), charge, rest)
	secret, err := base64.StdEncoding.DecodeString(omiseWebhook)
	require.NoError(w.t, err)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(at + "." + body))
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.base+"/webhooks/omise/default", strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Omise-Signature", hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set("Omise-Signature-Timestamp", at)
	return w.do(req)
}
