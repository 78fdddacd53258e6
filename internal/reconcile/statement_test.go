package reconcile

// Goal: every line of a settlement file is either a payment or reported by its number; one that is broken takes no other with it.
// Method: files written line by line, and random damage. Not covered: what a payment leads to.

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/order"
)

type read struct {
	items map[int]Item
	bad   map[int]string
}

func readAll(t require.TestingT, text string, form StatementForm) read {
	out := read{map[int]Item{}, map[int]string{}}
	require.NoError(t, ReadStatement(strings.NewReader(text), form,
		func(n int, i Item) error { out.items[n] = i; return nil }, func(n int, why string) { out.bad[n] = why }))
	return out
}

func TestStatementReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	bangkok := time.FixedZone("+07:00", 7*60*60)
	r := readAll(t, "\xef\xbb\xbfTime,status,amount,note,currency,invoice_number\r\n"+
		"2026-06-05 16:58:18,S,1500.50,\"a, b\",THB,OF1\r\n\r\n"+
		"2026-06-05T16:58:18+09:00,PF,1500,x,jpy,OF2\n"+
		"2026-06-05 16:58:18,RF,000000001500.00000,x,THB,OF3", StatementForm{Zone: bangkok, InvoiceIsID: true})
	require.Empty(t, r.bad)
	require.Equal(t, map[int]Item{
		2: {"OF1", "OF1", order.Succeeded, "THB", 150050, 150050, 0, "", time.Date(2026, 6, 5, 16, 58, 18, 0, bangkok)},
		4: {"OF2", "OF2", order.Declined, "JPY", 1500, 0, 0, "", r.items[4].At},
		5: {"OF3", "OF3", order.Unknown, "THB", 150000, 0, 0, "", r.items[5].At},
	}, r.items)
	require.True(t, r.items[4].At.Equal(time.Date(2026, 6, 5, 7, 58, 18, 0, time.UTC)))
}

func TestStatementReportsBadLines(t *testing.T) {
	t.Parallel()
	const head = "invoice_number,amount,currency,status,time\n"
	const good = "OF1,10.00,THB,S,2026-06-05 16:58:18\n"
	for line, why := range map[string]string{
		"OF1,10.00,THB,S": "has 4 fields where the first line has 5", ",10.00,THB,S,2026-06-05 16:58:18": "invoice_number must be",
		"O F,10.00,THB,S,2026-06-05 16:58:18": "invoice_number must be", "OF1,10.001,THB,S,2026-06-05 16:58:18": "amount must be",
		"OF1,-1,THB,S,2026-06-05 16:58:18": "amount must be", "OF1,1e3,THB,S,2026-06-05 16:58:18": "amount must be", "OF1,10,XXY,S,2026-06-05 16:58:18": "currency must be",
		"OF1,10,THB,,2026-06-05 16:58:18": "status is empty", "OF1,10,THB,S,yesterday": "time must be",
		`OF1,"10,THB,S,2026-06-05 16:58:18`: "is no line of comma-separated values", strings.Repeat("x", 70_000): "is longer than",
	} {
		r := readAll(t, head+good+line+"\n"+good, StatementForm{})
		require.Len(t, r.items, 2, line)
		require.Contains(t, r.items, 4)
		require.Len(t, r.bad, 1, line)
		require.Contains(t, r.bad[3], why)
	}
	for _, text := range []string{"", "\n", good, "invoice_number,amount,currency,status\n", "invoice_number,amount,amount,currency,status,time\n", "\"\n"} {
		err := ReadStatement(strings.NewReader(text), StatementForm{}, func(int, Item) error { return nil }, func(int, string) {})
		require.ErrorContains(t, err, "the first line must name the columns", text)
	}
}

// Damage of some lines: the count of payments and reports is the count of lines, and the undamaged ones are all there.
func TestStatementLosesNoLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		b.WriteString("invoice_number,amount,currency,status,time\n")
		n := rapid.IntRange(0, 20).Draw(t, "lines")
		whole := map[int]bool{}
		for i := range n {
			line := fmt.Sprintf("OF%d,10.00,THB,S,2026-06-05 16:58:18", i)
			if rapid.IntRange(0, 2).Draw(t, "damage") == 0 {
				at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
				line = line[:at] + rapid.SampledFrom([]string{`"`, ",", "\x00", "é", "''"}).Draw(t, "with") + line[at:]
			} else {
				whole[i+2] = true
			}
			b.WriteString(line + "\n")
		}
		r := readAll(t, b.String(), StatementForm{})
		require.Equal(t, n, len(r.items)+len(r.bad))
		for line := range whole {
			require.Contains(t, r.items, line)
		}
	})
}
