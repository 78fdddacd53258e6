package view

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Record is one transaction: what was sold, received or given back. Amounts are in minor units of its currency; a correction may take away.
// The sums of a field over an order's records are what is true now.
type Record struct {
	Number    *int64         `json:"number,omitempty" doc:"of your records, from 1 and without a gap; absent for a moment after the transaction"`
	OrderID   order.ID       `json:"order_id"`
	Seq       int32          `json:"seq" doc:"of the order's records, from 1 and without a gap"`
	Kind      string         `json:"kind" enum:"sale,receipt,refund,correction"`
	Why       string         `json:"why,omitempty" doc:"of a correction: refunded_elsewhere, refund_undone, taken_back, charged_back, captured_changed or payment_moved"`
	Corrects  *int32         `json:"corrects,omitempty" doc:"the seq of the record that a refund or correction is about"`
	At        time.Time      `json:"at"`
	Currency  string         `json:"currency"`
	Sold      int64          `json:"sold" doc:"minor units"`
	Received  int64          `json:"received" doc:"minor units"`
	Refunded  int64          `json:"refunded" doc:"minor units"`
	PaymentID string         `json:"payment_id,omitempty"`
	RefundID  string         `json:"refund_id,omitempty"`
	Provider  *RecordedAt    `json:"provider,omitempty" doc:"where the money moved"`
	Sale      *RecordedOrder `json:"sale,omitempty" doc:"what was sold, as the order stated it when it was paid"`
}

// RecordedAt is where money moved, and what it is known by there.
type RecordedAt struct {
	Gateway           string `json:"gateway,omitempty"`
	Account           string `json:"account,omitempty"`
	Environment       string `json:"environment,omitempty"`
	ProviderPaymentID string `json:"provider_payment_id,omitempty"`
	AttemptID         string `json:"attempt_id,omitempty"`
	Matched           *bool  `json:"matched,omitempty" doc:"whether the payment is what was asked for"`
	Reference         string `json:"reference,omitempty" doc:"of a refund"`
	ProviderRefundID  string `json:"provider_refund_id,omitempty"`
	Reason            string `json:"reason,omitempty" doc:"of a refund"`
	DecisionID        string `json:"decision_id,omitempty" doc:"of what was paid by other means: the decision that recorded it"`
}

// RecordedOrder is an order as it was sold.
type RecordedOrder struct {
	Revision         int32             `json:"revision"`
	LinesMinor       int64             `json:"lines_minor"`
	AdjustmentsMinor int64             `json:"adjustments_minor"`
	TotalMinor       int64             `json:"total_minor"`
	Lines            []RecordedLine    `json:"lines"`
	Adjustments      []RecordedExtra   `json:"adjustments"`
	ByRate           []RecordedTaxRate `json:"by_rate" doc:"per tax rate as the order stated it; nothing here is computed by tax law"`
}

// RecordedLine is one line of a sale.
type RecordedLine struct {
	No              int32  `json:"no"`
	SKU             string `json:"sku"`
	Name            string `json:"name"`
	Quantity        int32  `json:"quantity"`
	UnitAmountMinor int64  `json:"unit_amount_minor"`
	AmountMinor     int64  `json:"amount_minor"`
	TaxRate         string `json:"tax_rate"`
}

// RecordedExtra is one adjustment of a sale.
type RecordedExtra struct {
	Kind        string `json:"kind"`
	TaxRate     string `json:"tax_rate"`
	AmountMinor int64  `json:"amount_minor"`
}

// RecordedTaxRate is what a sale states for one tax rate; the empty rate is what was stated without one. Null is not stated.
type RecordedTaxRate struct {
	TaxRate          string `json:"tax_rate"`
	LinesMinor       *int64 `json:"lines_minor"`
	DiscountMinor    *int64 `json:"discount_minor"`
	ShippingMinor    *int64 `json:"shipping_minor"`
	TaxMinor         *int64 `json:"tax_minor" doc:"added to the prices"`
	IncludedTaxMinor *int64 `json:"included_tax_minor" doc:"held by the prices already"`
}

// RecordOf makes the view of one record. A document that cannot be read is a bug of ours and leaves its part out.
func RecordOf(r sqlcgen.TransactionRecord) Record {
	v := Record{
		Number: r.Number, OrderID: order.ID(r.OrderID), Seq: r.Seq, Kind: r.Kind, Why: r.Why, Corrects: r.CorrectsSeq, At: r.At.UTC(), Currency: r.Currency,
		Sold: r.SoldMinor, Received: r.ReceivedMinor, Refunded: r.RefundedMinor, PaymentID: deref(r.PaymentID), RefundID: deref(r.RefundID),
	}
	if r.Kind == "sale" {
		v.Sale = read[RecordedOrder](r.Document)
	} else {
		v.Provider = read[RecordedAt](r.Document)
	}
	return v
}

