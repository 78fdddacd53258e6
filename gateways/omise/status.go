package omise

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// charge is what is read of Omise's charge, in the rendering of 2019-05-29. omise-go's own type lacks half of it. Fields
// that an account's older version renders otherwise are raw, so that they cannot spoil the rest.
type charge struct {
	Object            string          `json:"object"`
	ID                string          `json:"id"`
	Livemode          *bool           `json:"livemode"`
	Status            string          `json:"status"`
	Amount            int64           `json:"amount"`
	Currency          string          `json:"currency"`
	AuthorizedAmount  *int64          `json:"authorized_amount"`
	CapturedAmount    *int64          `json:"captured_amount"`
	RefundedAmount    *int64          `json:"refunded_amount"`
	RefundedBefore    json.RawMessage `json:"refunded"` // an amount, in older versions
	Capture           *bool           `json:"capture"`
	Authorized        bool            `json:"authorized"`
	Paid              bool            `json:"paid"`
	CapturedBefore    json.RawMessage `json:"captured"` // paid, in older versions
	Reversed          bool            `json:"reversed"`
	Expired           bool            `json:"expired"`
	FailureCode       string          `json:"failure_code"`
	AuthorizeURI      string          `json:"authorize_uri"`
	CreatedAt         string          `json:"created_at"`
	ExpiresAt         string          `json:"expires_at"`
	Source            json.RawMessage `json:"source"`
	Metadata          json.RawMessage `json:"metadata"`
	Refunds           json.RawMessage `json:"refunds"`
	Dispute           json.RawMessage `json:"dispute"` // null, or what the buyer's bank argues about
	merchantReference string          // from Metadata
}

var (
	chargeShape   = regexp.MustCompile(`^chrg_[A-Za-z0-9_]{1,250}$`)
	currencyShape = regexp.MustCompile(`^[A-Za-z]{3}$`)
	codeShape     = regexp.MustCompile(`^[a-z0-9_]{1,100}$`)
)

// readCharge decodes an answer. It refuses what is no charge at all: JSON of another shape decodes without an error.
func readCharge(body []byte) (*charge, bool) {
	c := &charge{}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, false
	}
	c.merchantReference = referenceIn(c.Metadata)
	return c, c.sound()
}

func (c *charge) sound() bool {
	return c.Object == "charge" && chargeShape.MatchString(c.ID) && c.Amount > 0 && currencyShape.MatchString(c.Currency) &&
		atLeastZero(c.AuthorizedAmount) && atLeastZero(c.CapturedAmount) && atLeastZero(c.RefundedAmount)
}

func atLeastZero(n *int64) bool { return n == nil || *n >= 0 }

// referenceIn reads our reference from metadata that may hold anything else, or be none.
func referenceIn(metadata json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) != nil {
		return ""
	}
	return text(fields[referenceField])
}

// text is a JSON string, or "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// taken is the money that the charge says was collected. Only a charge with a capture of its own can be collected in
// part; for the others "paid" means all of it, whether or not this rendering has a captured amount.
func (c *charge) taken() int64 {
	deferred := c.Capture != nil && !*c.Capture
	switch {
	case c.CapturedAmount != nil && *c.CapturedAmount > 0:
		return *c.CapturedAmount
	case !c.Paid && string(c.CapturedBefore) != "true":
		return 0
	case deferred && c.CapturedAmount != nil:
		return 0
	}
	return c.Amount
}

func (c *charge) refunded() int64 {
	if c.RefundedAmount != nil {
		return *c.RefundedAmount
	}
	var n int64
	if json.Unmarshal(c.RefundedBefore, &n) != nil || n < 0 {
		return 0
	}
	return n
}

// held is what the bank holds and nobody has collected.
func (c *charge) held() int64 {
	if c.Status != statusPending || !c.Authorized || c.Reversed || c.Expired {
		return 0
	}
	if c.AuthorizedAmount != nil && *c.AuthorizedAmount > 0 {
		return *c.AuthorizedAmount
	}
	return c.Amount
}

