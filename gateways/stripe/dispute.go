package stripe

import (
	"context"
	"errors"
	"strconv"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// standings is what a dispute's status means to us. An inquiry (warning_…) takes no money and forbids no refund, so it is none. What
// Stripe adds later counts as open: nothing is provided or refunded on top of what is not understood.
var standings = map[stripego.DisputeStatus]gateways.Dispute{
	stripego.DisputeStatusNeedsResponse:        gateways.DisputeOpen,
	stripego.DisputeStatusUnderReview:          gateways.DisputeOpen,
	stripego.DisputeStatusWon:                  gateways.DisputeWon,
	stripego.DisputeStatusLost:                 gateways.DisputeLost,
	stripego.DisputeStatusWarningNeedsResponse: gateways.DisputeNone,
	stripego.DisputeStatusWarningUnderReview:   gateways.DisputeNone,
	stripego.DisputeStatusWarningClosed:        gateways.DisputeNone,
}

// graver orders standings: of several disputes of one charge the gravest counts.
var graver = map[gateways.Dispute]int{gateways.DisputeWon: 1, gateways.DisputeOpen: 2, gateways.DisputeLost: 3}

// disputeList is one page of an intent's disputes.
type disputeList struct {
	stripego.APIResource
	Object  string              `json:"object"`
	HasMore bool                `json:"has_more"`
	Data    []*stripego.Dispute `json:"data"`
}

// disputes adds what the buyer's bank argues about. The charge says only that there was a dispute at some time, so its disputes are
// read where it does; a charge that is not in the answer says nothing.
func (g *Gateway) disputes(ctx context.Context, pi *stripego.PaymentIntent, o *gateways.Observation) error {
	c := pi.LatestCharge
	if c == nil || c.Object != "charge" || o.Outcome != gateways.Succeeded {
		return nil
	}
	o.Dispute = gateways.DisputeNone
	if !c.Disputed {
		return nil
	}
	fields := &form.Values{}
	fields.Add("payment_intent", pi.ID)
	fields.Add("limit", strconv.Itoa(listLimit))
	page := &disputeList{}
	err := g.client.read(ctx, "/v1/disputes", fields, page)
	var refusal *stripego.Error
	switch {
	case err == nil && page.Object == "list" && page.Data != nil && !page.HasMore:
	case err == nil:
		return g.answered(fault.GatewayReadFailed, read, page.LastResponse)
	case errors.As(err, &refusal):
		return g.refused(read, refusal)
	default:
		return unanswered(read, err)
	}
	for _, d := range page.Data {
		if d == nil || d.Object != "dispute" || d.Amount < 0 || d.Currency != pi.Currency {
			return g.answered(fault.GatewayReadFailed, read, page.LastResponse)
		}
		says, known := standings[d.Status]
		if !known {
			says = gateways.DisputeOpen
		}
		switch {
		case graver[says] > graver[o.Dispute]:
			o.Dispute, o.DisputedMinor = says, d.Amount
		case says == o.Dispute && says != gateways.DisputeNone:
			o.DisputedMinor += d.Amount
		}
	}
	o.DisputedMinor = min(o.DisputedMinor, o.CapturedMinor)
	return nil
}
