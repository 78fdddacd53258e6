package webhooks

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// MaxBody is how many bytes a webhook may have.
const MaxBody = 1 << 20

// storeWithin bounds the one statement between a webhook and its answer: providers wait some ten seconds.
const storeWithin = 5 * time.Second

type handlerFunc = http.HandlerFunc

// refused is why a webhook is not taken.
type refused struct {
	result  string // for the count
	problem string // for the answer
	detail  string // for the answer; "" = the problem's own
	reason  string // for the log
}

var (
	refusedUnknown = refused{result: "unknown_account", problem: api.ProblemNotFound}
	refusedStore   = refused{result: "unavailable", problem: api.ProblemUnavailable}
	refusedSecret  = refused{result: "wrong_secret", problem: api.ProblemWebhookUnproven, reason: "the payment's secret is another one"}
	refusedHint    = refused{result: "limited", problem: api.ProblemWebhookLimited, reason: "too many notices that nothing proves, about payments nobody knows"}
	refusedNoID    = refused{result: "malformed", problem: api.ProblemWebhookMalformed, reason: "the event has no id"}
)

// take answers one webhook: whose it is, whether it can be believed to be the provider's, and then only whether it is stored.
func (h *Webhooks) take(w http.ResponseWriter, r *http.Request) {
	t, ok := h.targets[place{r.PathValue("gateway"), r.PathValue("account")}]
	if !ok {
		h.refuse(w, r, target{}, refusedUnknown)
		return
	}
	body, bad := h.read(w, r)
	if bad != nil {
		h.refuse(w, r, t, *bad)
		return
	}
	now := h.d.Now()
	n, err := t.notifier.ReadNotice(gateways.Incoming{Header: r.Header, Body: body, At: now})
	if err != nil {
		h.refuse(w, r, t, refusal(fault.As(err)))
		return
	}
	if n.EventID == "" {
		h.refuse(w, r, t, refusedNoID)
		return
	}
	if !n.ProviderTime.IsZero() {
		h.d.Metrics.skew(t.account, now.Sub(n.ProviderTime))
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWithin)
	defer cancel()
	receipt := receiptOf(t.account, n)
	if receipt.Proof == string(gateways.ProofNone) {
		proof, bad := h.weigh(ctx, t.account, n, receipt)
		if bad != nil {
			h.refuse(w, r, t, *bad)
			return
		}
		receipt.Proof = string(proof)
	}
	h.keep(ctx, w, r, t, receipt)
}

// keep stores, and answers 200 only when the row is there (S14).
func (h *Webhooks) keep(ctx context.Context, w http.ResponseWriter, r *http.Request, t target, receipt store.Receipt) {
	kept, err := h.keeper.keep(ctx, receipt)
	if err != nil {
		h.refuse(w, r, t, refusedStore)
		return
	}
	result := string(kept)
	switch {
	case receipt.WrongEnvironment:
		result = store.ReceiptWrongEnvironment
		h.d.Log.WarnContext(ctx, "webhook of another environment than its account's: it has no effect; check where the provider sends which events",
			"gateway", t.account.Gateway, "account", t.account.Name, "environment", t.account.Environment)
	case kept != store.KeptCopy:
		poke(h.received)
	}
	h.d.Metrics.received(t.account.Gateway, result)
	w.WriteHeader(http.StatusOK) // one provider takes nothing else for a yes
}

// read takes the raw bytes, bounded in size and time. Nothing is decoded before they are proven.
func (h *Webhooks) read(w http.ResponseWriter, r *http.Request) ([]byte, *refused) {
	large := &refused{result: "too_large", problem: api.ProblemTooLarge, detail: "A webhook has at most 1 MiB."}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, &refused{result: "encoded", problem: api.ProblemEncoded}
	}
	if r.ContentLength > MaxBody {
		return nil, large
	}
	// Best effort: where the server cannot set it, its own limit on reading stands.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(h.d.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &tooLarge):
		return nil, large
	case errors.As(err, &slow) && slow.Timeout():
		return nil, &refused{result: "too_slow", problem: api.ProblemTooSlow}
	case err != nil:
		return nil, &refused{result: "cut_off", problem: api.ProblemWebhookMalformed, detail: "The body could not be read to its end."}
	}
	_ = control.SetReadDeadline(time.Time{}) // or it would end the request while the row is being written
	return body, nil
}

