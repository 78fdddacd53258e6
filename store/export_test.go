package store

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
)

// Goal: the export says everything that may be said, at one moment, and its page says what it says. Method: the table of kinds against the
// catalog and against docs/export.md; random lives of orders, folded from the export alone. Not covered: the command and its memory,
// which e2e tests.

// unexported are tables without a history of their own.
var unexported = []string{"api_keys", "idempotency_keys", "looks_wanted", "operators", "operator_sessions", "rate_buckets"}

func TestEveryColumnIsExportedOrWithheld(t *testing.T) {
	t.Parallel()
	e := setup(t)
	rows, err := e.owner.Query(e.ctx(), `SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name NOT LIKE 'goose%' ORDER BY 1, 2`)
	require.NoError(t, err)
	have := map[string]map[string]string{}
	for rows.Next() {
		var table, column, kind string
		require.NoError(t, rows.Scan(&table, &column, &kind))
		if have[table] == nil {
			have[table] = map[string]string{}
		}
		have[table][column] = kind
	}
	require.NoError(t, rows.Err())
	types := map[string]string{
		"text": "text", "bigint": "number", "integer": "number", "smallint": "number", "boolean": "boolean",
		"timestamp with time zone": "time", "jsonb": "object", "ARRAY": "list",
	}
	for _, k := range ExportKinds() {
		columns := have[k.Table]
		require.NotEmpty(t, columns, "table %s of kind %s", k.Table, k.Kind)
		for _, f := range k.Fields {
			require.Equal(t, types[columns[f.Name]], f.Type, "type of %s.%s", k.Table, f.Name)
			delete(columns, f.Name)
		}
		for _, c := range k.Withheld {
			require.Contains(t, columns, c, "%s withholds what is not there", k.Table)
			delete(columns, c)
		}
		require.Empty(t, columns, "columns of %s that nobody has decided about: add them to store/export_kinds.go, as fields or as withheld", k.Table)
		delete(have, k.Table)
	}
	for _, table := range unexported {
		require.Contains(t, have, table)
		delete(have, table)
	}
	require.Empty(t, have, "tables that nobody has decided about: add a kind to store/export_kinds.go")
}

// Sealed bytes and what a customer typed are never among the fields, whatever the table says.
func TestExportHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	for _, k := range ExportKinds() {
		for _, f := range k.Fields {
			for _, word := range []string{"sealed", "token", "hash", "secret", "buyer", "caller_key", "return_url", "next_action", "fingerprint"} {
				require.NotContains(t, f.Name, word, "%s.%s", k.Kind, f.Name)
			}
		}
	}
}

const exportTables = "<!-- kinds:begin -->\n"

func TestExportIsDocumented(t *testing.T) {
	t.Parallel()
	var w strings.Builder
	for _, k := range ExportKinds() {
		fmt.Fprintf(&w, "### %s\n\n%s", k.Kind, k.Means)
		if len(k.Withheld) > 0 {
			fmt.Fprintf(&w, " Left out: `%s`.", strings.Join(k.Withheld, "`, `"))
		}
		w.WriteString("\n\n| Field | Type | Means |\n|---|---|---|\n")
		for _, f := range k.Fields {
			fmt.Fprintf(&w, "| `%s` | %s | %s |\n", f.Name, f.Type, f.Means)
		}
		w.WriteString("\n")
	}
	const page = "../docs/export.md"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	before, have, found := strings.Cut(string(b), exportTables)
	require.True(t, found)
	if os.Getenv("UPDATE") == "1" {
		require.NoError(t, os.WriteFile(page, []byte(before+exportTables+"\n"+strings.TrimRight(w.String(), "\n")+"\n"), 0o644))
		return
	}
	require.Equal(t, strings.TrimSpace(w.String()), strings.TrimSpace(have), "run UPDATE=1 go test ./store -run ExportIsDocumented")
}

