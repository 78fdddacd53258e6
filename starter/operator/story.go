package operator

import (
	"encoding/json"
	"slices"
	"time"

	"orderflow/order"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// told is one line of a story.
type told struct {
	At      time.Time
	Kind    string // "observation", "transition", "decision", "proposal" or "act"
	What    string
	Who     string
	Details []detail
}

type detail struct {
	Label string // a key; "" = none
	Text  string
	Code  bool
}

func (t *told) add(label, text string, code bool) {
	if text != "" {
		t.Details = append(t.Details, detail{label, text, code})
	}
}

// story is what happened to an order, the oldest first: what others said, what moved, what people decided and were refused. What moved
// in one moment by one decision stands behind it.
func (s *screen) story(o view.Order, files []store.ReviewFile) []told {
	out := make([]told, 0, len(o.History)+len(o.Decisions))
	for _, d := range o.Decisions {
		out = append(out, s.decidedRow(d))
	}
	for _, e := range o.History {
		out = append(out, s.happened(e))
	}
	for _, f := range files {
		out = append(out, s.acts(f)...)
	}
	slices.SortStableFunc(out, func(a, b told) int { return a.At.Compare(b.At) })
	return out
}

func (s *screen) happened(e view.Event) told {
	t := told{At: e.At, Kind: e.Kind}
	if e.Code == "history_cut" {
		t.What = s.T("story.cut")
		return t
	}
	subject := s.Word("subject", e.Subject)
	if e.Kind == "transition" {
		from := s.T("story.begin")
		if e.From != "" {
			from = s.Word("status", e.From)
		}
		t.What = s.T("story.moved", subject, from, s.Word("status", e.To))
		t.Who = s.Word("trigger", e.Trigger)
		if e.Subject != "order" {
			t.add("", e.SubjectID, true)
		}
		t.add("story.bydecision", e.DecisionID, true)
		return t
	}
	t.What = s.T("story.said", subject, s.Word("outcome", e.Outcome))
	t.Who = s.Word("source", e.Source)
	t.add("story.code", e.Code, true)
	t.add("story.status", e.ProviderStatus, true)
	t.add("id.payment", e.ProviderPaymentID, true)
	t.add("id.refund", e.ProviderRefundID, true)
	t.add("id.operation", e.OperationID, true)
	t.add("story.request", e.RequestID, true)
	return t
}

func (s *screen) decidedRow(d view.DecisionRow) told {
	t := told{At: d.At, Kind: "decision", What: s.Word("decision", d.Decision), Who: d.Actor + " (" + s.Word("channel", d.Channel) + ")"}
	if d.ActorClaimed {
		t.Who += " " + s.T("audit.claimed")
	}
	t.add("evidence.reason", d.Reason, false)
	s.evidence(&t, d.Evidence)
	t.add("audit.second", d.Approver, false)
	t.add("story.second", d.ApprovalNote, false)
	t.add("story.id", d.ID, true)
	return t
}

func (s *screen) evidence(t *told, raw []byte) {
	var e order.Evidence
	if json.Unmarshal(raw, &e) == nil {
		t.add("evidence.reference", e.Reference, false)
		t.add("evidence.proof", e.Proof, false)
	}
}

func (s *screen) decided(d sqlcgen.ReviewDecision) told {
	return s.decidedRow(view.DecisionRow{
		ID: d.DecisionID, Decision: d.Decision, Actor: d.Actor, ActorClaimed: d.ActorClaimed, Channel: d.Channel, Reason: d.Reason, Evidence: d.Evidence, At: d.At,
		Approver: d.Approver, ApprovalNote: d.ApproverReason,
	})
}

// acts are proposals, assignments and refusals of one review.
func (s *screen) acts(f store.ReviewFile) []told {
	var out []told
	for _, p := range f.Proposals {
		t := told{At: p.At, Kind: "proposal", What: s.Word("decision", p.Decision), Who: p.Actor + " (" + s.Word("channel", p.Channel) + ")"}
		t.add("story.state", s.Word("proposal", p.Status), false)
		out = append(out, t)
	}
	for _, a := range f.Audit {
		t := told{At: a.At, Kind: "act", What: s.Word("act", a.Act), Who: a.Actor + " (" + s.Word("channel", a.Channel) + ")"}
		var x struct{ Decision, Why, To string }
		if json.Unmarshal(a.Detail, &x) == nil {
			if x.Decision != "" {
				t.add("", s.Word("decision", x.Decision), false)
			}
			if x.Why != "" {
				t.add("", s.Word("why", x.Why), false)
			}
			t.add("review.taken", x.To, false)
		}
		out = append(out, t)
	}
	return out
}
