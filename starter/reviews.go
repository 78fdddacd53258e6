package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store"
)

type reviewsCommand struct {
	Reason     string        `help:"Only reviews with this reason, such as confirm_outcome_unknown."`
	Gateway    string        `help:"Only those about this provider, issuer or receiver."`
	AssignedTo string        `help:"Only what this person has taken." xor:"assigned"`
	Unassigned bool          `help:"Only what nobody has taken." xor:"assigned"`
	Proposed   bool          `help:"Only what waits for a second person."`
	MinAge     time.Duration `help:"Only what has been open for at least this long, such as 2h."`
	JSON       bool          `help:"As JSON lines."`
}

// queued is one open review as the command line shows it.
type queued struct {
	Review      order.ReviewID       `json:"review_id"`
	Version     int64                `json:"version"`
	Reason      order.ReviewReason   `json:"reason"`
	Code        string               `json:"code,omitempty"`
	Order       string               `json:"order_id,omitempty"`
	OrderStatus order.Status         `json:"order_status,omitempty"`
	Total       string               `json:"total,omitempty"` // decimal, with its currency
	Subject     order.SubjectKind    `json:"subject"`
	SubjectID   string               `json:"subject_id"`
	Gateway     string               `json:"gateway,omitempty"`
	Owner       string               `json:"owner,omitempty"`
	AssignedTo  string               `json:"assigned_to,omitempty"`
	Proposal    string               `json:"proposal,omitempty"`
	OpenedAt    time.Time            `json:"opened_at"`
	Allowed     []order.DecisionKind `json:"allowed"`
}

// Run lists open reviews, the oldest first, page by page, so that the number of them costs no memory.
func (x reviewsCommand) Run(ctx context.Context, s *streams) error {
	c, _, err := s.load()
	if err != nil {
		return err
	}
	if r := order.ReviewReason(x.Reason); x.Reason != "" && len(order.GuidanceOf(r).Allowed) == 0 {
		return fmt.Errorf("there is no such reason: docs/runbook.md lists them")
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	filter := store.QueueFilter{
		Reason: order.ReviewReason(x.Reason), Gateway: x.Gateway, AssignedTo: x.AssignedTo, Unassigned: x.Unassigned, Proposed: x.Proposed, MinAge: x.MinAge,
	}
	w := newReviewWriter(s.out, x.JSON)
	var after store.QueueKey
	for {
		items, more, err := st.ReviewQueue(ctx, filter, after, store.MaxQueuePage)
		if err != nil {
			return err
		}
		for _, i := range items {
			if err := w.write(queuedOf(i)); err != nil {
				return err
			}
			after = i.Key()
		}
		if !more {
			return w.flush()
		}
	}
}

func queuedOf(i store.QueueItem) queued {
	r := i.Review
	q := queued{
		Review: order.ReviewID(r.ReviewID), Version: r.Version, Reason: order.ReviewReason(r.Reason), Code: r.Code, OrderStatus: i.OrderStatus,
		Subject: order.SubjectKind(r.SubjectKind), SubjectID: r.SubjectID, Gateway: r.Gateway, Owner: r.Owner, AssignedTo: r.AssignedTo,
		Proposal: i.Proposal, OpenedAt: r.OpenedAt, Allowed: order.GuidanceOf(order.ReviewReason(r.Reason)).Allowed,
	}
	if r.OrderID != nil {
		q.Order = *r.OrderID
		q.Total = money.Amount{Minor: i.TotalMinor, Currency: money.Currency(i.Currency)}.String()
	}
	return q
}

// reviewWriter writes a table for people or lines of JSON for programs.
type reviewWriter struct {
	table *tabwriter.Writer
	lines *json.Encoder
	rows  int
}

func newReviewWriter(out io.Writer, asJSON bool) *reviewWriter {
	if asJSON {
		return &reviewWriter{lines: json.NewEncoder(out)}
	}
	return &reviewWriter{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

func (w *reviewWriter) write(q queued) error {
	w.rows++
	if w.lines != nil {
		return w.lines.Encode(q)
	}
	if w.rows == 1 {
		_, _ = fmt.Fprintln(w.table, "REVIEW\tOPEN FOR\tREASON\tORDER\tTOTAL\tABOUT\tTAKEN BY\tWAITS FOR")
	}
	waits := "a decision"
	if q.Proposal != "" {
		waits = "a second person"
	}
	_, err := fmt.Fprintf(w.table, "%s\t%s\t%s\t%s\t%s\t%s %s\t%s\t%s\n", q.Review, time.Since(q.OpenedAt).Round(time.Second), q.Reason,
		dash(q.Order), dash(q.Total), q.Subject, q.SubjectID, dash(q.AssignedTo), waits)
	return err
}

func (w *reviewWriter) flush() error {
	if w.lines != nil {
		return nil
	}
	if w.rows == 0 {
		_, _ = fmt.Fprintln(w.table, "nothing waits for a person")
	}
	return w.table.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
