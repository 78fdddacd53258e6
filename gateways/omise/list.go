package omise

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// cursorShape is the number of charges read so far and the last of them.
var cursorShape = regexp.MustCompile(`^([1-9][0-9]{0,8}):(chrg_[A-Za-z0-9_]{1,250})$`)

var errMoved = errors.New("the list moved under the cursor: read the window from its beginning")

// List pages through the account's charges, oldest first and with a fixed end, so that charges made meanwhile come last.
// Omise pages by offset alone, and an offset knows nothing of what it counted: every page begins with the last charge of
// the page before, and where it does not, the list has moved and the page is refused instead of skipping a charge. Times
// have whole seconds; a window that begins within one begins with it.
func (g *Gateway) List(ctx context.Context, w gateways.Window) (gateways.Page, error) {
	at := cursorShape.FindStringSubmatch(w.Cursor)
	if w.From.IsZero() || w.To.Before(w.From) || (w.Cursor != "" && at == nil) {
		return gateways.Page{}, internal("list", "a listing needs a window whose end is not before its start, and the cursor of the page before")
	}
	list := operations.List{
		Limit: listLimit, Order: omisego.Chronological,
		From: w.From.UTC().Truncate(time.Second), To: w.To.UTC().Add(-time.Nanosecond).Truncate(time.Second), // Omise counts the end in
	}
	if list.To.Before(list.From) {
		return gateways.Page{}, nil
	}
	last := ""
	if at != nil {
		count, err := strconv.Atoi(at[1])
		if err != nil {
			return gateways.Page{}, internal("list", "the cursor is not a page's")
		}
		list.Offset, last = count-1, at[2]
	}
	answer, a, err := g.listPage(ctx, list)
	if err != nil {
		return gateways.Page{}, err
	}
	fresh := answer.Data
	if last != "" {
		if len(fresh) == 0 || fresh[0].ID != last {
			f := g.answered(fault.GatewayReadFailed, read, a)
			f.Why, f.Cause = "list_moved", errMoved
			return gateways.Page{}, f
		}
		fresh = fresh[1:]
	}
	page := gateways.Page{}
	for _, c := range fresh {
		item, ok := g.listed(c, a)
		if !ok {
			return gateways.Page{}, g.answered(fault.GatewayReadFailed, read, a) // left out, it would look like money that never moved
		}
		page.Items = append(page.Items, item)
	}
	count := list.Offset + len(answer.Data)
	switch {
	case count >= answer.Total:
		return page, nil
	case len(fresh) == 0:
		return gateways.Page{}, g.answered(fault.GatewayReadFailed, read, a) // more of nothing
	}
	page.Next = strconv.Itoa(count) + ":" + fresh[len(fresh)-1].ID
	return page, nil
}

// listed reads one charge of a list. What only a person may judge stays in the list as unknown.
func (g *Gateway) listed(c *charge, a answer) (gateways.Listed, bool) {
	c.merchantReference = referenceIn(c.Metadata)
	created, err := time.Parse(time.RFC3339, c.CreatedAt)
	if err != nil || !c.sound() {
		return gateways.Listed{}, false
	}
	o, err := g.observe(read, c, a)
	if err != nil {
		o = gateways.Observation{
			Account: g.account, ProviderPaymentID: c.ID, MerchantReference: c.merchantReference, Outcome: gateways.Unknown,
			Status: word(c.Status), Currency: money.Currency(strings.ToUpper(c.Currency)), AmountMinor: c.Amount,
			ProviderTime: providerTime(a.header),
		}
		o.Account.Environment = c.environment()
	}
	return gateways.Listed{Seen: o, At: created.UTC()}, true
}
