package stripe

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// refundField is the metadata key by which a refund of ours is known again.
const refundField = "refund_reference"

var (
	refundReference = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	// refundShape: refunds of payments that are no card payments begin with pyr_.
	refundShape = regexp.MustCompile(`^(re|pyr)_[A-Za-z0-9_]{1,250}$`)
)

// refundVerdicts has a row for every status of the pinned API version. A refund that succeeded can fail later, when the
// buyer's bank sends the money back; a later look then says Declined.
var refundVerdicts = map[stripego.RefundStatus]gateways.Outcome{
	stripego.RefundStatusPending:        gateways.Pending,
	stripego.RefundStatusRequiresAction: gateways.Pending,
	stripego.RefundStatusSucceeded:      gateways.Succeeded,
	stripego.RefundStatusFailed:         gateways.Declined,
	stripego.RefundStatusCanceled:       gateways.Declined,
}

// PlanRefund freezes a refund. The amount is always named: without one Stripe gives back all that is left, and a refund
// that follows an unknown one would then mean something else. The charge rides along in the answer, since it alone says
// what went back in all.
func (g *Gateway) PlanRefund(r gateways.GiveBack) (gateways.Planned, error) {
	if err := validRefund(r); err != nil {
		return gateways.Planned{}, fault.Wrap(fault.PaymentInvalid, "stripe plan refund", err)
	}
	f := &form.Values{}
	f.Add("payment_intent", r.ProviderPaymentID)
	f.Add("amount", strconv.FormatInt(r.Amount.Minor, 10))
	f.Add("metadata["+refundField+"]", r.Reference)
	f.Add("expand[0]", "charge")
	return gateways.Planned{Kind: gateways.Refund, Request: []byte(f.Encode())}, nil
}

func validRefund(r gateways.GiveBack) error {
	if err := validAmount(r.Amount); err != nil {
		return err
	}
	switch {
	case !intentShape.MatchString(r.ProviderPaymentID):
		return errors.New("the provider payment id is not the id of a payment intent (pi_…)")
	case !refundReference.MatchString(r.Reference):
		return errors.New("the refund's reference must be 1 to 100 letters, digits, dots, - and _")
	case r.Amount.Currency != r.Left.Currency:
		return errors.New("the amount and what is left must be of one currency")
	case r.Amount.Minor > r.Left.Minor:
		return errors.New("the amount must be at most what is left of the payment")
	case r.Whole && r.Amount != r.Left:
		return errors.New("a refund of everything must give back all that is left")
	case r.Payout != (gateways.Payout{}):
		return errors.New("a bank account must be left out: Stripe gives money back the way it came")
	}
	return nil
}

// SendRefund puts one frozen refund on the wire, once.
func (g *Gateway) SendRefund(ctx context.Context, op gateways.Operation) (gateways.RefundSeen, error) {
	fields, err := url.ParseQuery(string(op.Request))
	if err != nil || !intentShape.MatchString(op.ProviderPaymentID) || fields.Get("payment_intent") != op.ProviderPaymentID ||
		fields.Get("amount") == "" || fields.Get("metadata["+refundField+"]") == "" {
		return gateways.RefundSeen{}, unanswered(gateways.Refund, errFrozen)
	}
	re := &stripego.Refund{}
	err = g.client.write(ctx, "/v1/refunds", op.Key, op.Request, re)
	var refusal *stripego.Error
	switch {
	case err == nil && soundRefund(re):
		return g.observeRefund(re, headerOf(re.LastResponse)), nil
	case err == nil:
		return gateways.RefundSeen{}, g.answered(fault.PaymentUnknown, gateways.Refund, re.LastResponse)
	case errors.As(err, &refusal):
		return gateways.RefundSeen{}, g.refused(gateways.Refund, refusal)
	default:
		return gateways.RefundSeen{}, unanswered(gateways.Refund, err)
	}
}

// LookupRefund reads the refund by its id, or where that was never learnt finds it among the refunds of its payment by our
// reference in its metadata. Not found proves nothing by itself: a key of another account or mode gets the same answer.
func (g *Gateway) LookupRefund(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	switch {
	case refundShape.MatchString(q.RefundID):
		return g.refundByID(ctx, q)
	case q.RefundID == "" && intentShape.MatchString(q.ProviderPaymentID) && refundReference.MatchString(q.Reference):
		return g.refundByReference(ctx, q)
	}
	return gateways.RefundSeen{}, fault.Wrap(fault.InternalError, opName(read),
		errors.New("a lookup of a refund needs its id (re_…), or the payment's (pi_…) and our reference"))
}

func (g *Gateway) refundByID(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	fields := &form.Values{}
	fields.Add("expand[0]", "charge")
	re := &stripego.Refund{}
	err := g.client.read(ctx, "/v1/refunds/"+q.RefundID, fields, re)
	var refusal *stripego.Error
	switch {
	case err == nil && soundRefund(re):
		return g.observeRefund(re, headerOf(re.LastResponse)), nil
	case err == nil:
		return gateways.RefundSeen{}, g.answered(fault.GatewayReadFailed, read, re.LastResponse)
	case !errors.As(err, &refusal):
		return gateways.RefundSeen{}, unanswered(read, err)
	case refusal.Code == stripego.ErrorCodeResourceMissing && refusal.HTTPStatusCode == http.StatusNotFound:
		seen := g.noRefund(q)
		seen.RefundID, seen.RequestID = q.RefundID, requestID(refusal.RequestID)
		return seen, nil
	default:
		return gateways.RefundSeen{}, g.refused(read, refusal)
	}
}

