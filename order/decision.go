package order

import (
	"strings"

	"orderflow/internal/cleantext"
	"orderflow/internal/money"
)

// DecisionKind is what a person may decide. There is no "retry everything".
type DecisionKind string

// The decisions.
const (
	DecideRequeryPayment    DecisionKind = "requery_payment"    // ask the provider again, now
	DecideRestoreReflection DecisionKind = "restore_reflection" // write the confirmed fact into the order again
	DecideRequeryIssuance   DecisionKind = "requery_issuance"   // ask the issuer again, now
	DecideRerunUnit         DecisionKind = "rerun_unit"         // issue again: only with evidence that it was not provided
	DecideConfirmProvided   DecisionKind = "confirm_provided"   // it was provided: the issuer's reference is the evidence
	DecideConfirmRefunded   DecisionKind = "confirm_refunded"   // the money went back: the provider's reference is the evidence
	DecideCloseWithEvidence DecisionKind = "close_with_evidence"
	DecideRefund            DecisionKind = "refund"
	DecideLinkPayment       DecisionKind = "link_payment"
	DecideRecordExternal    DecisionKind = "record_external_payment"
)

// Meaning says in a few words what a decision does.
func (d DecisionKind) Meaning() string {
	switch d {
	case DecideRequeryPayment:
		return "ask the provider again, now"
	case DecideRestoreReflection:
		return "try to write the confirmed fact into the order again"
	case DecideRequeryIssuance:
		return "ask the issuer again, now"
	case DecideRerunUnit:
		return "issue again, with proof that nothing was provided"
	case DecideConfirmProvided:
		return "it was provided; the issuer's reference is the evidence"
	case DecideConfirmRefunded:
		return "the money went back; the provider's reference is the evidence"
	case DecideCloseWithEvidence:
		return "end this review, with proof of what was found"
	case DecideRefund:
		return "give the money back"
	case DecideLinkPayment:
		return "say which attempt the payment belongs to"
	case DecideRecordExternal:
		return "the order was paid by other means"
	}
	return "unknown decision"
}

// Asks tells decisions that only have something looked at or tried again from those that settle a review.
func (d DecisionKind) Asks() bool {
	switch d {
	case DecideRequeryPayment, DecideRequeryIssuance, DecideRestoreReflection:
		return true
	}
	return false
}

// DecisionKinds lists every decision, for exhaustive tests.
var DecisionKinds = []DecisionKind{
	DecideRequeryPayment, DecideRestoreReflection, DecideRequeryIssuance, DecideRerunUnit, DecideConfirmProvided,
	DecideConfirmRefunded, DecideCloseWithEvidence, DecideRefund, DecideLinkPayment, DecideRecordExternal,
}

// Evidence is what a decision rests on. Reference is the other side's id (an issuance, a charge); Proof says in words what
// was looked at ("issuer support confirmed by ticket 4711 that nothing was issued").
type Evidence struct {
	Reference string `json:"reference,omitempty"`
	Proof     string `json:"proof,omitempty"`
}

// Needs says which evidence a decision about a review of this reason rests on: without it the rule refuses, so every door that asks
// a person asks for it.
func (d DecisionKind) Needs(r ReviewReason) (reference, proof bool) {
	switch d {
	case DecideConfirmProvided, DecideConfirmRefunded:
		return true, false
	case DecideRerunUnit, DecideRefund, DecideCloseWithEvidence:
		return false, true
	case DecideLinkPayment, DecideRecordExternal:
		return true, true
	case DecideRestoreReflection:
		return false, r == ReviewLatePayment // keeping the promise after all; elsewhere it only writes again what is confirmed
	}
	return false, false
}

// Role is what a person may do. Each role may do all that the one before it may.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleOperator Role = "operator" // takes reviews and decides them; proposes where a second person is needed
	RoleApprover Role = "approver" // is the second person: makes other people's proposals effective
)

// Roles lists every role, the least first.
var Roles = []Role{RoleViewer, RoleOperator, RoleApprover}

// Reads reports whether the role may see reviews.
func (r Role) Reads() bool { return r == RoleViewer || r.Decides() }

// Decides reports whether the role may take and decide reviews.
func (r Role) Decides() bool { return r == RoleOperator || r.Approves() }

// Approves reports whether the role may be the second person.
func (r Role) Approves() bool { return r == RoleApprover }

// Channel is the door a decision came through.
type Channel string

