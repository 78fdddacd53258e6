package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
)

// providerNames are how people write the gateways' names.
var providerNames = map[string]string{"stripe": "Stripe", "omise": "Omise", "twoctwop": "2C2P", "toss": "Toss"}

// printTable prints the orders and reports whether all of them ended as they should. What a person should do comes last:
// it can be an address, and is as long as it likes there.
func printTable(w io.Writer, rows []row) bool {
	good := true
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "\nORDER\tPAID AT\tPROMISE\tPAYMENT\tGOODS\tWHAT HAPPENED\tWHAT A PERSON SHOULD DO")
	for _, r := range rows {
		good = good && r.Good
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Paid, r.Order, r.Payment, r.Fulfillment, r.Happened, r.Todo)
	}
	_ = tw.Flush()
	return good
}

func (d *demo) printAddresses(w io.Writer) {
	_, _ = fmt.Fprintf(w, `
Be the buyer      open an address of the last column and press its button: the order completes
An order's page   %s/orders/ORDER   (where the buyer comes back to)
Operator page     http://%s/operator   (login %s, password %s)
Temporal Web UI   %s   (open an order: its details say what it waits for and what to paste)
HTTP API          http://%s   (Authorization: Bearer %s; description at /openapi.json)
Command line      . %s && %s reviews   (the settings of this demo, for the shell they are read into)
Sandbox           %s/admin/books/{stripe,omise,twoctwop,toss,issuers,receiver}, webhooks at /admin/notices
`, d.shopURL, local(d.ports.API), demoLogin, d.password, d.temporal.UIURL, local(d.ports.API), playAPIKey, d.envFile, filepath.Join(d.bin, "starter"), d.sandboxURL())
}
