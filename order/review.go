package order

// ReviewReason says why a person has to look.
type ReviewReason string

// The reasons.
const (
	ReviewConfirmUnknown   ReviewReason = "confirm_outcome_unknown"
	ReviewIssuanceUnknown  ReviewReason = "issuance_outcome_unknown"
	ReviewPaymentMismatch  ReviewReason = "payment_mismatch"
	ReviewIssuanceMismatch ReviewReason = "issuance_mismatch"
	ReviewIssuanceRefused  ReviewReason = "issuance_refused"
	ReviewRequestRefused   ReviewReason = "request_refused"
	ReviewMisconfigured    ReviewReason = "misconfigured_account"
	ReviewLatePayment      ReviewReason = "late_payment"
	ReviewExtraPayment     ReviewReason = "extra_payment"
	ReviewContradiction    ReviewReason = "outcome_contradiction"
	ReviewRepeatedFailure  ReviewReason = "repeated_failure"
	ReviewPoisonEvent      ReviewReason = "poison_event"
	ReviewOrphanPayment    ReviewReason = "orphan_payment"
	ReviewRefundUnknown    ReviewReason = "refund_unknown"
	ReviewRefundFailed     ReviewReason = "refund_failed"
	ReviewCorrection       ReviewReason = "correction"
)

func refusalReason(code string) ReviewReason {
	if code == "gateway_misconfigured" || code == "issuer_misconfigured" {
		return ReviewMisconfigured
	}
	return ReviewRequestRefused
}

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

// Guidance is what a reason allows and forbids, in words an operator can act on.
type Guidance struct {
	Reason    ReviewReason   `json:"reason"`
	Means     string         `json:"means"`
	Allowed   []DecisionKind `json:"allowed"`
	Forbidden []string       `json:"forbidden"`
}

// guidance has one row per reason. Decisions that later releases bring (refund, link_payment, record_external_payment) are
// in no row yet, so the rule rejects them everywhere.
var guidance = []Guidance{
	{
		ReviewConfirmUnknown, "The provider may have taken the money and its answer was lost.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"a new charge for this order", "telling the buyer that the payment failed", "releasing the stock"},
	},
	{
		ReviewIssuanceUnknown, "The issuer may have issued this unit and its answer was lost.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit},
		[]string{"issuing this unit again without evidence that it was not provided", "refunding before it is known whether the goods are out"},
	},
	{
		ReviewPaymentMismatch, "The provider's answer is about another payment, or its amount, currency, account or environment differs.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"marking the order as paid", "a new charge for this order"},
	},
	{
		ReviewIssuanceMismatch, "The issuer answered about another operation.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit},
		[]string{"issuing this unit again without evidence that it was not provided"},
	},
	{
		ReviewIssuanceRefused, "The issuer refuses this unit for good; money is held and nothing was provided.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit},
		[]string{"leaving the buyer without goods or money"},
	},
	{
		ReviewRequestRefused, "The other side refuses our request as it stands; nothing was charged.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"sending the same request again"},
	},
	{
		ReviewMisconfigured, "Credentials or account are wrong: every order of this account fails alike.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"retrying before the account works again"},
	},
	{
		ReviewLatePayment, "Money arrived for an order that is expired or canceled.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"dropping the payment", "providing goods without deciding"},
	},
	{
		ReviewExtraPayment, "A second payment of the same order captured money.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"providing the goods twice", "dropping the payment"},
	},
	{
		ReviewContradiction, "An answer contradicts what was confirmed before.",
		[]DecisionKind{DecideRequeryPayment, DecideRequeryIssuance, DecideCloseWithEvidence},
		[]string{"choosing one answer silently"},
	},
	{
		ReviewRepeatedFailure, "A step keeps failing.",
		[]DecisionKind{DecideRequeryPayment, DecideRestoreReflection, DecideRequeryIssuance, DecideCloseWithEvidence},
		[]string{"a new charge or issuance instead of the failing step"},
	},
	{
		ReviewPoisonEvent, "An event cannot be delivered to a receiver; later ones of the order wait. Closing the review skips it.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"changing the event's id"},
	},
	{
		ReviewOrphanPayment, "A provider reported a payment of this account that no order here explains. The review ends by itself when an attempt turns out to be the one.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"linking by amount alone", "dropping the payment", "providing goods for it", "a new charge for the same buyer before it is explained"},
	},
	{
		ReviewRefundUnknown, "The provider may have given the money back and its answer was lost, or fits another refund. Closing says that nothing went back.",
		[]DecisionKind{DecideRequeryPayment, DecideConfirmRefunded, DecideCloseWithEvidence},
		[]string{"a second refund of the same money", "telling the buyer that the refund failed", "giving the money back by other means before it is known"},
	},
	{
		ReviewRefundFailed, "The money did not go back, or came back again: the buyer still waits for it, and the amount may be refunded again.",
		[]DecisionKind{DecideRequeryPayment, DecideConfirmRefunded, DecideCloseWithEvidence},
		[]string{"leaving the buyer without the money", "telling the buyer that it was refunded"},
	},
	{
		ReviewCorrection, "The provider says that more, or less, of this payment went back than our refunds explain: somebody refunded it elsewhere, or a refund was undone.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"a further refund before it is explained", "providing goods for money that went back"},
	},
}

// GuidanceTable returns every row.
func GuidanceTable() []Guidance { return append([]Guidance(nil), guidance...) }

// GuidanceOf returns a reason's row; an unknown reason allows nothing.
func GuidanceOf(r ReviewReason) Guidance {
	for _, g := range guidance {
		if g.Reason == r {
			return g
		}
	}
	return Guidance{Reason: r, Means: "Unknown reason."}
}

// Allows reports whether the reason's row lists the decision.
func (g Guidance) Allows(d DecisionKind) bool {
	for _, a := range g.Allowed {
		if a == d {
			return true
		}
	}
	return false
}

// Evidence is what a decision rests on. Reference is the other side's id (an issuance, a charge); Proof says in words what
// was looked at ("issuer support confirmed by ticket 4711 that nothing was issued").
type Evidence struct {
	Reference string `json:"reference,omitempty"`
	Proof     string `json:"proof,omitempty"`
}

// Decision is the one struct of every door: API, page, command line, Temporal update and signal carry the same JSON.
type Decision struct {
	ReviewID      ReviewID     `json:"review_id"`
	ReviewVersion int64        `json:"review_version,omitempty"` // 0 = whatever is current; a stale one is refused
	DecisionID    string       `json:"decision_id,omitempty"`    // empty = made from the content, so a repeat is the same decision
	Decision      DecisionKind `json:"decision"`
	Actor         string       `json:"actor"`
	Reason        string       `json:"reason"`
	Evidence      Evidence     `json:"evidence"`
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
	case len(d.DecisionID) > 200, len(d.Actor) > 200, len(d.Reason) > 4000, len(d.Evidence.Reference) > 1000, len(d.Evidence.Proof) > 4000:
		return "too_long"
	}
	return ""
}

func (f Facts) decided(d Decision) Change {
	if why := d.Shape(); why != "" {
		return rejected(why)
	}
	r := f.Review
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
	switch d.Decision {
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
	case DecideCloseWithEvidence:
		return f.closeWithEvidence(d)
	}
	return rejected("decision_not_allowed")
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
	if f.Review.SubjectKind == SubjectRefund {
		return f.closeRefund()
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
