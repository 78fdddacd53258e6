package omise

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Bounds of a lookup by reference. Two thousand charges from a few minutes before the first send are enough for the
// busiest shop; what lies beyond is a person's to find.
const (
	listLimit   = 100 // Omise's most
	listPages   = 20
	listOverlap = 10              // charges read again with the next page: the list may shift between two pages
	listMargin  = 5 * time.Minute // for clocks that differ
	listWindow  = 7 * 24 * time.Hour
)

var errTruncated = errors.New("there are more charges in the window than a lookup reads")

// Lookup reads the charge by id, which is strongly consistent. Only where the id was never learnt does it search by our
// reference, by listing a window: whether Omise's search sees metadata, and how soon, is not documented. Not found is
// never final, see Capabilities.
func (g *Gateway) Lookup(ctx context.Context, q gateways.Query) (gateways.Observation, error) {
	id := q.ProviderPaymentID
	if id == "" {
		if q.MerchantReference == "" {
			return gateways.Observation{}, internal(read, "a lookup needs a provider payment id or a merchant reference")
		}
		var err error
		if id, err = g.findByReference(ctx, q); err != nil {
			return gateways.Observation{}, err
		}
		if id == "" {
			return gateways.Observation{
				Account: g.account, MerchantReference: q.MerchantReference, Outcome: gateways.NotFound,
			}, nil
		}
	}
	if !chargeShape.MatchString(id) {
		return gateways.Observation{}, internal(read, "the provider payment id is not the id of a charge")
	}
	c, a, err := g.fetch(ctx, id)
	if err != nil {
		return gateways.Observation{}, err
	}
	if c == nil {
		// A fact and not a failure, but a weak one: a key of another account or mode gets the same answer.
		return gateways.Observation{
			Account: g.account, ProviderPaymentID: id, Outcome: gateways.NotFound, ProviderTime: providerTime(a.header),
		}, nil
	}
	return g.observe(read, c, a)
}

// fetch reads one charge; nil without an error is "no such charge". Its faults prove nothing.
func (g *Gateway) fetch(ctx context.Context, id string) (*charge, answer, error) {
	a, err := g.client.charge(ctx, id)
	if err != nil {
		return nil, a, unanswered(read, err)
	}
	if a.status != http.StatusOK {
		if e := readError(a); e.Object == "error" && e.Code == "not_found" && a.status == http.StatusNotFound {
			return nil, a, nil
		}
		return nil, a, g.refused(read, "", a)
	}
	c, ok := readCharge(a.body)
	if !ok {
		return nil, a, g.answered(fault.GatewayReadFailed, read, a)
	}
	return c, a, nil
}

// findByReference walks the window and returns the id of the charge that carries the reference, or "".
//
// There can be two, because Omise guards nothing: a charge that was sent again after all. Then the one furthest along
// counts; two that took money are a person's. Where the first send is known the walk begins there and goes forward, so
// that what it looks for comes first; otherwise it begins at the newest. The end of the window is fixed before the first
// page, so charges that are made meanwhile do not move it.
func (g *Gateway) findByReference(ctx context.Context, q gateways.Query) (string, error) {
	end := g.now().UTC().Truncate(time.Second).Add(time.Second)
	list := operations.List{Limit: listLimit, From: end.Add(-listWindow), To: end, Order: omisego.ReverseChronological}
	if !q.Since.IsZero() {
		list.From, list.Order = q.Since.UTC().Truncate(time.Second).Add(-listMargin), omisego.Chronological
	}
	var best *charge
	seen := map[string]bool{}
	for range listPages {
		page, a, err := g.listPage(ctx, list)
		if err != nil {
			return "", err
		}
		for _, c := range page.Data {
			if c.merchantReference = referenceIn(c.Metadata); c.merchantReference != q.MerchantReference || seen[c.ID] {
				continue
			}
			if !c.sound() {
				return "", g.answered(fault.GatewayReadFailed, read, a)
			}
			seen[c.ID] = true
			if best != nil && g.advance(best) == paidFor && g.advance(c) == paidFor {
				return "", g.answered(fault.PaymentNeedsReview, read, a)
			}
			if best == nil || g.further(c, best) {
				best = c
			}
		}
		next := list.Offset + len(page.Data)
		if next >= page.Total {
			return idOf(best), nil
		}
		list.Offset = next - min(listOverlap, len(page.Data)-1)
	}
	if best == nil {
		return "", unanswered(read, errTruncated)
	}
	return best.ID, nil
}

func idOf(c *charge) string {
	if c == nil {
		return ""
	}
	return c.ID
}

// chargeList is one page. Object and a real array tell a list from any other JSON: an empty object would read as
// "nothing was charged".
type chargeList struct {
	Object string    `json:"object"`
	Total  int       `json:"total"`
	Data   []*charge `json:"data"`
}

func (g *Gateway) listPage(ctx context.Context, list operations.List) (chargeList, answer, error) {
	page := chargeList{Total: -1}
	a, err := g.client.charges(ctx, list)
	switch {
	case err != nil:
		return page, a, unanswered(read, err)
	case a.status != http.StatusOK:
		return page, a, g.refused(read, "", a)
	case json.Unmarshal(a.body, &page) != nil || page.Object != "list" || page.Data == nil || page.Total < 0,
		len(page.Data) == 0 && page.Total > list.Offset:
		return page, a, g.answered(fault.GatewayReadFailed, read, a)
	}
	for _, c := range page.Data {
		if c == nil || c.Object != "charge" {
			return page, a, g.answered(fault.GatewayReadFailed, read, a)
		}
	}
	return page, a, nil
}

// paidFor is the advance of a charge that took money.
const paidFor = 6

// advance orders charges by how much happened to them.
func (g *Gateway) advance(c *charge) int {
	switch v := g.judge(read, c); {
	case v.outcome == gateways.Succeeded:
		return paidFor
	case v.outcome == gateways.Unknown && !v.review:
		return 5
	case c.held() > 0:
		return 4
	case v.outcome == gateways.Pending:
		return 3
	case v.review:
		return 2
	}
	return 1
}

// further reports that a counts rather than b. Of two that are as far along the older one counts, by a rule that does
// not depend on the order of the list, so that every lookup finds the same charge.
func (g *Gateway) further(a, b *charge) bool {
	x, y := g.advance(a), g.advance(b)
	switch {
	case x != y:
		return x > y
	case a.CreatedAt != b.CreatedAt:
		return a.CreatedAt < b.CreatedAt
	}
	return a.ID < b.ID
}
