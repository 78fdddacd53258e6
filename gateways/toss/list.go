package toss

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

const (
	// listTimeout: Toss says that a listing can take up to a minute.
	listTimeout = 90 * time.Second
	maxPage     = 5000
	listPage    = 500
)

// Transaction is one row of Toss's listing: an approval or a cancel. A payment with a refund has two rows or more, so a
// reader joins on the payment key and asks the payment itself what is true.
type Transaction struct {
	Key       string // where the next page may start
	PaymentID string // the payment key
	Reference string // the order id
	Status    string // Toss's word: "DONE", "CANCELED"
	Amount    money.Amount
	At        time.Time
}

// TransactionWindow asks for a page of transactions.
type TransactionWindow struct {
	From, To time.Time
	After    string // the key of the last row of the page before; empty = the first page
	Limit    int    // rows of a page, 1 to 5000; 0 = Toss's default of 100
}

// List pages through the account's approvals and cancels. A cancel's row says which payment moved and not what is left of
// it, so only an approval claims an outcome. Whether Toss counts a row at the very end of a window is not documented: rows
// outside of ours are left out.
func (g *Gateway) List(ctx context.Context, w gateways.Window) (gateways.Page, error) {
	rows, err := g.Transactions(ctx, TransactionWindow{From: w.From, To: w.To, After: w.Cursor, Limit: listPage})
	if err != nil {
		return gateways.Page{}, err
	}
	page := gateways.Page{}
	if len(rows) >= listPage {
		page.Next = rows[len(rows)-1].Key
	}
	for _, r := range rows {
		if r.At.Before(w.From.Truncate(time.Second)) || !r.At.Before(w.To) {
			continue // the listing has whole seconds
		}
		o := gateways.Observation{
			Account: g.account, ProviderPaymentID: r.PaymentID, MerchantReference: r.Reference, Status: r.Status,
			Outcome: gateways.Unknown, Currency: r.Amount.Currency, ProviderTime: r.At.UTC(),
		}
		if r.Status == "DONE" && r.Amount.Minor > 0 {
			o.Outcome, o.AmountMinor, o.CapturedMinor = gateways.Succeeded, r.Amount.Minor, r.Amount.Minor
		}
		page.Items = append(page.Items, gateways.Listed{Seen: o, At: r.At})
	}
	return page, nil
}

// Transactions reads one page, oldest first as Toss lists them. A page shorter than its limit is the last one. The cursor
// is a row's key and not its time, so rows of one instant are neither skipped nor read twice. Its faults prove nothing, and
// an empty page does not prove that nothing was paid.
func (g *Gateway) Transactions(ctx context.Context, w TransactionWindow) ([]Transaction, error) {
	if w.From.IsZero() || w.To.Before(w.From) || w.Limit < 0 || w.Limit > maxPage {
		return nil, fault.Wrap(fault.InternalError, opName("list"),
			errors.New("a listing needs a window whose end is not before its start, and a limit of at most 5000"))
	}
	const local = "2006-01-02T15:04:05.000"
	q := url.Values{}
	q.Set("startDate", w.From.In(seoul).Format(local))
	q.Set("endDate", w.To.In(seoul).Format(local))
	if w.After != "" {
		q.Set("startingAfter", w.After)
	}
	if w.Limit > 0 {
		q.Set("limit", strconv.Itoa(w.Limit))
	}
	a, err := g.client.read(ctx, max(g.timeout, listTimeout), "/v1/transactions?"+q.Encode())
	if err != nil {
		return nil, g.unanswered(read, a, err)
	}
	if a.status != http.StatusOK {
		return nil, g.refused(read, a)
	}
	rows, ok := decodeTransactions(a.body)
	if !ok {
		return nil, g.refused(read, a)
	}
	return rows, nil
}

// decodeTransactions refuses a page of which one row cannot be read: a row left out would look like money that never moved.
func decodeTransactions(body []byte) ([]Transaction, bool) {
	var raw []struct {
		TransactionKey string  `json:"transactionKey"`
		PaymentKey     string  `json:"paymentKey"`
		OrderID        string  `json:"orderId"`
		Status         string  `json:"status"`
		Currency       string  `json:"currency"`
		Amount         decimal `json:"amount"`
		TransactionAt  string  `json:"transactionAt"`
	}
	if json.Unmarshal(body, &raw) != nil || raw == nil {
		return nil, false
	}
	out := make([]Transaction, 0, len(raw))
	for _, r := range raw {
		c := money.Currency(r.Currency)
		minor, ok := r.Amount.minor(c)
		at := korean(r.TransactionAt)
		if !ok || r.TransactionKey == "" || !paymentKeyShape.MatchString(r.PaymentKey) || at.IsZero() {
			return nil, false
		}
		out = append(out, Transaction{
			Key: r.TransactionKey, PaymentID: r.PaymentKey, Reference: r.OrderID, Status: word(r.Status),
			Amount: money.Amount{Minor: minor, Currency: c}, At: at,
		})
	}
	return out, true
}
