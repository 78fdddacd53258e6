package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/internal/secret"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/twoctwopsim"
)

// elsewhere is a payment that the buyer finishes at the provider: until then it is pending.
type elsewhere struct {
	psp    *psp
	card   string
	kind   string                                  // of the method; "" = card
	finish func(w *world, payment string, ok bool) // as the buyer, by what the provider knows the payment by
}

var elsewheres = map[string]elsewhere{
	"stripe": {&stripe, "pm_card_threeDSecure2Required", "", func(w *world, id string, ok bool) {
		require.True(w.t, w.sandbox.Stripe().Challenge(id, ok), id)
	}},
	"omise": {&omise, "tokn_test_3ds", "", func(w *world, id string, ok bool) {
		require.True(w.t, w.sandbox.Omise().Decide(id, ok), id)
	}},
	"twoctwop": {&twoctwop, "3ds", "", func(w *world, id string, ok bool) {
		require.True(w.t, w.sandbox.TwoCTwoP().Act(id, ok), id)
	}},
	"toss": {&toss, "pay_va", "virtual_account", func(w *world, id string, _ bool) {
		require.NoError(w.t, w.sandbox.Toss().Deposit(id))
	}},
}

// atProvider places an order and brings its payment to where the buyer has to act at the provider. It returns what the provider
// knows the payment by.
func (w *world) atProvider(id string, e elsewhere, lines ...line) string {
	w.t.Helper()
	if len(lines) == 0 {
		lines = []line{grant("g", 1, trialTotal)}
	}
	w.placeIn(id, e.psp.currency, lines...)
	oneOf(w.t, w.call("POST", path(id)+"/payments", "pay-"+id, e.payment(id)), http.StatusCreated, http.StatusAccepted)
	w.await(id+" waits for its buyer", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = $1 AND status = 'pending' AND reflected_seq = observed_seq", id) == 1
	})
	return w.paymentID(id)
}

func (e elsewhere) payment(id string) map[string]any {
	p := e.psp.payment(id, e.card)
	if e.kind != "" {
		p["method"].(map[string]any)["type"] = e.kind
	}
	return p
}

// paymentID is what the provider knows an order's newest attempt by.
func (w *world) paymentID(id string) string {
	w.t.Helper()
	return w.text("SELECT coalesce(nullif(provider_payment_id, ''), merchant_reference) FROM payment_attempts WHERE order_id = $1 ORDER BY created_at DESC LIMIT 1", id)
}

// rule arms a rule about webhooks and returns its id.
func (w *world) rule(r notify.Rule) string {
	w.t.Helper()
	id, err := w.sandbox.Webhooks().AddRule(r)
	require.NoError(w.t, err)
	return id
}

// delivered waits until no webhook is under way, and none that came is still to be processed or told.
func (w *world) delivered() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	require.NoError(w.t, w.sandbox.Webhooks().AwaitIdle(ctx))
	w.processed()
}

// processed waits until nothing that came as a webhook is still to be worked on.
func (w *world) processed() {
	w.t.Helper()
	w.await("every webhook processed, every look made and every record numbered", func() bool {
		return w.number("SELECT count(*) FROM webhook_receipts WHERE processed_at IS NULL") == 0 && w.number("SELECT count(*) FROM looks_wanted") == 0 &&
			w.number("SELECT count(*) FROM payment_attempts WHERE status IN ('succeeded', 'closed') AND next_check_at IS NOT NULL") == 0 &&
			w.number("SELECT count(*) FROM transaction_records WHERE number IS NULL") == 0
	})
}

// hook posts one webhook to the starter, as anybody could.
func (w *world) hook(to string, header http.Header, body []byte) answer {
	w.t.Helper()
	a, err := w.tryHook(to, header, body)
	require.NoError(w.t, err)
	return a
}

func (w *world) tryHook(to string, header http.Header, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", w.base+"/webhooks/"+to, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil
	req.Header = header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Header: res.Header}
	a.Raw, err = io.ReadAll(res.Body)
	_ = json.Unmarshal(a.Raw, &a.Body)
	return a, err
}

// byStripe and byOmise sign a body as the providers do.
func byStripe(at time.Time, body []byte) http.Header {
	return stripesim.Sign(secret.New(stripeWebhook), at, body)
}

func byOmise(at time.Time, body []byte) http.Header {
	key, _ := base64.StdEncoding.DecodeString(omiseWebhook)
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return http.Header{
		"Content-Type": {"application/json"}, "Omise-Signature-Timestamp": {stamp}, "Omise-Signature": {hex.EncodeToString(mac.Sum(nil))},
	}
}

