package api

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"orderflow/internal/cleantext"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/starter/view"
)

// longestPromise is how far in the future an order may expire.
const longestPromise = 366 * 24 * time.Hour

// OrderRequest is an order as the checkout backend states it.
type OrderRequest struct {
	ID          string              `json:"id" doc:"yours: 1 to 64 printable characters; never sent to a provider"`
	Currency    string              `json:"currency" doc:"ISO 4217, upper case" example:"JPY"`
	Lines       []LineRequest       `json:"lines"`
	Adjustments []AdjustmentRequest `json:"adjustments,omitempty"`
	Total       int64               `json:"total" doc:"minor units; must equal lines plus adjustments"`
	BuyerRef    string              `json:"buyer_ref,omitempty" doc:"your reference to the buyer, never contact data"`
	ExpiresAt   time.Time           `json:"expires_at" doc:"until when the order may be paid, at most a year ahead"`
}

// LineRequest is one thing bought.
type LineRequest struct {
	SKU        string `json:"sku"`
	Name       string `json:"name,omitempty"`
	Quantity   int    `json:"quantity"`
	UnitAmount int64  `json:"unit_amount" doc:"minor units for one piece"`
	TaxRate    string `json:"tax_rate,omitempty" doc:"percent as text, for records; it enters no sum" example:"10"`
	Action     string `json:"action" doc:"stock, grant or issue"`
	Issuer     string `json:"issuer,omitempty" doc:"a configured issuer; for action issue, and only then"`
}

// AdjustmentRequest is a signed amount beside the lines.
type AdjustmentRequest struct {
	Kind    string `json:"kind" doc:"discount (negative), shipping, tax, or included_tax: what the prices hold already, which enters no sum"`
	Amount  int64  `json:"amount" doc:"minor units"`
	TaxRate string `json:"tax_rate,omitempty" doc:"the rate it is stated for, percent as text, for records" example:"10"`
}

type placeInput struct{ Body OrderRequest }

type placeOutput struct {
	Location string `header:"Location"`
	Body     view.Summary
}

func (a *API) placeOrder(ctx context.Context, in *placeInput) (*placeOutput, error) {
	caller := callerOf(ctx)
	d, errs := a.draft(in.Body, caller.Client)
	if len(errs) > 0 {
		return nil, problem(typeValidation, "", errs...)
	}
	g := idempotency.From(ctx)
	if _, err := g.Begin(ctx, func() string { return string(d.ID) }); err != nil {
		return nil, err
	}
	h, err := a.d.Store.OrderPlaceHead(ctx, d, g.Key(), a.d.Policy)
	if err != nil {
		return nil, a.placeProblem(ctx, d, err)
	}
	return &placeOutput{Location: orderPath(d.ID), Body: view.SummaryOf(h)}, nil
}

func (a *API) placeProblem(ctx context.Context, d order.Draft, err error) error {
	switch rejection(err) {
	case "order_exists":
		p := problem(typeOrderExists, "")
		if h, err := a.d.Store.OrderHead(ctx, d.Client, d.ID); err == nil { // two devices, one cart: the loser goes on with it
			s := view.SummaryOf(h)
			p.Order = &s
			p.header.Set("Location", orderPath(d.ID))
		}
		return p
	case "out_of_stock":
		return problem(typeOutOfStock, "")
	case "no_such_stock":
		return problem(typeNoStock, "")
	case "key_bound_elsewhere":
		return problem(typeKeyReused, "")
	}
	return a.failure(ctx, err)
}

// draft turns a request into a draft and says everything that is wrong with it.
func (a *API) draft(b OrderRequest, client order.ClientID) (order.Draft, []FieldError) {
	d := order.Draft{
		ID: order.ID(b.ID), Client: client, Currency: money.Currency(b.Currency), Total: b.Total, BuyerRef: b.BuyerRef, ExpiresAt: b.ExpiresAt.UTC(),
		Lines: make([]order.Line, 0, len(b.Lines)),
	}
	for i, l := range b.Lines {
		d.Lines = append(d.Lines, order.Line{
			No: i + 1, SKU: l.SKU, Name: l.Name, Quantity: l.Quantity, UnitAmount: l.UnitAmount, TaxRate: l.TaxRate,
			Action: order.Action(l.Action), Issuer: l.Issuer,
		})
	}
	for _, adj := range b.Adjustments {
		d.Adjustments = append(d.Adjustments, order.Adjustment{Kind: adj.Kind, Amount: adj.Amount, TaxRate: adj.TaxRate})
	}
	var errs fieldErrors
	for _, p := range d.Validate() {
		errs.add("body."+p.Path, p.Message)
	}
	if err := cleantext.OrderID(b.ID); err != nil {
		errs.add("body.id", err.Error())
	}
	errs.number("body.id", b.ID)
	errs.free("body.buyer_ref", b.BuyerRef)
	if len(b.Lines) <= order.MaxLines {
		a.lineTexts(b.Lines, &errs)
	}
	if utf8.RuneCountInString(b.BuyerRef) > order.MaxRecipient && slices.ContainsFunc(b.Lines, func(l LineRequest) bool { return l.Issuer != "" }) {
		// Told now, not when the money is taken and the issuer's request cannot be made.
		errs.add("body.buyer_ref", fmt.Sprintf("must have at most %d characters in an order with a line of action issue", order.MaxRecipient))
	}
	now := a.d.Now()
	switch {
	case !b.ExpiresAt.After(now):
		errs.add("body.expires_at", "must be in the future")
	case b.ExpiresAt.After(now.Add(longestPromise)):
		errs.add("body.expires_at", "must be at most a year ahead")
	}
	return d, errs.list
}