func (g *Gateway) noRefund(q gateways.RefundQuery) gateways.RefundSeen {
	return gateways.RefundSeen{
		Account: g.account, ProviderPaymentID: q.ProviderPaymentID, Reference: q.Reference, Outcome: gateways.NotFound,
		RefundedMinor: -1,
	}
}

// refundByReference walks all refunds of the payment. Two under one reference are a refund that was given twice: nothing
// is said then, and a person looks. A walk that does not come to the end says nothing either.
func (g *Gateway) refundByReference(ctx context.Context, q gateways.RefundQuery) (gateways.RefundSeen, error) {
	seen, after := g.noRefund(q), ""
	for range listPages {
		page, err := g.refundPage(ctx, q.ProviderPaymentID, after)
		if err != nil {
			return gateways.RefundSeen{}, err
		}
		for _, re := range page.Data {
			if !soundRefund(re) || re.PaymentIntent.ID != q.ProviderPaymentID {
				return gateways.RefundSeen{}, g.answered(fault.GatewayReadFailed, read, page.LastResponse)
			}
			found := g.observeRefund(re, headerOf(page.LastResponse))
			switch {
			case found.Reference != q.Reference:
				seen.RefundedMinor = max(seen.RefundedMinor, found.RefundedMinor)
			case seen.Outcome != gateways.NotFound:
				seen.Outcome, seen.Code = gateways.Unknown, "two_refunds"
				return seen, nil
			default:
				seen = found
			}
		}
		if !page.HasMore {
			return seen, nil
		}
		if len(page.Data) == 0 {
			break
		}
		after = page.Data[len(page.Data)-1].ID
	}
	return gateways.RefundSeen{}, g.answered(fault.GatewayReadFailed, read, nil)
}

// refundsAnswer adds the field that tells a list from any other JSON: an empty object would read as "nothing went back".
type refundsAnswer struct {
	stripego.RefundList
	Object string `json:"object"`
}

func (g *Gateway) refundPage(ctx context.Context, intent, after string) (*refundsAnswer, error) {
	fields := &form.Values{}
	fields.Add("payment_intent", intent)
	fields.Add("limit", strconv.Itoa(listLimit))
	fields.Add("expand[0]", "data.charge")
	if after != "" {
		fields.Add("starting_after", after)
	}
	page := &refundsAnswer{}
	err := g.client.read(ctx, "/v1/refunds", fields, page)
	var refusal *stripego.Error
	switch {
	case err == nil && page.Object == "list" && page.Data != nil:
		return page, nil
	case err == nil:
		return nil, g.answered(fault.GatewayReadFailed, read, page.LastResponse)
	case errors.As(err, &refusal):
		return nil, g.refused(read, refusal)
	default:
		return nil, unanswered(read, err)
	}
}

// soundRefund reports that an answer is the refund of a payment intent. A charge without an intent is none of ours.
func soundRefund(re *stripego.Refund) bool {
	return re != nil && re.Object == "refund" && refundShape.MatchString(re.ID) && re.Status != "" && re.Amount > 0 &&
		currencyShape.MatchString(string(re.Currency)) && re.PaymentIntent != nil && intentShape.MatchString(re.PaymentIntent.ID)
}

// observeRefund takes every identity from the answer, never from the question. A refund says nothing of its mode; the
// charge that rides along does. A refund that succeeded and of which its own charge knows nothing contradicts itself.
func (g *Gateway) observeRefund(re *stripego.Refund, header http.Header) gateways.RefundSeen {
	seen := gateways.RefundSeen{
		Account:           g.account,
		ProviderPaymentID: re.PaymentIntent.ID,
		RefundID:          re.ID,
		Reference:         re.Metadata[refundField],
		Outcome:           gateways.Unknown,
		Status:            word(string(re.Status)),
		Currency:          money.Currency(strings.ToUpper(string(re.Currency))),
		AmountMinor:       re.Amount,
		RefundedMinor:     -1,
		Code:              word(string(re.FailureReason)),
		RequestID:         requestID(header.Get("Request-Id")),
	}
	if outcome, known := refundVerdicts[re.Status]; known {
		seen.Outcome = outcome
	}
	if re.Created > 0 {
		seen.ProviderTime = time.Unix(re.Created, 0).UTC()
	}
	if c := re.Charge; c != nil && c.Object == "charge" {
		seen.Account.Environment, seen.RefundedMinor = gateways.Test, wentBack(c)
		if c.Livemode {
			seen.Account.Environment = gateways.Live
		}
		if seen.Outcome == gateways.Succeeded && c.AmountRefunded < re.Amount {
			seen.Outcome = gateways.Unknown
		}
	}
	return seen
}