func read[T any](b []byte) *T {
	var v T
	if json.Unmarshal(b, &v) != nil {
		return nil
	}
	return &v
}

// RecordsOf makes the views of some records.
func RecordsOf(rows []sqlcgen.TransactionRecord) []Record {
	out := make([]Record, len(rows))
	for i, r := range rows {
		out[i] = RecordOf(r)
	}
	return out
}

// recordColumns are the columns of the CSV form. Each record is one row of part "record", and a sale is followed by one row per line,
// adjustment and tax rate; sums are taken over part "record" only.
var recordColumns = []string{
	"number", "order_id", "seq", "part", "kind", "why", "corrects", "at", "currency", "sold", "received", "refunded", "payment_id", "refund_id", "gateway", "account",
	"environment", "provider_payment_id", "provider_refund_id", "reason", "sku", "name", "quantity", "unit_amount", "amount", "tax_rate", "discount", "shipping", "tax", "included_tax",
}

// RecordWriter writes records as CSV: amounts are decimals in main units, times RFC 3339 in UTC.
type RecordWriter struct {
	w     *csv.Writer
	begun bool
}

// NewRecordWriter writes to w.
func NewRecordWriter(w io.Writer) *RecordWriter { return &RecordWriter{w: csv.NewWriter(w)} }

// Write appends records; the first call writes the names of the columns.
func (c *RecordWriter) Write(records []Record) error {
	if !c.begun {
		c.begun = true
		if err := c.w.Write(recordColumns); err != nil {
			return err
		}
	}
	for _, r := range records {
		for _, row := range r.rows() {
			out := make([]string, len(recordColumns))
			for i, name := range recordColumns {
				out[i] = inert(row[name])
			}
			if err := c.w.Write(out); err != nil {
				return err
			}
		}
	}
	c.w.Flush()
	return c.w.Error()
}

// inert keeps a spreadsheet from running what a checkout wrote: a text that begins like a formula gets an apostrophe before it. Amounts of
// ours may begin with a minus.
func inert(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if strings.Trim(s[1:], "0123456789.") == "" && s[0] == '-' {
		return s
	}
	return "'" + s
}

func (r Record) rows() []map[string]string {
	dec := func(minor int64) string {
		return money.Amount{Minor: minor, Currency: money.Currency(r.Currency)}.Decimal()
	}
	maybe := func(minor *int64) string {
		if minor == nil {
			return ""
		}
		return dec(*minor)
	}
	base := func(part string) map[string]string {
		m := map[string]string{"order_id": string(r.OrderID), "seq": strconv.Itoa(int(r.Seq)), "part": part, "kind": r.Kind, "at": r.At.Format(time.RFC3339Nano), "currency": r.Currency}
		if r.Number != nil {
			m["number"] = strconv.FormatInt(*r.Number, 10)
		}
		return m
	}
	m := base("record")
	m["why"], m["payment_id"], m["refund_id"] = r.Why, r.PaymentID, r.RefundID
	m["sold"], m["received"], m["refunded"] = dec(r.Sold), dec(r.Received), dec(r.Refunded)
	if r.Corrects != nil {
		m["corrects"] = strconv.Itoa(int(*r.Corrects))
	}
	if p := r.Provider; p != nil {
		m["gateway"], m["account"], m["environment"] = p.Gateway, p.Account, p.Environment
		m["provider_payment_id"], m["provider_refund_id"], m["reason"] = p.ProviderPaymentID, p.ProviderRefundID, p.Reason
	}
	rows := []map[string]string{m}
	if r.Sale == nil {
		return rows
	}
	for _, l := range r.Sale.Lines {
		m := base("line")
		m["sku"], m["name"], m["quantity"], m["tax_rate"] = l.SKU, l.Name, strconv.Itoa(int(l.Quantity)), l.TaxRate
		m["unit_amount"], m["amount"] = dec(l.UnitAmountMinor), dec(l.AmountMinor)
		rows = append(rows, m)
	}
	for _, a := range r.Sale.Adjustments {
		m := base(a.Kind)
		m["tax_rate"], m["amount"] = a.TaxRate, dec(a.AmountMinor)
		rows = append(rows, m)
	}
	for _, b := range r.Sale.ByRate {
		m := base("rate")
		m["tax_rate"], m["amount"], m["discount"], m["shipping"] = b.TaxRate, maybe(b.LinesMinor), maybe(b.DiscountMinor), maybe(b.ShippingMinor)
		m["tax"], m["included_tax"] = maybe(b.TaxMinor), maybe(b.IncludedTaxMinor)
		rows = append(rows, m)
	}
	return rows
}
