package api_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/starter/api"
)

// Goal: the client reads its order's records as JSON and CSV, and nobody else does. Method: the sandbox took the money. What is recorded when
// is shown in store and end to end.
func TestReadRecords(t *testing.T) {
	b := setup(t)
	b.paid("O-1")
	a := b.call("GET", pathOf("O-1")+"/records", nil)
	require.Equal(t, 200, a.status, string(a.body))
	var v api.RecordsView
	require.NoError(t, json.Unmarshal(a.body, &v))
	require.Len(t, v.Records, 2)
	receipt, sale := v.Records[0], v.Records[1]
	require.Equal(t, "receipt", receipt.Kind)
	require.EqualValues(t, 4800, receipt.Received)
	require.Equal(t, "stripe", receipt.Provider.Gateway)
	require.Equal(t, "sale", sale.Kind)
	require.EqualValues(t, 4800, sale.Sold)
	require.EqualValues(t, 2, *sale.Number)
	require.NotEmpty(t, sale.Sale.Lines[0].SKU)
	require.EqualValues(t, 4800, *sale.Sale.ByRate[0].LinesMinor)

	c := b.call("GET", pathOf("O-1")+"/records.csv", nil)
	require.Equal(t, 200, c.status, string(c.body))
	require.Contains(t, c.header.Get("Content-Type"), "text/csv")
	rows, err := csv.NewReader(strings.NewReader(string(c.body))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"number", "order_id", "seq", "part", "kind"}, rows[0][:5])
	require.Equal(t, []string{"1", "O-1", "1", "record", "receipt"}, rows[1][:5])

	for _, path := range []string{"/records", "/records.csv"} {
		require.Equal(t, "not-found", b.call("GET", pathOf("O-1")+path, nil, as(otherKey)).problem(), "another client's")
		require.Equal(t, "not-found", b.call("GET", pathOf("O-none")+path, nil).problem())
		require.Equal(t, 401, b.call("GET", pathOf("O-1")+path, nil, as("nobody's-key-0123456789abcdef")).status)
	}
}