// The statuses.
const (
	statusPending    = "pending"
	statusSuccessful = "successful"
	statusFailed     = "failed"
	statusExpired    = "expired"
	statusReversed   = "reversed"
)

// verdict is what a charge means to us. Review: a person has to look, by the provider's own rules.
type verdict struct {
	outcome gateways.Outcome
	final   bool
	review  bool
}

// verdicts has a row for every status of the pinned version. pending is also the status of an authorization that nobody
// has captured: the bank holds the money and nothing is collected. failed needs its failure code (see judge).
var verdicts = map[string]verdict{
	statusPending:    {outcome: gateways.Pending},
	statusSuccessful: {outcome: gateways.Succeeded},
	statusFailed:     {outcome: gateways.Declined, final: true},
	statusExpired:    {outcome: gateways.Declined, final: true},
	statusReversed:   {outcome: gateways.Declined, final: true},
}

// failure says what a failure code of a failed charge proves.
type failure int

const (
	declines      failure = iota + 1 // the buyer, the card or the bank said no
	declinesRead                     // the same, once a read of its own says so too
	declinesLater                    // the same, once a read says so some time after: the bank may still have been at work
	needsReview                      // not ours to close
)

// failures is complete for what is known of Omise's failure codes. What it does not list is a person's: a wrong
// "declined" lets somebody charge again.
var failures = map[string]failure{
	"insufficient_fund":         declines,
	"insufficient_balance":      declines,
	"stolen_or_lost_card":       declines,
	"payment_rejected":          declines,
	"invalid_security_code":     declines,
	"failed_fraud_check":        declines,
	"invalid_account_number":    declines,
	"invalid_account":           declines,
	"expired_card":              declines,
	"payment_cancelled":         declines,
	"failed_processing":         declinesRead,
	"timeout":                   declinesLater,
	"confirmed_amount_mismatch": needsReview,
}

// timeoutSettles is how old a charge that failed by a time-out must be before a read that still says so is believed.
const timeoutSettles = 5 * time.Minute

// judge reads a charge; v says whether a write answered it or a read did. What contradicts itself (paid and failed,
// successful and unpaid) is unknown, as is a status that came after the pinned version: neither may close or pay an order.
func (g *Gateway) judge(v verb, c *charge) verdict {
	out, ok := verdicts[c.Status]
	unknown := verdict{outcome: gateways.Unknown}
	switch {
	case !ok, (out.outcome == gateways.Succeeded) != (c.taken() > 0), out.outcome == gateways.Succeeded && !c.Paid:
		return unknown
	case c.Status == statusPending && (c.Expired || c.Reversed):
		return unknown
	case c.Status != statusFailed:
		return out
	}
	switch failures[c.FailureCode] {
	case declines:
		return out
	case declinesRead:
		if v == read {
			return out
		}
	case declinesLater:
		created, err := time.Parse(time.RFC3339, c.CreatedAt)
		if v == read && err == nil && g.now().Sub(created) >= timeoutSettles {
			return out
		}
	default:
		return verdict{outcome: gateways.Unknown, review: true}
	}
	return unknown
}

// observe turns a sound charge into an observation, or into the fault of one that only a person may judge. It takes every
// identity from the answer, never from the question, so that the caller can see when the answer is about something else.
func (g *Gateway) observe(v verb, c *charge, a answer) (gateways.Observation, error) {
	j := g.judge(v, c)
	if j.review {
		f := g.answered(fault.PaymentNeedsReview, v, a)
		f.Provider.Code, f.Provider.Detail = word(c.Status), word(c.FailureCode)
		return gateways.Observation{}, f
	}
	o := gateways.Observation{
		Account:           g.account,
		ProviderPaymentID: c.ID,
		MerchantReference: c.merchantReference,
		Outcome:           j.outcome,
		Final:             j.final,
		Status:            word(c.Status),
		Currency:          money.Currency(strings.ToUpper(c.Currency)),
		AmountMinor:       c.Amount,
		AuthorizedMinor:   c.held(),
		CapturedMinor:     c.taken(),
		RefundedMinor:     c.refunded(),
		ProviderTime:      providerTime(a.header),
	}
	o.Account.Environment = c.environment()
	switch o.Outcome {
	case gateways.Succeeded:
		o.Dispute, o.DisputedMinor = c.disputed()
	case gateways.Declined:
		o.DeclineCode = word(c.FailureCode)
		if o.DeclineCode == "" {
			o.DeclineCode = o.Status
		}
	case gateways.Pending:
		if o.AuthorizedMinor == 0 {
			o.NextAction = c.nextAction()
		}
	}
	return o, nil
}