// exported is an export in memory.
func (e *env) exported() map[string][]map[string]any {
	e.t.Helper()
	out := map[string][]map[string]any{}
	heads := 0
	err := e.s.Export(e.ctx(), func(h ExportHead) error {
		heads++
		require.Equal(e.t, exportVersion, h.Version)
		require.False(e.t, h.TakenAt.IsZero())
		return nil
	}, func(kind string, row []byte) error {
		var v map[string]any
		require.NoError(e.t, json.Unmarshal(row, &v), "%s %s", kind, row)
		out[kind] = append(out[kind], v)
		return nil
	})
	require.NoError(e.t, err)
	require.Equal(e.t, 1, heads)
	return out
}

// foldExport replays the transitions of an export and compares them with its states, both ways.
func foldExport(t *testing.T, rows map[string][]map[string]any) {
	t.Helper()
	folded, current := map[string]any{}, map[string]any{}
	for _, r := range rows["transition"] {
		subject := fmt.Sprint(r["subject_kind"], "/", r["subject_id"])
		if before, ok := folded[subject]; ok {
			require.Equal(t, before, r["from_status"], "the log of %s has a gap", subject)
		} else {
			require.Empty(t, r["from_status"])
		}
		folded[subject] = r["to_status"]
	}
	for _, kind := range []string{"order", "attempt", "unit", "refund", "cancel"} {
		for _, r := range rows[kind] {
			current[fmt.Sprint(kind, "/", r[kind+"_id"])] = r["status"]
		}
	}
	require.Equal(t, current, folded)
}

func TestExportFoldsToTheStates(t *testing.T) {
	t.Parallel()
	e := setup(t, "mail")
	paid := e.pay(e.place("o1", grantLine(2), issueLine(2)))
	e.giveBack(paid, 100)
	e.looked(paid, 150)
	failed := e.sendRefund(paid, 50)
	e.tell(refundSent(failed, order.Declined))
	for i, u := range e.unitIDs("o1") {
		if e.unit(u).Action == "issue" {
			require.True(t, e.claimUnit(u, "o1", 1))
			e.issuer(u, "o1", 1, []order.Outcome{order.Issued, order.Unknown}[i%2])
		}
	}
	e.place("o2", grantLine(1))
	e.lapse("o2")
	_, err := e.s.OrderExpire(e.ctx(), "o2")
	require.NoError(t, err)
	unknown := e.open(e.place("o3", grantLine(1)), "pay-o3")
	_, err = e.s.AttemptUnresolved(e.ctx(), idOf(unknown), "code")
	require.NoError(t, err)
	r := e.decide(decision(e.review(unknown.AttemptID), order.DecideCloseWithEvidence))
	require.Equal(t, order.Applied, r.Verdict, r.Why)

	rows := e.exported()
	foldExport(t, rows)
	require.Len(t, rows["order"], 3)
	require.Len(t, rows["decision"], 1)
	require.Len(t, rows["refund"], 2)
	require.Equal(t, e.count("SELECT count(*) FROM observations"), int64(len(rows["observation"])))
	require.True(t, slices.IsSortedFunc(rows["transition"], func(a, b map[string]any) int { return int(a["transition_id"].(float64) - b["transition_id"].(float64)) }))
	require.Contains(t, rows["order"][0]["created_at"], "+00:00", "one zone, whatever the session's")
}

// What commits while an export runs is not in it: the rows refer to each other.
func TestExportIsOneMoment(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.pay(e.place("o1", grantLine(1)))
	seen := map[string]int{}
	require.NoError(t, e.s.Export(e.ctx(), func(ExportHead) error {
		e.pay(e.place("o2", grantLine(1)))
		return nil
	}, func(kind string, _ []byte) error {
		seen[kind]++
		return nil
	}))
	require.Equal(t, 1, seen["order"])
	require.Equal(t, 1, seen["payment"])
	require.Equal(t, 1, seen["attempt"])
	require.Equal(t, order.OrderPaid, e.status("o2"))
}
