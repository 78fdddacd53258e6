package view

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/store/sqlcgen"
)

// A spreadsheet must not run what a checkout wrote, and must not be shown another amount than the record's.
func TestRecordsAsCSV(t *testing.T) {
	t.Parallel()
	number, corrects := int64(7), int32(1)
	var b strings.Builder
	w := NewRecordWriter(&b)
	require.NoError(t, w.Write(RecordsOf([]sqlcgen.TransactionRecord{
		{OrderID: "=HYPERLINK(1)", Number: &number, Seq: 1, Kind: "sale", Currency: "THB", SoldMinor: 8050, At: time.Unix(0, 0), Document: []byte(
			`{"total_minor":8050,"lines":[{"no":1,"sku":"@SUM(A1)","name":"+1, \"x\"\nline","quantity":3,"unit_amount_minor":2700,"amount_minor":8100,"tax_rate":"7"}],` +
				`"adjustments":[{"kind":"discount","tax_rate":"7","amount_minor":-50}],"by_rate":[{"tax_rate":"7","lines_minor":8100,"discount_minor":-50,"shipping_minor":null,"tax_minor":null,"included_tax_minor":527}]}`)},
	})))
	require.NoError(t, w.Write(RecordsOf([]sqlcgen.TransactionRecord{
		{OrderID: "o", Seq: 2, Kind: "correction", Why: "refund_undone", CorrectsSeq: &corrects, Currency: "THB", RefundedMinor: -5, At: time.Unix(0, 0), Document: []byte(`{"gateway":"omise","reason":"-2+3"}`)},
	})))
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 6, "names of columns, a sale with a line, a discount and a rate, a correction")
	at := func(row int, column string) string {
		for i, name := range rows[0] {
			if name == column {
				return rows[row][i]
			}
		}
		t.Fatalf("no column %s", column)
		return ""
	}
	require.Equal(t, "'=HYPERLINK(1)", at(1, "order_id"))
	require.Equal(t, "80.50", at(1, "sold"))
	require.Equal(t, "7", at(1, "number"))
	require.Equal(t, "'@SUM(A1)", at(2, "sku"))
	require.Equal(t, "'+1, \"x\"\nline", at(2, "name"))
	require.Equal(t, "27.00", at(2, "unit_amount"))
	require.Equal(t, "discount", at(3, "part"))
	require.Equal(t, "-0.50", at(3, "amount"))
	require.Equal(t, "5.27", at(4, "included_tax"))
	require.Empty(t, at(4, "tax"), "not stated is not zero")
	require.Equal(t, "-0.05", at(5, "refunded"))
	require.Equal(t, "'-2+3", at(5, "reason"))
	require.Equal(t, "1", at(5, "corrects"))
	require.Empty(t, at(5, "number"))
}