// The channels.
const (
	ChannelAPI            Channel = "api"
	ChannelPage           Channel = "page"
	ChannelCommandLine    Channel = "command_line"
	ChannelTemporalUpdate Channel = "temporal_update"
	ChannelTemporalSignal Channel = "temporal_signal"
)

// Channels lists every channel.
var Channels = []Channel{ChannelAPI, ChannelPage, ChannelCommandLine, ChannelTemporalUpdate, ChannelTemporalSignal}

// Temporal reports whether the decision was typed in Temporal, where nobody checks who the actor is.
func (c Channel) Temporal() bool { return c == ChannelTemporalUpdate || c == ChannelTemporalSignal }

// Actor is who decides, as far as the door knows.
type Actor struct {
	Name          string // what the audit shows: a login, an API key's name, or what somebody typed
	Person        string // the human behind the name, where a login or a key tells; empty = the name itself
	Role          Role
	Channel       Channel
	Authenticated bool // a login or a key proved the name; otherwise it is only claimed
}

// Same reports whether two actors are one person, by all that is known of them: letter case and spaces tell nobody apart.
func (a Actor) Same(b Actor) bool {
	for _, x := range []string{a.Name, a.Person} {
		for _, y := range []string{b.Name, b.Person} {
			if fold(x) != "" && fold(x) == fold(y) {
				return true
			}
		}
	}
	return false
}

func fold(name string) string { return strings.Join(strings.Fields(strings.ToLower(name)), " ") }

// DecisionRules are how an installation lets people decide. The zero value is the strict one about second persons.
type DecisionRules struct {
	OnePerson bool         // what moves money or is forced is effective without a second person
	Temporal  TemporalRule // what a decision typed in Temporal may do; "" = TemporalDecides
}

// TemporalRule is what a decision typed in Temporal, whose actor is only claimed, may do.
type TemporalRule string

// The rules for Temporal.
const (
	TemporalDecides  TemporalRule = "decide"  // as an operator's, and never as the second person's
	TemporalProposes TemporalRule = "propose" // nothing without a second person
	TemporalRefused  TemporalRule = "refuse"  // nothing
)

// Decision is the one struct of every door: API, page, command line, Temporal update and signal carry the same JSON.
//
// Approves makes it the second person's word on a stored proposal: the decision, its evidence and its effect are the proposal's, and
// Reason is the second person's own.
type Decision struct {
	ReviewID      ReviewID     `json:"review_id"`
	ReviewVersion int64        `json:"review_version,omitempty"` // 0 = whatever is current; a stale one is refused
	DecisionID    string       `json:"decision_id,omitempty"`    // empty = made from the content, so a repeat is the same decision
	Decision      DecisionKind `json:"decision"`
	Actor         string       `json:"actor"` // where a login or a key tells who it is, that name replaces it
	Reason        string       `json:"reason"`
	Evidence      Evidence     `json:"evidence"`
	AmountMinor   int64        `json:"amount_minor,omitempty"` // for refund, in minor units; 0 = all that is left
	AttemptID     AttemptID    `json:"attempt_id,omitempty"`   // for link_payment: whose payment it is
	Approves      string       `json:"approves,omitempty"`     // the id of the proposed decision that this one makes effective
}

// Shape checks what can be checked without the facts. Temporal's validators call it; the store calls it again.
func (d Decision) Shape() string {
	switch {
	case d.ReviewID == "":
		return "review_id_missing"
	case d.Decision == "":
		return "decision_missing"
	case d.Actor == "":
		return "actor_missing"
	case d.Reason == "":
		return "reason_missing"
	case len(d.DecisionID) > 200, len(d.Actor) > 200, len(d.Reason) > 4000, len(d.Evidence.Reference) > 1000, len(d.Evidence.Proof) > 4000,
		len(d.Approves) > 200, len(d.AttemptID) > 200:
		return "too_long"
	case d.AmountMinor < 0, d.AmountMinor > MaxMinor:
		return "amount_out_of_range"
	}
	for _, text := range []string{d.Actor, d.Reason, d.Evidence.Reference, d.Evidence.Proof} {
		if cleantext.LooksLikeCard(text) {
			return "looks_like_card_number"
		}
	}
	return ""
}

// NeedsSecond reports whether a decision is effective only with a second person, where the rules ask for one: it moves money, or
// forces what no answer of the other side supports.
func (d DecisionKind) NeedsSecond() bool {
	switch d {
	case DecideRefund, DecideRerunUnit, DecideRecordExternal:
		return true
	}
	return false
}

// second reports whether a first person's decision is only a proposal.
func (r DecisionRules) second(d DecisionKind, by Actor) bool {
	return (!r.OnePerson && d.NeedsSecond()) || (by.Channel.Temporal() && r.Temporal == TemporalProposes)
}

