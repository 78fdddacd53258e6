package stripe

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"orderflow/gateways"
	"orderflow/internal/money"
)

// verdict is what one intent status means to us.
type verdict struct {
	outcome gateways.Outcome
	final   bool
}

// verdicts has a row for every status of the pinned API version. requires_payment_method is the one that needs a second
// look: it is both the state before any try and the state after a failed one (see judge).
//
// requires_capture is pending: the bank holds the money (AuthorizedMinor) and nothing is collected yet, so it is neither
// success nor untouched. A capture takes it, and a cancel of the order releases it.
var verdicts = map[stripego.PaymentIntentStatus]verdict{
	stripego.PaymentIntentStatusRequiresPaymentMethod: {outcome: gateways.Untouched},
	stripego.PaymentIntentStatusRequiresConfirmation:  {outcome: gateways.Untouched},
	stripego.PaymentIntentStatusRequiresAction:        {outcome: gateways.Pending},
	stripego.PaymentIntentStatusProcessing:            {outcome: gateways.Pending},
	stripego.PaymentIntentStatusRequiresCapture:       {outcome: gateways.Pending},
	stripego.PaymentIntentStatusSucceeded:             {outcome: gateways.Succeeded},
	stripego.PaymentIntentStatusCanceled:              {outcome: gateways.Declined, final: true},
}

// judge reads an intent. What contradicts itself (paid with nothing received, canceled with something received) is
// unknown, as is a status Stripe added after the pinned version: neither may close or pay an order.
func judge(pi *stripego.PaymentIntent) verdict {
	v, ok := verdicts[pi.Status]
	switch {
	case !ok:
		return verdict{outcome: gateways.Unknown}
	case pi.Status == stripego.PaymentIntentStatusRequiresPaymentMethod && pi.LastPaymentError != nil:
		v.outcome = gateways.Declined
	}
	if (v.outcome == gateways.Succeeded) != (pi.AmountReceived > 0) {
		return verdict{outcome: gateways.Unknown}
	}
	return v
}

var (
	intentShape    = regexp.MustCompile(`^pi_[A-Za-z0-9_]{1,250}$`)
	currencyShape  = regexp.MustCompile(`^[a-z]{3}$`)
	codeShape      = regexp.MustCompile(`^[a-z0-9_]{1,100}$`)
	requestIDShape = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
)

// sound reports that an answer is a payment intent at all. JSON of another shape decodes without an error.
func sound(pi *stripego.PaymentIntent) bool {
	return pi != nil && pi.Object == "payment_intent" && intentShape.MatchString(pi.ID) && pi.Status != "" &&
		pi.Amount > 0 && pi.AmountReceived >= 0 && currencyShape.MatchString(string(pi.Currency))
}

// observe turns a sound intent into an observation. It takes every identity from the answer, never from the question, so
// that the caller can see when the answer is about something else.
func (g *Gateway) observe(pi *stripego.PaymentIntent, header http.Header) gateways.Observation {
	v := judge(pi)
	o := gateways.Observation{
		Account:           g.account,
		ProviderPaymentID: pi.ID,
		MerchantReference: pi.Metadata[referenceField],
		Outcome:           v.outcome,
		Final:             v.final,
		Status:            word(string(pi.Status)),
		Currency:          money.Currency(strings.ToUpper(string(pi.Currency))),
		AmountMinor:       pi.Amount,
		AuthorizedMinor:   max(pi.AmountCapturable, 0),
		CapturedMinor:     pi.AmountReceived,
		ProviderTime:      providerTime(header),
		RequestID:         requestID(header.Get("Request-Id")),
	}
	o.Account.Environment = gateways.Test
	if pi.Livemode {
		o.Account.Environment = gateways.Live
	}
	if pi.LatestCharge != nil {
		o.RefundedMinor = wentBack(pi.LatestCharge)
	}
	if o.Outcome == gateways.Declined {
		o.DeclineCode = declineCode(pi.LastPaymentError)
	}
	if o.Outcome == gateways.Pending {
		o.NextAction = nextAction(pi.NextAction)
	}
	return o
}

// wentBack is what was refunded of what was taken. Before 2025-03-31.basil Stripe also counts what it released of a hold: the rest of a
// part that was captured, and all of a hold that was canceled.
func wentBack(c *stripego.Charge) int64 {
	return max(c.AmountRefunded-max(c.Amount-c.AmountCaptured, 0), 0)
}

// declineCode prefers the issuer's word over Stripe's.
func declineCode(e *stripego.Error) string {
	if e == nil {
		return ""
	}
	if c := word(string(e.DeclineCode)); c != "" {
		return c
	}
	return word(string(e.Code))
}

// providerTime is Stripe's clock at the answer. A replayed answer is as old as its first send, which the header does not
// tell, so it has no time.
func providerTime(header http.Header) time.Time {
	if header.Get("Idempotent-Replayed") == "true" {
		return time.Time{}
	}
	at, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// word keeps a provider's code only when it looks like one: codes go into errors and logs, sentences never do.
func word(s string) string {
	if !codeShape.MatchString(s) {
		return ""
	}
	return s
}

func requestID(s string) string {
	if !requestIDShape.MatchString(s) {
		return ""
	}
	return s
}
