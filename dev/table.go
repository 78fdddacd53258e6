package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// printTable prints the orders and reports whether all of them ended as they should.
func printTable(w io.Writer, rows []row) bool {
	good := true
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "\nORDER\tPROMISE\tPAYMENT\tGOODS\tWHAT HAPPENED\tWHAT A PERSON SHOULD DO")
	for _, r := range rows {
		good = good && r.Good
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Order, r.Payment, r.Fulfillment, r.Happened, r.Todo)
	}
	_ = tw.Flush()
	return good
}

func (d *demo) printAddresses(w io.Writer) {
	_, _ = fmt.Fprintf(w, `
Temporal Web UI   %s   (open an order: its details say what it waits for and what to paste)
HTTP API          http://%s   (Authorization: Bearer %s; description at /openapi.json)
Sandbox books     %s/admin/books/stripe
`, d.temporal.UIURL, local(d.ports.API), playAPIKey, d.sandboxURL())
}
