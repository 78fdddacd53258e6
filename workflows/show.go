package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"orderflow/activities"
	"orderflow/order"
)

var (
	keyStatus = temporal.NewSearchAttributeKeyKeyword(order.AttributeOrderStatus)
	keyReason = temporal.NewSearchAttributeKeyKeyword(order.AttributeReviewReason)
	keySince  = temporal.NewSearchAttributeKeyTime(order.AttributeReviewSince)
)

// shown is what the search attributes say now.
type shown struct {
	status string
	reason string
}

// upsert keeps the search attributes true, in one event, and only when something changed. They are a view: nothing is
// decided by them.
func (w *orderRun) upsert(ctx workflow.Context) {
	if !w.facts.Attributes {
		return
	}
	now := shown{status: string(w.facts.Status)}
	var since time.Time
	if len(w.facts.Reviews) > 0 {
		now.status, now.reason, since = "review", string(w.facts.Reviews[0].Reason), w.facts.Reviews[0].OpenedAt
	}
	if now == w.shown {
		return
	}
	ups := []temporal.SearchAttributeUpdate{keyStatus.ValueSet(now.status)}
	switch {
	case now.reason != "":
		ups = append(ups, keyReason.ValueSet(now.reason), keySince.ValueSet(since))
	case w.shown.reason != "":
		ups = append(ups, keyReason.ValueUnset(), keySince.ValueUnset())
	}
	w.shown = now
	if err := workflow.UpsertTypedSearchAttributes(ctx, ups...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not updated", "error", err)
	}
}

// show writes the order's page in the Web UI: where it stands, what it waits for, who owns it, and what to paste.
func (w *orderRun) show(ctx workflow.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "**Order** %s  \n**Payment** %s  \n**Fulfillment** %s\n", w.facts.Status, w.paymentLine(), unitsLine(w.facts.UnitCounts))
	if h := w.facts.Hold; h != order.HoldNone {
		fmt.Fprintf(&b, "  \n**Waits** %s", h.Means())
	}
	for _, r := range w.facts.Refunds {
		fmt.Fprintf(&b, "  \n**Refund** %s (%s)", w.refundStatusOf(r.ID, r.Status), r.ID)
	}
	for _, r := range w.facts.Reviews {
		b.WriteString(reviewText(r))
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

func (w *orderRun) paymentLine() string {
	if len(w.facts.Attempts) == 0 {
		return "no open attempt"
	}
	parts := make([]string, len(w.facts.Attempts))
	for i, a := range w.facts.Attempts {
		parts[i] = fmt.Sprintf("%s by %s (%s)", w.statusOf(a.ID, a.Status), a.Gateway, a.ID)
	}
	return strings.Join(parts, ", ")
}

func unitsLine(counts map[order.Status]int64) string {
	var parts []string
	for _, s := range order.UnitStatuses {
		if n := counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "nothing planned yet"
	}
	return strings.Join(parts, ", ")
}

// reviewText is one open review with everything needed to decide it.
func reviewText(r activities.ReviewHead) string {
	g := order.GuidanceOf(r.Reason)
	owner := r.Owner
	if owner == "" {
		owner = "nobody yet"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n---\n### Waits for a person: %s\n%s  \nSubject %s %s, open since %s, owner: %s\n\n",
		r.Reason, g.Means, r.SubjectKind, r.SubjectID, r.OpenedAt.UTC().Format(time.RFC3339), owner)
	for _, f := range g.Forbidden {
		fmt.Fprintf(&b, "- forbidden: %s\n", f)
	}
	fmt.Fprintf(&b, "\nSend the update `%s` (or the signal `%s`) with one of:\n", order.UpdateResolveReview, order.SignalDecision)
	for _, d := range g.Allowed {
		fmt.Fprintf(&b, "\n**%s**: %s\n\n```json\n%s\n```\n", d, d.Meaning(), template(r, d))
	}
	return b.String()
}

// template is the JSON to paste: the fields to fill say what is wanted.
func template(r activities.ReviewHead, d order.DecisionKind) string {
	dec := order.Decision{ReviewID: r.ID, ReviewVersion: r.Version, Decision: d, Actor: "your name", Reason: "why"}
	reference, proof := d.Needs(r.Reason)
	if reference {
		dec.Evidence.Reference = referenceHint(d)
	}
	if proof {
		dec.Evidence.Proof = "what was looked at, and where"
	}
	j, err := json.MarshalIndent(dec, "", "  ")
	if err != nil {
		return ""
	}
	return string(j)
}

// referenceHint says whose id a decision's reference is.
func referenceHint(d order.DecisionKind) string {
	switch d {
	case order.DecideConfirmProvided:
		return "the issuer's reference"
	case order.DecideConfirmRefunded:
		return "the provider's id of the refund"
	case order.DecideLinkPayment:
		return "the provider's id of the payment"
	}
	return "the reference of the other payment"
}

// State is the answer to the state query.
type State struct {
	OrderID order.ID                         `json:"order_id"`
	Status  order.Status                     `json:"status"`
	Facts   activities.Snapshot              `json:"facts"`
	Settled map[order.AttemptID]order.Status `json:"settled"`
	Seen    int64                            `json:"work_seen"`
}

func (w *orderRun) state() (State, error) {
	return State{OrderID: w.id, Status: w.facts.Status, Facts: w.facts.Snapshot, Settled: w.settled, Seen: w.seen}, nil
}
