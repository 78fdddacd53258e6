package webhooks

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/starter/api"
	"orderflow/store"
)

// MaxBody is how many bytes a webhook may have.
const MaxBody = 1 << 20

// storeWithin bounds the one statement between a webhook and its answer: providers wait some ten seconds.
const storeWithin = 5 * time.Second

type handlerFunc = http.HandlerFunc

// take answers one webhook: whose it is, whether it can be believed to be the provider's, and then only whether it is stored.
func (h *Webhooks) take(w http.ResponseWriter, r *http.Request) {
	t, ok := h.targets[place{r.PathValue("gateway"), r.PathValue("account")}]
	if !ok {
		h.refuse(w, r, target{}, "unknown_account", api.ProblemNotFound, "")
		return
	}
	body, result, problem := h.read(w, r)
	if problem != "" {
		h.refuse(w, r, t, result, problem, bodyDetail[problem])
		return
	}
	now := h.d.Now()
	n, err := t.notifier.ReadNotice(gateways.Incoming{Header: r.Header, Body: body, At: now})
	if err != nil {
		result, problem, detail := refusal(fault.As(err))
		h.refuse(w, r, t, result, problem, detail)
		return
	}
	if n.EventID == "" {
		h.refuse(w, r, t, "malformed", api.ProblemWebhookMalformed, "")
		return
	}
	if !n.ProviderTime.IsZero() {
		h.d.Metrics.skew(t.account, now.Sub(n.ProviderTime))
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWithin)
	defer cancel()
	receipt := receiptOf(t.account, n)
	if n.Proof == gateways.ProofSecret && !receipt.WrongEnvironment {
		proof, err := h.compare(ctx, t.account, n)
		switch {
		case fault.IsCode(err, fault.WebhookUnproven):
			h.refuse(w, r, t, "wrong_secret", api.ProblemWebhookUnproven, "")
			return
		case err != nil:
			h.refuse(w, r, t, "unavailable", api.ProblemUnavailable, "")
			return
		}
		receipt.Proof = string(proof)
	}
	h.keep(ctx, w, r, t, receipt)
}

// keep stores, and answers 200 only when the row is there (S14).
func (h *Webhooks) keep(ctx context.Context, w http.ResponseWriter, r *http.Request, t target, receipt store.Receipt) {
	kept, err := h.d.Store.ReceiptKeep(ctx, receipt)
	if err != nil {
		h.refuse(w, r, t, "unavailable", api.ProblemUnavailable, "")
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

var bodyDetail = map[string]string{
	api.ProblemTooLarge: "A webhook has at most 1 MiB.",
	api.ProblemEncoded:  "",
	api.ProblemTooSlow:  "",
}

// read takes the raw bytes, bounded in size and time. Nothing is decoded before they are proven.
func (h *Webhooks) read(w http.ResponseWriter, r *http.Request) (body []byte, result, problem string) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, "encoded", api.ProblemEncoded
	}
	if r.ContentLength > MaxBody {
		return nil, "too_large", api.ProblemTooLarge
	}
	// Best effort: where the server cannot set it, its own limit on reading stands.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.d.ReadTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &tooLarge):
		return nil, "too_large", api.ProblemTooLarge
	case errors.As(err, &slow) && slow.Timeout():
		return nil, "too_slow", api.ProblemTooSlow
	case err != nil:
		return nil, "cut_off", api.ProblemWebhookMalformed
	}
	return body, "", ""
}

// refusal says what a gateway's word means to the sender. The reason is one of the gateway's stable words, never input.
func refusal(f *fault.Error) (result, problem, detail string) {
	switch f.Code {
	case fault.WebhookUnproven:
		result, problem = "unproven", api.ProblemWebhookUnproven
	case fault.WebhookMalformed:
		result, problem = "malformed", api.ProblemWebhookMalformed
	case fault.WebhookOff:
		return "off", api.ProblemNotFound, ""
	default:
		return "failed", api.ProblemInternal, ""
	}
	if f.Why != "" && safe(f.Why) == f.Why {
		detail = "The webhook is refused: " + f.Why + "."
	}
	return result, problem, detail
}

// refuse answers and leaves a count and a line without content.
func (h *Webhooks) refuse(w http.ResponseWriter, r *http.Request, t target, result, problem, detail string) {
	gateway := t.account.Gateway
	if gateway == "" {
		gateway = "none" // the sender chose the words in the address
	}
	h.d.Metrics.received(gateway, result)
	h.d.Log.InfoContext(r.Context(), "webhook refused", "gateway", gateway, "account", t.account.Name, "result", result, "detail", detail)
	after := time.Duration(0)
	if problem == api.ProblemUnavailable {
		after = time.Second
	}
	api.WriteProblem(w, problem, detail, after)
}

// compare proves a notice by the per-payment secret that its attempt holds. Where we hold none nothing is proven, whatever the notice
// carries: two missing secrets are not equal.
func (h *Webhooks) compare(ctx context.Context, account order.Account, n gateways.Notice) (gateways.Proof, error) {
	a, err := h.d.Store.AttemptByProvider(ctx, account, n.ProviderPaymentID, n.MerchantReference)
	switch {
	case fault.IsCode(err, fault.NotFound):
		return gateways.ProofNone, nil
	case err != nil:
		return "", err
	case len(a.SealedPrivate) == 0:
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
		return "", fault.New(fault.WebhookUnproven, "compare secret")
	}
	return gateways.ProofSecret, nil
}