// unsigned is what a provider that signs no payment events sends along.
func unsigned() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// stripeEvents are the genuine events about a payment, oldest first, as Stripe itself lists them.
func (w *world) stripeEvents(intent, kind string) [][]byte {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.sandbox.StripeURL()+"/v1/events?limit=100&type="+url.QueryEscape(kind), nil)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer sk_test_e2e")
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	require.NoError(w.t, json.NewDecoder(res.Body).Decode(&list))
	var out [][]byte
	for _, e := range list.Data {
		if bytes.Contains(e, []byte(`"`+intent+`"`)) {
			out = append([][]byte{e}, out...)
		}
	}
	require.NotEmpty(w.t, out, "%s of %s", kind, intent)
	return out
}

// changed is a JSON object with other values in some places.
func changed(t interface{ Fatal(...any) }, body []byte, change func(e map[string]any)) []byte {
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatal(err)
	}
	change(e)
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var returnAddress = regexp.MustCompile(`https://pay\.example(/return/[A-Za-z0-9_-]+)`)

// returnPath is where the provider was told to send an order's buyer back to, read from what went over the wire.
func (w *world) returnPath(id string) string {
	w.t.Helper()
	var said []string
	for _, ref := range w.references(id) {
		for _, e := range w.writes(id, "/confirm") {
			said = append(said, e.Body)
		}
		for _, e := range w.sandbox.Omise().Writes(omisesim.Filter{MerchantReference: ref}) {
			said = append(said, e.Body)
		}
		for _, e := range w.sandbox.TwoCTwoP().Writes(twoctwopsim.Filter{}) {
			if text := openToken(e.Body); strings.Contains(text, ref) {
				said = append(said, text)
			}
		}
	}
	for _, text := range said {
		if plain, err := url.QueryUnescape(text); err == nil {
			text += plain
		}
		if m := returnAddress.FindStringSubmatch(strings.ReplaceAll(text, `\/`, "/")); m != nil {
			return m[1]
		}
	}
	w.t.Fatalf("no provider was told a return address for %s", id)
	return ""
}

// openToken reads what is in a signed token, which is no secret; a body that holds none is returned as it is.
func openToken(body string) string {
	parts := strings.Split(body, ".")
	if len(parts) != 3 {
		return body
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return body
	}
	return string(b)
}

// comesBack is the buyer's browser on its way back from the provider; it does not follow where it is sent.
func (w *world) comesBack(method, path string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, nil)
	require.NoError(w.t, err)
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Header: res.Header}
	a.Raw, err = io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return a
}

// metric adds up the starter's counters of one name whose labels contain all of the texts.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	sum := 0.0
lines:
	for l := range strings.SplitSeq(fetch(w.t, "http://"+w.env["ORDERFLOW_OPS_LISTEN"]+"/metrics"), "\n") {
		rest, ok := strings.CutPrefix(l, name)
		if !ok || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
		require.NoError(w.t, err)
		sum += v
	}
	return sum
}

// paidOnceOver asserts that an order was reflected, announced and provided once, whoever told of it.
func (w *world) paidOnceOver(id string) {
	w.t.Helper()
	w.awaitStatus(id, "completed")
	w.settled(id)
	assert.Equal(w.t, 1, w.captured(id), "%s: charges", id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM payments WHERE order_id = $1", id), "%s: payments", id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM transitions WHERE order_id = $1 AND subject_kind = 'attempt' AND to_status = 'succeeded'", id), "%s: one went through", id)
	assert.Equal(w.t, 1, w.number("SELECT count(*) FROM outbox_events WHERE order_id = $1 AND type = 'order.paid'", id), "%s: events", id)
	assert.Equal(w.t, []string{"order.paid", "order.completed"}, w.told(id), "%s: told once", id)
}

// told are the types of an order's events in the receiver's books, in order of arrival.
func (w *world) told(id string) []string {
	w.t.Helper()
	var out []string
	for _, e := range w.sandbox.Receiver().Effects(receiver.Filter{OrderID: id}) {
		out = append(out, e.Type)
	}
	return out
}

// receipt reads one column of an event's only row.
func (w *world) receipt(column, event string) string {
	w.t.Helper()
	return w.text("SELECT "+column+"::text FROM webhook_receipts WHERE event_id = $1", event)
}

// eventID is the id in a provider's event.
func eventID(event []byte) string {
	var e struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(event, &e)
	return e.ID
}