func (a *API) lineTexts(lines []LineRequest, errs *fieldErrors) {
	for i, l := range lines {
		at := func(field string) string { return fmt.Sprintf("body.lines[%d].%s", i, field) }
		errs.text(at("sku"), l.SKU, maxSKU)
		errs.number(at("sku"), l.SKU)
		errs.free(at("name"), l.Name)
		if l.Issuer != "" && !a.issuers[l.Issuer] {
			errs.add(at("issuer"), "is not a configured issuer")
		}
	}
}

// maxSKU is how many characters a sku may have.
const maxSKU = 200

// fieldErrors collects what is wrong, bounded.
type fieldErrors struct{ list []FieldError }

func (f *fieldErrors) add(at, message string) {
	if len(f.list) < 20 {
		f.list = append(f.list, FieldError{at, message})
	}
}

func (f *fieldErrors) text(at, s string, limit int) {
	if err := cleantext.Text(s, limit); err != nil {
		f.add(at, err.Error())
	}
}

// free is text people type: nobody may leave a card number there.
func (f *fieldErrors) free(at, s string) {
	f.text(at, s, order.MaxText)
	if cleantext.LooksLikeCard(s) {
		f.add(at, "holds what may be a card number; card data must never be sent here")
	}
}

// number is text that may be all digits by design, such as an id made of a date and a counter. It is refused only when the
// whole of it is a card number by length, first digits and check digit.
func (f *fieldErrors) number(at, s string) {
	if isCardNumber(s) {
		f.add(at, "may be a card number; card data must never be sent here")
	}
}

func isCardNumber(s string) bool {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(s)
	if (len(digits) != 15 && len(digits) != 16) || strings.Trim(digits, "0123456789") != "" || !cleantext.LooksLikeCard(digits) {
		return false
	}
	switch digits[0] {
	case '3', '4', '5', '6':
		return true
	case '2':
		return digits[:4] >= "2221" && digits[:4] <= "2720"
	}
	return false
}

func orderPath(id order.ID) string { return "/v1/orders/" + url.PathEscape(string(id)) }

type readInput struct {
	ID string `path:"id"`
}

type readOutput struct{ Body view.Order }

func (a *API) readOrder(ctx context.Context, in *readInput) (*readOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "") // no order can have this id
	}
	v, err := a.d.Store.OrderView(ctx, callerOf(ctx).Client, order.ID(in.ID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	a.lookIfOpen(ctx, v.Attempts)
	return &readOutput{Body: view.OrderOf(v, a.d.Box)}, nil
}

// StockRequest is what is on hand of a sku.
type StockRequest struct {
	OnHand int64 `json:"on_hand" doc:"pieces, reserved ones included"`
}

type stockInput struct {
	SKU  string `path:"sku"`
	Body StockRequest
}

type stockOutput struct{ Body StockView }

// StockView is the answer to setting stock.
type StockView struct {
	SKU    string `json:"sku"`
	OnHand int64  `json:"on_hand"`
}

func (a *API) setStock(ctx context.Context, in *stockInput) (*stockOutput, error) {
	var errs fieldErrors
	if in.SKU == "" {
		errs.add("path.sku", "is missing")
	}
	errs.text("path.sku", in.SKU, maxSKU)
	errs.number("path.sku", in.SKU)
	if in.Body.OnHand < 0 || in.Body.OnHand > order.MaxMinor {
		errs.add("body.on_hand", fmt.Sprintf("must be between 0 and %d", int64(order.MaxMinor)))
	}
	if len(errs.list) > 0 {
		return nil, problem(typeValidation, "", errs.list...)
	}
	if err := a.d.Store.StockSet(ctx, in.SKU, in.Body.OnHand); rejection(err) == "below_reserved" {
		return nil, problem(typeBelowReserved, "")
	} else if err != nil {
		return nil, a.failure(ctx, err)
	}
	return &stockOutput{Body: StockView{SKU: in.SKU, OnHand: in.Body.OnHand}}, nil
}

// rejection is the rule's word, where a rule of ours refused.
func rejection(err error) string {
	var f *fault.Error
	if errors.As(err, &f) && f.Code == fault.Refused {
		return f.Why
	}
	return ""
}

// failure turns a fault that is not the caller's into an answer. Only its code goes to the log.
func (a *API) failure(ctx context.Context, err error) error {
	f := fault.As(err)
	switch {
	case f.Code == fault.NotFound:
		return problem(typeNotFound, "")
	case f.Code == fault.DatabaseUnavailable, f.Code == fault.DatabaseContention:
		a.d.Log.WarnContext(ctx, "request not served", "error", f.Error())
		return problem(typeUnavailable, "").after(time.Second)
	}
	a.d.Log.ErrorContext(ctx, "request failed", "error", f.Error(), "cause", fmt.Sprintf("%T", f.Cause))
	return problem(typeInternal, "")
}
