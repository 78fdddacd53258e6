package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"orderflow/gateways"
	"orderflow/internal/config"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/store"
)

type reconcileCommand struct {
	Run    reconcileRunCommand    `cmd:"" help:"Compare providers' books with ours now, through Temporal. With --from and --to that stretch is read and the schedule's own place is left alone."`
	Import reconcileImportCommand `cmd:"" help:"Compare a settlement file with our books: CSV whose first line names the columns invoice_number,amount,currency,status,time and optionally payment_id."`
}

type reconcileRunCommand struct {
	Gateway string        `help:"Only this provider."`
	Account string        `help:"Only accounts of this name."`
	From    time.Time     `help:"Where to begin, as in 2026-06-05T00:00:00Z." format:"2006-01-02T15:04:05Z07:00"`
	To      time.Time     `help:"Where to end, not included; left out with --from, now." format:"2006-01-02T15:04:05Z07:00"`
	Wait    time.Duration `help:"How long to wait for the end." default:"10m"`
}

// Run starts the workflow and prints what each account's books led to.
func (r reconcileRunCommand) Run(ctx context.Context, s *streams) error {
	c, log, err := s.load()
	if err != nil {
		return err
	}
	ask := order.ReconcileAsk{Gateway: r.Gateway, Account: r.Account, From: r.From, To: r.To}
	switch {
	case ask.From.IsZero() && !ask.To.IsZero():
		return errors.New("--to needs --from")
	case !ask.From.IsZero() && ask.To.IsZero():
		ask.To = time.Now()
	}
	if !ask.From.IsZero() && !ask.From.Before(ask.To) {
		return errors.New("--from must be before --to")
	}
	en, closeClient, err := openEngine(c, log)
	if err != nil {
		return err
	}
	defer closeClient()
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	out, failed := en.Reconcile(ctx, ask)
	if err := printJSON(s.out, out); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("not everything was read, and nothing is concluded about what was not: %w", failed)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type reconcileImportCommand struct {
	Gateway string `required:"" help:"The provider that the file is from, such as twoctwop."`
	Account string `help:"Its account." default:"default"`
	Offset  string `help:"The offset from UTC of times that do not name one." default:"+07:00"`
	DryRun  bool   `help:"Only say what it would lead to."`
	File    string `arg:"" help:"The file; - reads the standard input."`
}

// importBatch is how many lines one transaction compares.
const importBatch = 200

// imported is what a file led to.
type imported struct {
	DryRun   bool `json:"dry_run"`
	Payments int  `json:"payments"`
	BadLines int  `json:"bad_lines"`
	Agreed   int  `json:"agreed"`
	Looks    int  `json:"looks"`
	Orphans  int  `json:"orphans"`
	Waiting  int  `json:"waiting"` // younger than the grace period: import the file again later
	Linked   int  `json:"linked"`
}

// Run reads the file as a stream. What it says is no fact: it leads to looks and orphans, as a provider's list does. A second import
// of the same file writes nothing.
func (i reconcileImportCommand) Run(ctx context.Context, s *streams) error {
	c, _, err := s.load()
	if err != nil {
		return err
	}
	acc, gw, err := accountOf(c, i.Gateway, i.Account)
	if err != nil {
		return err
	}
	at, err := time.Parse("-07:00", i.Offset)
	if err != nil {
		return errors.New("--offset must be like +07:00")
	}
	in := io.Reader(os.Stdin)
	if i.File != "-" {
		f, err := os.Open(i.File)
		if err != nil {
			return errors.New("the file cannot be read: check the path and its rights")
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	_, rules := c.Reconcile()
	out := imported{DryRun: i.DryRun}
	b := importer{st: st, page: store.Page{Account: acc, Rules: rules, Source: "statement", DryRun: i.DryRun}, out: &out}
	err = reconcile.ReadStatement(in, reconcile.StatementForm{Zone: at.Location(), InvoiceIsID: !gw.Capabilities().CanList},
		func(_ int, item reconcile.Item) error { return b.add(ctx, item) },
		func(line int, why string) {
			out.BadLines++
			say(s, fmt.Sprintf("line %d %s", line, why))
		})
	if err == nil {
		err = b.flush(ctx)
	}
	if err == nil && !i.DryRun {
		out.Linked, err = st.OrphansExplain(ctx, acc)
	}
	if err != nil {
		return fmt.Errorf("the import ended early and may be repeated: %w", err)
	}
	if err := printJSON(s.out, out); err != nil {
		return err
	}
	if out.BadLines > 0 {
		return exitCode(2)
	}
	return nil
}

func accountOf(c config.Config, gateway, name string) (order.Account, gateways.Gateway, error) {
	gws, err := c.OpenGateways()
	if err != nil {
		return order.Account{}, nil, err
	}
	for acc, gw := range gws {
		if acc.Gateway == gateway && acc.Name == name {
			return acc, gw, nil
		}
	}
	return order.Account{}, nil, fmt.Errorf("there is no account %q of %q: set its variables, or name one of the configuration file", name, gateway)
}

type importer struct {
	st   *store.Store
	page store.Page
	out  *imported
}

func (b *importer) add(ctx context.Context, i reconcile.Item) error {
	b.page.Items = append(b.page.Items, i)
	if len(b.page.Items) < importBatch {
		return nil
	}
	return b.flush(ctx)
}

func (b *importer) flush(ctx context.Context) error {
	if len(b.page.Items) == 0 {
		return nil
	}
	done, err := b.st.ReconcilePage(ctx, b.page)
	if err != nil {
		return err
	}
	f := done.Findings
	b.out.Payments, b.out.Agreed, b.out.Waiting = b.out.Payments+len(b.page.Items), b.out.Agreed+f.Agreed, b.out.Waiting+f.Waiting
	b.out.Looks, b.out.Orphans = b.out.Looks+len(f.Looks), b.out.Orphans+len(f.Orphans)
	b.page.Items = b.page.Items[:0]
	return nil
}
