package omise

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// Metadata of a refund: our reference, by which it is known again, and its charge, which Omise's request names in the
// address alone. With both frozen, a stored refund cannot go out to another charge.
const (
	refundField = "refund_reference"
	chargeField = "refund_of"
)

var (
	refundReference = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	refundShape     = regexp.MustCompile(`^rfnd_[A-Za-z0-9_]{1,250}$`)
)

// refund is what is read of Omise's refund object.
type refund struct {
	Object      string          `json:"object"`
	ID          string          `json:"id"`
	Livemode    *bool           `json:"livemode"`
	Status      string          `json:"status"`
	Amount      int64           `json:"amount"`
	Currency    string          `json:"currency"`
	Charge      string          `json:"charge"`
	Transaction json.RawMessage `json:"transaction"`
	Metadata    json.RawMessage `json:"metadata"`
	CreatedAt   string          `json:"created_at"`
}

func (r *refund) sound() bool {
	return r != nil && r.Object == "refund" && refundShape.MatchString(r.ID) && chargeShape.MatchString(r.Charge) && r.Amount > 0 &&
		currencyShape.MatchString(r.Currency)
}

// outcome reads the status. Renderings without one are known; there a refund that stands in the account's ledger is done.
func (r *refund) outcome() gateways.Outcome {
	switch {
	case r.Status == "closed", r.Status == "" && text(r.Transaction) != "":
		return gateways.Succeeded
	case r.Status == "pending":
		return gateways.Pending
	}
	return gateways.Unknown
}

// PlanRefund freezes a refund. Omise guards nothing: two partial refunds both succeed, so this one is sent once, ever.
func (g *Gateway) PlanRefund(r gateways.GiveBack) (gateways.Planned, error) {
	if err := validRefund(r); err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "omise plan refund", err)
	}
	frozen, err := json.Marshal(&operations.CreateRefund{
		Amount: r.Amount.Minor, Metadata: map[string]any{refundField: r.Reference, chargeField: r.ProviderPaymentID},
	})
	if err != nil {
		return gateways.Planned{}, fault.Wrap(fault.InternalError, "omise plan refund", errFrozen)
	}
	return gateways.Planned{Kind: gateways.Refund, Request: frozen}, nil
}

func validRefund(r gateways.GiveBack) error {
	if err := validAmount(r.Amount); err != nil {
		return err
	}
	switch {
	case !chargeShape.MatchString(r.ProviderPaymentID):
		return errors.New("the provider payment id is not the id of a charge (chrg_…)")
	case !refundReference.MatchString(r.Reference):
		return errors.New("the refund's reference must be 1 to 100 letters, digits, dots, - and _")
	case r.Amount.Currency != r.Left.Currency:
		return errors.New("the amount and what is left must be of one currency")
	case r.Amount.Minor > r.Left.Minor:
		return errors.New("the amount must be at most what is left of the payment")
	case r.Whole && r.Amount != r.Left:
		return errors.New("a refund of everything must give back all that is left")
	case r.Payout != (gateways.Payout{}):
		return errors.New("a bank account must be left out: Omise gives money back the way it came")
	}
	return nil
}

// thawRefund reads a frozen refund, and proves that it belongs to the charge and that encoding it again gives the same
// bytes.
func thawRefund(frozen []byte, charge string) bool {
	var r struct {
		Amount   int64             `json:"amount"`
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(frozen, &r) != nil || r.Amount <= 0 || !chargeShape.MatchString(charge) ||
		r.Metadata[chargeField] != charge || !refundReference.MatchString(r.Metadata[refundField]) {
		return false
	}
	again, err := json.Marshal(json.RawMessage(frozen))
	return err == nil && string(again) == string(frozen)
}

// SendRefund puts one frozen refund on the wire, once.
func (g *Gateway) SendRefund(ctx context.Context, op gateways.Operation) (gateways.RefundSeen, error) {
	if !shared.UsableKey(op.Key, maxKey) {
		return gateways.RefundSeen{}, unanswered(gateways.Refund, errNoKey)
	}
	if !thawRefund(op.Request, op.ProviderPaymentID) {
		return gateways.RefundSeen{}, unanswered(gateways.Refund, errFrozen)
	}
	a, err := g.client.createRefund(ctx, op.ProviderPaymentID, op.Request)
	if err != nil {
		return gateways.RefundSeen{}, unanswered(gateways.Refund, err)
	}
	if a.status != http.StatusOK {
		return gateways.RefundSeen{}, g.refused(gateways.Refund, "", a)
	}
	r := &refund{}
	if json.Unmarshal(a.body, r) != nil || !r.sound() {
		return gateways.RefundSeen{}, g.answered(fault.PaymentUnknown, gateways.Refund, a)
	}
	return g.observeRefund(r), nil
}

// observeRefund takes every identity from the answer, never from the question.
func (g *Gateway) observeRefund(r *refund) gateways.RefundSeen {
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(r.Metadata, &metadata) // may hold anything else, or be none
	seen := gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: r.Charge, RefundID: r.ID, Reference: text(metadata[refundField]),
		Outcome: r.outcome(), Status: word(r.Status), Currency: money.Currency(strings.ToUpper(r.Currency)),
		AmountMinor: r.Amount, RefundedMinor: -1,
	}
	seen.Account.Environment = modeOf(r.ID)
	if r.Livemode != nil {
		seen.Account.Environment = gateways.Test
		if *r.Livemode {
			seen.Account.Environment = gateways.Live
		}
	}
	if at, err := time.Parse(time.RFC3339, r.CreatedAt); err == nil {
		seen.ProviderTime = at.UTC()
	}
	return seen
}

