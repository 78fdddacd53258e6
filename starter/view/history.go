package view

import (
	"slices"
	"time"

	"orderflow/store"
)

// maxHistory bounds the history of an answer. What is cut is the middle of a large order's unit lines, never its ends.
const maxHistory = 1000

// historyOf merges what moved and what was said, oldest first. An observation stands before the transitions it caused.
func historyOf(v store.View) []Event {
	out := make([]Event, 0, len(v.Transitions)+len(v.Observations))
	for i, o := range v.Observations {
		e := Event{
			At: o.ObservedAt.UTC(), Kind: "observation", Subject: "attempt", SubjectID: deref(o.AttemptID), Source: o.Source, Outcome: o.Outcome,
			ProviderStatus: o.ProviderStatus, ProviderPaymentID: o.ProviderPaymentID, ProviderRefundID: o.ProviderRefundID, OperationID: deref(o.OperationID), Code: o.Code,
			RequestID: o.RequestID, seq: i,
		}
		if o.UnitID != nil {
			e.Subject, e.SubjectID = "unit", *o.UnitID
		}
		if o.RefundID != nil {
			e.Subject, e.SubjectID = "refund", *o.RefundID
		}
		out = append(out, e)
	}
	for i, t := range v.Transitions {
		out = append(out, Event{
			At: t.At.UTC(), Kind: "transition", Subject: t.SubjectKind, SubjectID: t.SubjectID, From: t.FromStatus, To: t.ToStatus, Trigger: t.Trigger,
			DecisionID: t.DecisionID, seq: len(v.Observations) + i,
		})
	}
	slices.SortStableFunc(out, func(a, b Event) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return a.seq - b.seq
	})
	if len(out) > maxHistory {
		half := maxHistory / 2
		cut := Event{At: out[half].At, Kind: "observation", Subject: "order", Code: "history_cut"}
		out = slices.Concat(out[:half], []Event{cut}, out[len(out)-half:])
	}
	return out
}

// Age is how long ago, in the largest unit that still says something.
func Age(since, now time.Time) string {
	d := now.Sub(since)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Hour).String()
}
