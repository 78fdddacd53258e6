package view

import (
	"encoding/json"
	"time"

	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// ReviewDetail is one review with the evidence there is.
type ReviewDetail struct {
	Review
	OrderID   string        `json:"order_id,omitempty"`
	Orphan    *Orphan       `json:"orphan,omitempty" doc:"for a payment that no order explains"`
	Proposal  *Proposal     `json:"proposal,omitempty" doc:"a decision that waits for a second person"`
	Evidence  []Event       `json:"evidence" doc:"what the other side said about it, oldest first"`
	Decisions []DecisionRow `json:"decisions"`
	Audit     []AuditRow    `json:"audit" doc:"refusals and assignments, newest first"`
}

// Orphan is a payment at a provider as notices and lists tell of it.
type Orphan struct {
	Gateway           string     `json:"gateway"`
	Account           string     `json:"account"`
	Environment       string     `json:"environment"`
	ProviderPaymentID string     `json:"provider_payment_id,omitempty"`
	MerchantReference string     `json:"merchant_reference,omitempty"`
	Currency          string     `json:"currency,omitempty"`
	Captured          int64      `json:"captured,omitempty" doc:"minor units; missing where it is not known"`
	FirstSeenAt       time.Time  `json:"first_seen_at"`
	ProviderAt        *time.Time `json:"provider_at,omitempty"`
}

// Proposal is a decision that waits for a second person.
type Proposal struct {
	ID           string         `json:"id" doc:"for approves"`
	Decision     string         `json:"decision"`
	Actor        string         `json:"actor"`
	ActorClaimed bool           `json:"actor_claimed" doc:"true when nobody checked who the actor is"`
	Channel      string         `json:"channel"`
	Reason       string         `json:"reason"`
	Evidence     order.Evidence `json:"evidence"`
	Amount       int64          `json:"amount,omitempty" doc:"of a refund, in minor units; missing = all that is left"`
	At           time.Time      `json:"at"`
}

// AuditRow is an act that left no row elsewhere.
type AuditRow struct {
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Channel string          `json:"channel"`
	Act     string          `json:"act"`
	Detail  json.RawMessage `json:"detail"`
}

// ReviewDetailOf makes the view of a review's file.
func ReviewDetailOf(f store.ReviewFile) ReviewDetail {
	d := ReviewDetail{
		Review: ReviewOf(f.Review), OrderID: deref(f.Review.OrderID), Evidence: historyOf(store.View{Observations: f.Observations}),
		Decisions: decisionsOf(f.Decisions), Audit: []AuditRow{},
	}
	if o := f.Orphan; o != nil {
		d.Orphan = &Orphan{
			Gateway: o.Gateway, Account: o.Account, Environment: o.Environment, ProviderPaymentID: o.ProviderPaymentID, MerchantReference: o.MerchantReference,
			Currency: o.Currency, Captured: o.CapturedMinor, FirstSeenAt: o.FirstSeenAt.UTC(), ProviderAt: utc(o.ProviderAt),
		}
	}
	if p := f.Open(); p != nil {
		d.Proposal = ProposalOf(*p)
	}
	for _, a := range f.Audit {
		d.Audit = append(d.Audit, AuditRow{At: a.At.UTC(), Actor: a.Actor, Channel: a.Channel, Act: a.Act, Detail: a.Detail})
	}
	return d
}

func decisionsOf(rows []sqlcgen.ReviewDecision) []DecisionRow {
	out := make([]DecisionRow, len(rows))
	for i, d := range rows {
		out[i] = DecisionRow{
			ID: d.DecisionID, ReviewID: d.ReviewID, Decision: d.Decision, Actor: d.Actor, ActorRole: d.ActorRole, ActorClaimed: d.ActorClaimed,
			Channel: d.Channel, Reason: d.Reason, Evidence: d.Evidence, Before: d.Before, After: d.After, OperationID: d.OperationID,
			Approver: d.Approver, ApprovalNote: d.ApproverReason, At: d.At.UTC(),
		}
	}
	return out
}

// ProposalOf makes the view of one proposal.
func ProposalOf(p sqlcgen.DecisionProposal) *Proposal {
	out := &Proposal{ID: p.DecisionID, Decision: p.Decision, Actor: p.Actor, ActorClaimed: p.ActorClaimed, Channel: p.Channel, At: p.At.UTC()}
	var d order.Decision
	if json.Unmarshal(p.Content, &d) == nil {
		out.Reason, out.Evidence, out.Amount = d.Reason, d.Evidence, d.AmountMinor
	}
	return out
}

// Figures are the four that say how much is unresolved, and since when.
type Figures struct {
	PaidNotProvided Figure    `json:"paid_not_provided" doc:"orders whose money is held and whose goods are owed"`
	Unknown         Figure    `json:"unknown" doc:"payments, goods and refunds of which nobody knows what became"`
	OldestUnknown   *Oldest   `json:"oldest_unknown,omitempty"`
	Orphans         Figure    `json:"orphans" doc:"payments at providers that no order explains"`
	Failures        []Failing `json:"failures" doc:"what keeps failing, by who answers for it"`
}

// Figure is a number with its oldest.
type Figure struct {
	Count  int64      `json:"count"`
	Oldest *time.Time `json:"oldest,omitempty"`
}

// Oldest is what has been unknown for longest.
type Oldest struct {
	SubjectKind string         `json:"subject_kind"`
	SubjectID   string         `json:"subject_id"`
	OrderID     order.ID       `json:"order_id"`
	Since       time.Time      `json:"since"`
	ReviewID    order.ReviewID `json:"review_id,omitempty" doc:"missing while it is still being looked up"`
}

// Failing is what keeps failing of one group and person.
type Failing struct {
	Owner      string    `json:"owner"`
	AssignedTo string    `json:"assigned_to,omitempty"`
	Count      int64     `json:"count"`
	Oldest     time.Time `json:"oldest"`
}

// FiguresOf makes the view of the four figures.
func FiguresOf(f store.Figures) Figures {
	out := Figures{
		PaidNotProvided: Figure{f.PaidNotProvided, utc(f.PaidOldest)}, Unknown: Figure{Count: f.Unknown}, Orphans: Figure{f.Orphans, utc(f.OrphansOldest)},
		Failures: []Failing{},
	}
	if o := f.OldestUnknown; o != nil {
		since := o.Since.UTC()
		out.Unknown.Oldest = &since
		out.OldestUnknown = &Oldest{SubjectKind: string(o.Subject), SubjectID: o.SubjectID, OrderID: o.Order, Since: since, ReviewID: o.Review}
	}
	for _, x := range f.Failures {
		out.Failures = append(out.Failures, Failing{x.Owner, x.AssignedTo, x.Count, x.Oldest.UTC()})
	}
	return out
}
