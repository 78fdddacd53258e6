package stripe

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Bounds of a lookup by reference. It serves an attempt whose prepare lost its answer and whose key has lapsed. Where the
// time of the first send is known the listing begins there, with a margin for clocks that differ; otherwise a week of
// intents is enough. What lies beyond is a person's to find.
const (
	listWindow = 7 * 24 * time.Hour
	listMargin = 10 * time.Minute
	listPages  = 10
	listLimit  = 100
)

// Lookup reads the intent by id, which is strongly consistent. Only where the id was never learnt does it search by our
// reference, by listing a window: Stripe's search lags behind by up to an hour. Not found is never final, see
// Capabilities.
func (g *Gateway) Lookup(ctx context.Context, q gateways.Query) (gateways.Observation, error) {
	if q.ProviderPaymentID != "" {
		return g.lookupID(ctx, q.ProviderPaymentID)
	}
	if q.MerchantReference == "" {
		return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(read),
			errors.New("a lookup needs a provider payment id or a merchant reference"))
	}
	since := g.now().Add(-listWindow)
	if !q.Since.IsZero() {
		since = q.Since.Add(-listMargin)
	}
	id, err := g.findByReference(ctx, q.MerchantReference, since)
	if err != nil {
		return gateways.Observation{}, err
	}
	if id == "" {
		return gateways.Observation{
			Account: g.account, MerchantReference: q.MerchantReference, Outcome: gateways.NotFound,
		}, nil
	}
	return g.lookupID(ctx, id)
}

func (g *Gateway) lookupID(ctx context.Context, id string) (gateways.Observation, error) {
	if !intentShape.MatchString(id) {
		return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(read),
			errors.New("the provider payment id is not the id of a payment intent"))
	}
	fields := &form.Values{}
	fields.Add("expand[0]", "latest_charge") // refunds stand on the charge
	pi := &stripego.PaymentIntent{}
	err := g.client.read(ctx, "/v1/payment_intents/"+id, fields, pi)
	var refusal *stripego.Error
	switch {
	case err == nil && sound(pi):
		o := g.observe(pi, headerOf(pi.LastResponse))
		if err := g.disputes(ctx, pi, &o); err != nil {
			return gateways.Observation{}, err // half an answer would read as "no dispute"
		}
		return o, nil
	case err == nil:
		return gateways.Observation{}, g.answered(fault.GatewayReadFailed, read, pi.LastResponse)
	case !errors.As(err, &refusal):
		return gateways.Observation{}, unanswered(read, err)
	case refusal.Code == stripego.ErrorCodeResourceMissing && refusal.HTTPStatusCode == http.StatusNotFound:
		// A fact and not a failure, but a weak one: a key of another account or mode gets the same answer.
		return gateways.Observation{
			Account: g.account, ProviderPaymentID: id, Outcome: gateways.NotFound,
			ProviderTime: providerTime(headerOf(refusal.LastResponse)), RequestID: requestID(refusal.RequestID),
		}, nil
	default:
		return gateways.Observation{}, g.refused(read, refusal)
	}
}

// findByReference walks the window, newest first, and returns the id of the intent that carries the reference, or "".
// There can be two: a prepare repeated after its key lapsed makes another intent. Then the one furthest along counts;
// two that took money are a person's.
func (g *Gateway) findByReference(ctx context.Context, reference string, begin time.Time) (string, error) {
	var best *stripego.PaymentIntent
	since, after := strconv.FormatInt(begin.Unix(), 10), ""
	for range listPages {
		fields := &form.Values{}
		fields.Add("created[gte]", since)
		page, err := g.listPage(ctx, fields, after)
		if err != nil {
			return "", err
		}
		for _, pi := range page.Data {
			if !sound(pi) {
				return "", g.answered(fault.GatewayReadFailed, read, page.LastResponse)
			}
			if pi.Metadata[referenceField] != reference {
				continue
			}
			if best != nil && advance(best) == advance(pi) && judge(pi).outcome == gateways.Succeeded {
				return "", g.answered(fault.PaymentNeedsReview, read, page.LastResponse)
			}
			if best == nil || advance(pi) > advance(best) {
				best = pi
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			break
		}
		after = page.Data[len(page.Data)-1].ID
	}
	if best == nil {
		return "", nil
	}
	return best.ID, nil
}

// listPage reads one page of a listing; fields say of what.
func (g *Gateway) listPage(ctx context.Context, fields *form.Values, after string) (*stripego.PaymentIntentList, error) {
	fields.Add("limit", strconv.Itoa(listLimit))
	if after != "" {
		fields.Add("starting_after", after)
	}
	page := &listAnswer{}
	err := g.client.read(ctx, "/v1/payment_intents", fields, page)
	var refusal *stripego.Error
	switch {
	case err == nil && page.Object == "list" && page.Data != nil:
		return &page.PaymentIntentList, nil
	case err == nil:
		return nil, g.answered(fault.GatewayReadFailed, read, page.LastResponse)
	case errors.As(err, &refusal):
		return nil, g.refused(read, refusal)
	default:
		return nil, unanswered(read, err)
	}
}

// listAnswer adds the field that tells a list from any other JSON: an empty object would read as "nothing was paid".
type listAnswer struct {
	stripego.PaymentIntentList
	Object string `json:"object"`
}

// advance orders intents by how much happened to them.
func advance(pi *stripego.PaymentIntent) int {
	switch v := judge(pi); {
	case v.outcome == gateways.Succeeded:
		return 5
	case v.outcome == gateways.Unknown:
		return 4
	case v.outcome == gateways.Pending:
		return 3
	case v.outcome == gateways.Declined && !v.final:
		return 2
	case v.outcome == gateways.Untouched:
		return 1
	}
	return 0
}

func headerOf(res *stripego.APIResponse) http.Header {
	if res == nil {
		return http.Header{}
	}
	return res.Header
}