// RefundWord is the refund's reason, where a person decides it about a review.
func (r ReviewReason) RefundWord() string {
	switch r {
	case ReviewExtraPayment:
		return "duplicate"
	case ReviewLatePayment:
		return "not_provided"
	}
	return "other"
}

// mayDecide checks who decides before what is decided.
func (t Trigger) mayDecide() string {
	switch by := t.By; {
	case !by.Role.Decides():
		return "role_too_low"
	case by.Channel.Temporal() && t.Rules.Temporal == TemporalRefused:
		return "channel_closed"
	}
	a := t.Approver
	switch {
	case a == nil:
		return ""
	case !a.Role.Approves():
		return "role_too_low"
	case !a.Authenticated:
		return "approver_not_authenticated"
	case a.Same(t.By):
		return "same_person"
	}
	return ""
}

// decided: with an approver the decision is the proposal's, as the first person made it.
func (f Facts) decided(t Trigger) Change {
	d, r := t.Decision, f.Review
	if why := d.Shape(); why != "" {
		return rejected(why)
	}
	if why := t.mayDecide(); why != "" {
		return rejected(why)
	}
	switch {
	case r == nil:
		return rejected("no_such_review")
	case !r.Open:
		return rejected("review_closed")
	case d.ReviewVersion != 0 && d.ReviewVersion != r.Version:
		return rejected("review_moved")
	case !GuidanceOf(r.Reason).Allows(d.Decision):
		return rejected("decision_not_allowed")
	case r.SubjectVersion != f.subjectVersion(r.SubjectKind):
		return rejected("subject_moved")
	}
	c := f.effect(d)
	if c.Verdict == Applied && t.Approver == nil && t.Rules.second(d.Decision, t.By) {
		return Change{Verdict: Proposed}
	}
	return c
}

// effect is what a decision does once it may.
func (f Facts) effect(d Decision) Change {
	r := f.Review
	if d.Decision == DecideRestoreReflection && r.Reason == ReviewLatePayment {
		return f.reviveLate(d)
	}
	switch d.Decision {
	case DecideRecordExternal:
		return f.recordExternal(d)
	case DecideRequeryPayment, DecideRestoreReflection:
		if r.SubjectKind != SubjectAttempt && r.SubjectKind != SubjectOrder && r.SubjectKind != SubjectRefund {
			return rejected("wrong_subject")
		}
		return Change{Verdict: Applied, LookAgain: true}
	case DecideRequeryIssuance:
		if r.SubjectKind != SubjectUnit {
			return rejected("wrong_subject")
		}
		return Change{Verdict: Applied, LookAgain: true}
	case DecideConfirmProvided:
		return f.confirmProvided(d)
	case DecideConfirmRefunded:
		return f.confirmRefunded(d)
	case DecideRerunUnit:
		return f.rerunUnit(d)
	case DecideRefund:
		return f.decideRefund(d)
	case DecideLinkPayment:
		return f.linkPayment(d)
	case DecideCloseWithEvidence:
		return f.closeWithEvidence(d)
	}
	return rejected("decision_not_allowed")
}

// decideRefund opens a refund like any other: of the attempt's money, or, of a refund that failed, once more what that one asked for.
// The review ends when nothing of what it is about is left to give back.
func (f Facts) decideRefund(d Decision) Change {
	kind := f.Review.SubjectKind
	switch {
	case kind != SubjectAttempt && kind != SubjectRefund:
		return rejected("wrong_subject")
	case d.Evidence.Proof == "":
		return rejected("evidence_proof_missing")
	case f.Attempt == nil || f.Money == nil:
		return rejected("nothing_captured")
	case kind == SubjectRefund && (f.Refund == nil || f.Refund.Status != RefundFailed):
		return rejected("refund_not_failed") // a second refund of the same money pays twice
	}
	left := f.Money.Left()
	whole := left
	if kind == SubjectRefund {
		whole = min(left, f.Refund.Amount.Minor)
	}
	if left <= 0 {
		return rejected("nothing_left")
	}
	ask := money.Amount{Minor: d.AmountMinor, Currency: f.Money.Currency}
	if ask.Minor == 0 {
		ask.Minor = whole
	}
	if c := f.refundOpened(ask); c.Verdict != Applied {
		return c
	}
	ends := ask.Minor >= whole
	return Change{Verdict: Applied, OpenRefund: &ask, EndReview: ends, LookAgain: !ends}
}

