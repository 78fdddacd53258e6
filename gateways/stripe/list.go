package stripe

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// List pages through the account's payment intents, newest first. The cursor is the last intent's id and not its time, so
// intents of one second are neither skipped nor read twice, and those made meanwhile stand before the first page. Stripe
// counts in whole seconds: a window that begins within one begins with it.
func (g *Gateway) List(ctx context.Context, w gateways.Window) (gateways.Page, error) {
	if w.From.IsZero() || w.To.Before(w.From) || (w.Cursor != "" && !intentShape.MatchString(w.Cursor)) {
		return gateways.Page{}, fault.Wrap(fault.InternalError, opName("list"),
			errors.New("a listing needs a window whose end is not before its start, and the cursor of the page before"))
	}
	fields := &form.Values{}
	fields.Add("created[gte]", strconv.FormatInt(w.From.Unix(), 10))
	fields.Add("created[lt]", strconv.FormatInt(w.To.Add(time.Second-time.Nanosecond).Unix(), 10))
	fields.Add("expand[0]", "data.latest_charge") // refunds stand on the charge
	answer, err := g.listPage(ctx, fields, w.Cursor)
	if err != nil {
		return gateways.Page{}, err
	}
	unusable := g.answered(fault.GatewayReadFailed, read, answer.LastResponse)
	page := gateways.Page{}
	for _, pi := range answer.Data {
		// A page of which one row cannot be read is refused: a row left out would look like money that never moved.
		if !sound(pi) || pi.Created <= 0 || pi.ID == w.Cursor {
			return gateways.Page{}, unusable
		}
		o := g.observe(pi, headerOf(answer.LastResponse))
		if err := g.disputes(ctx, pi, &o); err != nil { // one read more for a payment that was ever disputed
			return gateways.Page{}, err
		}
		page.Items = append(page.Items, gateways.Listed{Seen: o, At: time.Unix(pi.Created, 0).UTC()})
		page.Next = pi.ID
	}
	switch {
	case !answer.HasMore:
		page.Next = ""
	case page.Next == "":
		return gateways.Page{}, unusable // more of nothing
	}
	return page, nil
}