// refusal says what a gateway's word means to the sender. The sender is told the gateway's stable word, where there is one; the log
// is told the sentence behind it, unless that looks as if it quoted something.
func refusal(f *fault.Error) refused {
	var out refused
	switch f.Code {
	case fault.WebhookUnproven:
		out = refused{result: "unproven", problem: api.ProblemWebhookUnproven}
	case fault.WebhookMalformed:
		out = refused{result: "malformed", problem: api.ProblemWebhookMalformed}
	case fault.WebhookOff:
		return refused{result: "off", problem: api.ProblemNotFound, reason: "no webhook secret is configured for the account"}
	default:
		return refused{result: "failed", problem: api.ProblemInternal, reason: string(f.Code)}
	}
	if f.Why != "" && safe(f.Why) == f.Why {
		out.detail = "The webhook is refused: " + f.Why + "."
	}
	if f.Code == fault.WebhookUnproven && f.Cause != nil && sentence.MatchString(f.Cause.Error()) {
		out.reason = f.Cause.Error()
	}
	return out
}

// sentence: plain words, nothing in quotes, no long runs that could be somebody's data.
var sentence = regexp.MustCompile(`^(?:[A-Za-z0-9_'-]{1,24}[ ,.:;]{0,2}){1,40}$`)

// refuse answers and leaves a count and a line without content.
func (h *Webhooks) refuse(w http.ResponseWriter, r *http.Request, t target, why refused) {
	gateway := t.account.Gateway
	if gateway == "" {
		gateway = "none" // the sender chose the words in the address
	}
	h.d.Metrics.received(gateway, why.result)
	h.d.Log.InfoContext(r.Context(), "webhook refused", "gateway", gateway, "account", t.account.Name, "result", why.result, "reason", why.reason)
	after := time.Duration(0)
	if why.problem == api.ProblemUnavailable || why.problem == api.ProblemWebhookLimited {
		after = time.Second
	}
	api.WriteProblem(w, why.problem, why.detail, after)
}

// hints bound how many notices are kept that nothing proves and that are about no payment of ours: anybody can send them.
const (
	hintBurst    = 100
	hintsPerLook = 2 // times the lookup rate
)

// weigh looks at what is not signed: a payment's own secret proves it, and what nothing proves is kept as a hint, within a rate where it
// is about nothing we know.
func (h *Webhooks) weigh(ctx context.Context, account order.Account, n gateways.Notice, r store.Receipt) (gateways.Proof, *refused) {
	if !r.WrongEnvironment {
		a, err := h.d.Store.AttemptByProvider(ctx, account, n.ProviderPaymentID, n.MerchantReference)
		switch {
		case err == nil:
			return h.compare(ctx, a, n)
		case !fault.IsCode(err, fault.NotFound):
			return "", &refusedStore
		}
	}
	ok, err := h.d.Store.TakeLookup(ctx, "hint/"+account.Gateway+"/"+account.Name+"/"+account.Environment, hintBurst, hintsPerLook*h.d.LookupsPerSecond)
	switch {
	case err != nil:
		return "", &refusedStore
	case !ok:
		return "", &refusedHint
	}
	return gateways.ProofNone, nil
}

// compare proves a notice by the per-payment secret that its attempt holds. Where we hold none nothing is proven, whatever the notice
// carries: two missing secrets are not equal.
func (h *Webhooks) compare(ctx context.Context, a sqlcgen.PaymentAttempt, n gateways.Notice) (gateways.Proof, *refused) {
	if n.Proof != gateways.ProofSecret || len(a.SealedPrivate) == 0 {
		return gateways.ProofNone, nil
	}
	known, err := h.d.Box.Open(a.SealedPrivate, order.AttemptPlace(order.AttemptID(a.AttemptID)))
	if err != nil {
		h.d.Log.ErrorContext(ctx, "a stored secret cannot be opened, so a webhook is taken as a hint only", "attempt", a.AttemptID, "error", err)
		return gateways.ProofNone, nil
	}
	if len(known) == 0 {
		return gateways.ProofNone, nil
	}
	ours, theirs := sha256.Sum256(known), sha256.Sum256([]byte(n.Secret.Reveal())) // digests of one length, so that time tells nothing
	if subtle.ConstantTimeCompare(ours[:], theirs[:]) != 1 {
		return "", &refusedSecret
	}
	return gateways.ProofSecret, nil
}