// linkPayment says whose payment an orphan is: by ids, never by the amount alone, and only where amount, currency and account are the
// attempt's. It moves nothing: the provider is asked about that payment, and its answer is weighed like any other.
func (f Facts) linkPayment(d Decision) Change {
	o, a := f.Orphan, f.Attempt
	switch {
	case f.Review.SubjectKind != SubjectOrphan || o == nil:
		return rejected("wrong_subject")
	case d.Evidence.Proof == "":
		return rejected("evidence_proof_missing")
	case d.AttemptID == "":
		return rejected("attempt_missing")
	case a == nil || a.ID != d.AttemptID:
		return rejected("no_such_attempt")
	case !o.Open:
		return rejected("orphan_settled")
	case o.ProviderPaymentID == "":
		return rejected("payment_id_not_known")
	case d.Evidence.Reference != o.ProviderPaymentID:
		return rejected("evidence_reference_differs") // the person names the payment, so a click on the wrong row links nothing
	case a.Account != o.Account:
		return rejected("account_differs")
	case a.ProviderPaymentID != "" && a.ProviderPaymentID != o.ProviderPaymentID:
		return rejected("attempt_has_payment")
	case o.MerchantReference != "" && o.MerchantReference != a.MerchantReference:
		return rejected("reference_differs")
	case o.Amount.Minor == 0:
		return rejected("amount_not_known")
	case o.Amount.Currency != a.Amount.Currency:
		return rejected("currency_differs")
	case o.Amount.Minor != a.Amount.Minor:
		return rejected("amount_differs")
	case a.Status == AttemptCreated:
		return rejected("attempt_not_sent")
	}
	return Change{Verdict: Applied, Link: true, EndReview: true}
}

func (f Facts) subjectVersion(k SubjectKind) int64 {
	switch {
	case k == SubjectAttempt && f.Attempt != nil:
		return f.Attempt.Version
	case k == SubjectUnit && f.Unit != nil:
		return f.Unit.Version
	case k == SubjectRefund && f.Refund != nil:
		return f.Refund.Version
	}
	return 0
}

func (f Facts) confirmProvided(d Decision) Change {
	if f.Unit == nil {
		return rejected("wrong_subject")
	}
	if d.Evidence.Reference == "" {
		return rejected("evidence_reference_missing")
	}
	switch f.Unit.Status {
	case UnitUnknown, UnitRefused:
		c := move(SubjectUnit, f.Unit.Status, UnitIssued)
		c.EndReview = true
		c.Resolve = []ReviewReason{ReviewIssuanceUnknown, ReviewIssuanceRefused, ReviewIssuanceMismatch}
		return c
	}
	return rejected("unit_settled")
}

func (f Facts) rerunUnit(d Decision) Change {
	if f.Unit == nil {
		return rejected("wrong_subject")
	}
	if d.Evidence.Proof == "" {
		return rejected("evidence_proof_missing")
	}
	if f.Order.Status != OrderPaid {
		return rejected("order_not_paid")
	}
	switch f.Unit.Status {
	case UnitUnknown, UnitRefused:
	default:
		return rejected("unit_settled")
	}
	if !f.Unit.RerunSafe {
		return rejected("too_early") // a request may still be under way (rule 3)
	}
	c := move(SubjectUnit, f.Unit.Status, UnitPlanned)
	c.NewOp = true
	c.EndReview = true
	c.Resolve = []ReviewReason{ReviewIssuanceUnknown, ReviewIssuanceRefused, ReviewIssuanceMismatch}
	return c
}

// closeWithEvidence ends a review. For an attempt that is not over it also says that nothing was captured, which is
// why the proof is asked for.
func (f Facts) closeWithEvidence(d Decision) Change {
	if d.Evidence.Proof == "" {
		return rejected("evidence_proof_missing")
	}
	switch f.Review.SubjectKind {
	case SubjectRefund:
		return f.closeRefund()
	case SubjectUnit:
		return f.closeUnit()
	}
	c := Change{Verdict: Applied, EndReview: true}
	if f.Review.SubjectKind != SubjectAttempt || f.Attempt == nil {
		return c
	}
	switch f.Attempt.Status {
	case AttemptCreated, AttemptUnknown, AttemptDeclined:
		c.Transitions = []Transition{{Subject: SubjectAttempt, From: f.Attempt.Status, To: AttemptClosed}}
		c.CloseReason = ClosedByDecision
		c.Resolve = []ReviewReason{ReviewConfirmUnknown, ReviewPaymentMismatch}
	}
	return c
}