// environment believes the answer's own word, and the id where it is missing.
func (c *charge) environment() gateways.Environment {
	switch {
	case c.Livemode == nil:
		return modeOf(c.ID)
	case *c.Livemode:
		return gateways.Live
	}
	return gateways.Test
}

// source is what the buyer needs to see of one.
type source struct {
	Type          string `json:"type"`
	ScannableCode *struct {
		Image *struct {
			DownloadURI string `json:"download_uri"`
		} `json:"image"`
	} `json:"scannable_code"`
	References *struct {
		PaymentCode string `json:"payment_code"`
		Reference1  string `json:"reference_number_1"`
		Barcode     string `json:"barcode"`
	} `json:"references"`
}

// nextAction is what the buyer can do: scan a code, pay at a counter, or go on at another page. A charge that waits with
// nothing of these (a push to the buyer's telephone) has none.
func (c *charge) nextAction() *gateways.NextAction {
	page, due := link(c.AuthorizeURI), dueAt(c.ExpiresAt)
	var s source
	if json.Unmarshal(c.Source, &s) == nil {
		if code := s.ScannableCode; code != nil && code.Image != nil && link(code.Image.DownloadURI) != "" {
			return &gateways.NextAction{Type: "qr", URL: page, QR: link(code.Image.DownloadURI), Due: due}
		}
		voucher := &gateways.NextAction{Type: "voucher", URL: page, Due: due}
		if r := s.References; r != nil {
			voucher.Code = counterCode(r.PaymentCode, r.Reference1)
			if voucher.URL == "" {
				voucher.URL = link(r.Barcode)
			}
		}
		if (s.Type == "econtext" || s.References != nil) && voucher.URL+voucher.Code != "" {
			return voucher
		}
	}
	if page == "" {
		return nil
	}
	return &gateways.NextAction{Type: "redirect", URL: page, Due: due}
}

var counterShape = regexp.MustCompile(`^[A-Za-z0-9 -]{1,64}$`)

func counterCode(candidates ...string) string {
	for _, c := range candidates {
		if counterShape.MatchString(c) {
			return c
		}
	}
	return ""
}

// link passes web addresses only: the buyer's browser is sent there.
func link(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return raw
}

func dueAt(raw string) string {
	at, err := time.Parse(time.RFC3339, raw)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// providerTime is Omise's clock at the answer.
func providerTime(header http.Header) time.Time {
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

// disputed reads the charge's dispute. A status that came after the pinned version counts as open: nothing is provided or refunded on
// top of what is not understood.
func (c *charge) disputed() (gateways.Dispute, int64) {
	switch string(c.Dispute) {
	case "":
		return "", 0
	case "null":
		return gateways.DisputeNone, 0
	}
	var d struct {
		Status string `json:"status"`
		Amount int64  `json:"amount"`
	}
	if json.Unmarshal(c.Dispute, &d) != nil {
		return "", 0 // an id and no object says nothing of how it stands
	}
	d.Amount = min(max(d.Amount, 0), c.Amount)
	switch d.Status {
	case "won":
		return gateways.DisputeWon, d.Amount
	case "lost", "accepted":
		return gateways.DisputeLost, d.Amount
	}
	return gateways.DisputeOpen, d.Amount
}