// LookupRefund reads the charge and finds the refund among its refunds, by its id or else by our reference in its metadata.
// Two under one reference are a refund that was given twice: nothing is said then, and a person looks.
func (g *Gateway) LookupRefund(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	if !chargeShape.MatchString(q.ProviderPaymentID) || (q.RefundID != "" && !refundShape.MatchString(q.RefundID)) ||
		(q.RefundID == "" && !refundReference.MatchString(q.Reference)) {
		return gateways.RefundSeen{}, internal(read, "a lookup of a refund needs the charge's id, and the refund's own id or our reference")
	}
	ctx, done := context.WithTimeout(ctx, g.timeout)
	defer done()
	c, a, err := g.fetch(ctx, q.ProviderPaymentID)
	if err != nil {
		return gateways.RefundSeen{}, err
	}
	if c == nil || c.ID != q.ProviderPaymentID {
		// A charge that took money and is not found is no fact about its refund.
		return gateways.RefundSeen{}, g.answered(fault.GatewayReadFailed, read, a)
	}
	all, err := g.refundsOf(ctx, c, a)
	if err != nil {
		return gateways.RefundSeen{}, err
	}
	seen := gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: c.ID, RefundID: q.RefundID, Reference: q.Reference, Outcome: gateways.NotFound,
		Currency: money.Currency(strings.ToUpper(c.Currency)),
	}
	found := 0
	for _, r := range all {
		s := g.observeRefund(r)
		if r.ID == q.RefundID || (q.RefundID == "" && s.Reference == q.Reference) {
			seen, found = s, found+1
		}
	}
	if found > 1 {
		seen.Outcome, seen.Code = gateways.Unknown, "two_refunds"
	}
	if seen.Outcome == gateways.Succeeded && seen.AmountMinor > c.refunded() {
		seen.Outcome = gateways.Unknown // the charge knows nothing of it
	}
	seen.RefundedMinor = c.refunded()
	return seen, nil
}

// refundList is a list of refunds. Object and a real array tell it from any other JSON.
type refundList struct {
	Object string    `json:"object"`
	Total  int       `json:"total"`
	Data   []*refund `json:"data"`
}

// refundsOf is every refund of a charge: those that the charge carries where these are all, and else the list itself. One
// that cannot be read, or is another charge's, makes the answer unusable: left out, it would look like "not given".
func (g *Gateway) refundsOf(ctx context.Context, c *charge, a answer) ([]*refund, error) {
	page := refundList{Total: -1}
	if json.Unmarshal(c.Refunds, &page) == nil && page.Object == "list" && page.Data != nil && page.Total == len(page.Data) {
		if !refundsOfCharge(page.Data, c.ID) {
			return nil, g.answered(fault.GatewayReadFailed, read, a)
		}
		return page.Data, nil
	}
	var all []*refund
	list := operations.List{Limit: listLimit, From: time.Unix(0, 0).UTC(), To: g.now().UTC().Add(listMargin), Order: omisego.Chronological}
	for range listPages {
		list.Offset = len(all)
		a, err := g.client.refunds(ctx, c.ID, list)
		if err != nil {
			return nil, unanswered(read, err)
		}
		if a.status != http.StatusOK {
			return nil, g.refused(read, "", a)
		}
		page := refundList{Total: -1}
		if json.Unmarshal(a.body, &page) != nil || page.Object != "list" || page.Data == nil || page.Total < 0 ||
			!refundsOfCharge(page.Data, c.ID) || (len(page.Data) == 0 && page.Total > len(all)) {
			return nil, g.answered(fault.GatewayReadFailed, read, a)
		}
		all = append(all, page.Data...)
		if len(all) >= page.Total {
			return all, nil
		}
	}
	return nil, unanswered(read, errTruncated)
}

func refundsOfCharge(all []*refund, charge string) bool {
	for _, r := range all {
		if !r.sound() || r.Charge != charge {
			return false
		}
	}
	return true
}
