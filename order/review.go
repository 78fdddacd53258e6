package order

// ReviewReason says why a person has to look.
type ReviewReason string

// The reasons.
const (
	ReviewConfirmUnknown    ReviewReason = "confirm_outcome_unknown"
	ReviewIssuanceUnknown   ReviewReason = "issuance_outcome_unknown"
	ReviewPaymentMismatch   ReviewReason = "payment_mismatch"
	ReviewIssuanceMismatch  ReviewReason = "issuance_mismatch"
	ReviewIssuanceRefused   ReviewReason = "issuance_refused"
	ReviewRequestRefused    ReviewReason = "request_refused"
	ReviewMisconfigured     ReviewReason = "misconfigured_account"
	ReviewLatePayment       ReviewReason = "late_payment"
	ReviewExtraPayment      ReviewReason = "extra_payment"
	ReviewContradiction     ReviewReason = "outcome_contradiction"
	ReviewRepeatedFailure   ReviewReason = "repeated_failure"
	ReviewPoisonEvent       ReviewReason = "poison_event"
	ReviewOrphanPayment     ReviewReason = "orphan_payment"
	ReviewRefundUnknown     ReviewReason = "refund_unknown"
	ReviewRefundFailed      ReviewReason = "refund_failed"
	ReviewCorrection        ReviewReason = "correction"
	ReviewDispute           ReviewReason = "dispute_open"
	ReviewDisputeLost       ReviewReason = "dispute_lost"
	ReviewDepositTakenBack  ReviewReason = "deposit_taken_back"
	ReviewSettledElsewhere  ReviewReason = "settled_elsewhere"
	ReviewIssuedAfterCancel ReviewReason = "issued_after_cancel"
	ReviewRefundProposed    ReviewReason = "refund_proposed"
)

func refusalReason(code string) ReviewReason {
	if code == "gateway_misconfigured" || code == "issuer_misconfigured" {
		return ReviewMisconfigured
	}
	return ReviewRequestRefused
}

// Guidance is what a reason allows and forbids, in words an operator can act on.
type Guidance struct {
	Reason    ReviewReason   `json:"reason"`
	Means     string         `json:"means"`
	Allowed   []DecisionKind `json:"allowed"`
	Forbidden []string       `json:"forbidden"`
}

// guidance has one row per reason. A decision that is in no row is rejected everywhere.
var guidance = []Guidance{
	{
		ReviewConfirmUnknown, "The provider may have taken the money and its answer was lost.",
		[]DecisionKind{DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
		[]string{"a new charge for this order", "telling the buyer that the payment failed", "releasing the stock"},
	},
	{
		ReviewIssuanceUnknown, "The issuer may have issued this unit and its answer was lost.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
		[]string{"issuing this unit again without evidence that it was not provided", "refunding before it is known whether the goods are out"},
	},
	{
		ReviewPaymentMismatch, "The provider's answer is about another payment, or its amount, currency, account or environment differs.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"marking the order as paid", "a new charge for this order"},
	},
	{
		ReviewIssuanceMismatch, "The issuer answered about another operation.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
		[]string{"issuing this unit again without evidence that it was not provided"},
	},
	{
		ReviewIssuanceRefused, "The issuer refuses this unit for good; money is held and nothing was provided.",
		[]DecisionKind{DecideRequeryIssuance, DecideConfirmProvided, DecideRerunUnit, DecideCloseWithEvidence},
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
		ReviewLatePayment, "Money arrived for an order that is expired or canceled. It is kept, and proposed for a refund unless the promise is kept after all.",
		[]DecisionKind{DecideRestoreReflection, DecideRefund, DecideCloseWithEvidence},
		[]string{"dropping the payment", "providing goods without deciding"},
	},
	{
		ReviewExtraPayment, "A second payment of the same order captured money. Both are kept, the goods go out once, and this one is proposed for a refund; refunding it leaves the order paid.",
		[]DecisionKind{DecideRefund, DecideCloseWithEvidence},
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
		[]DecisionKind{DecideLinkPayment, DecideCloseWithEvidence},
		[]string{"linking by amount alone", "dropping the payment", "providing goods for it", "a new charge for the same buyer before it is explained"},
	},
	{
		ReviewRefundUnknown, "The provider may have given the money back and its answer was lost, or fits another refund. Closing says that nothing went back.",
		[]DecisionKind{DecideRequeryPayment, DecideConfirmRefunded, DecideCloseWithEvidence},
		[]string{"a second refund of the same money", "telling the buyer that the refund failed", "giving the money back by other means before it is known"},
	},
	{
		ReviewRefundFailed, "The money did not go back, or came back again: the buyer still waits for it, and the amount may be refunded again.",
		[]DecisionKind{DecideRequeryPayment, DecideConfirmRefunded, DecideRefund, DecideCloseWithEvidence},
		[]string{"leaving the buyer without the money", "telling the buyer that it was refunded"},
	},
	{
		ReviewCorrection, "The provider says that more, or less, of this payment went back than our refunds explain: somebody refunded it elsewhere, or a refund was undone.",
		[]DecisionKind{DecideRequeryPayment, DecideCloseWithEvidence},
		[]string{"a further refund before it is explained", "providing goods for money that went back"},
	},
	{
		ReviewDispute, "The buyer's bank disputes this payment and may take the money back on its own. What is not provided yet waits.",
		[]DecisionKind{DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
		[]string{"a refund on top of the dispute: the money would go back twice", "providing what was not provided yet", "letting the provider's time for evidence pass"},
	},
	{
		ReviewDisputeLost, "The dispute is lost: the buyer's bank has taken the money back.",
		[]DecisionKind{DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
		[]string{"a refund on top of it: the money would go back twice", "providing what was not provided yet"},
	},
	{
		ReviewDepositTakenBack, "The bank has taken a confirmed deposit back. Nobody refunded it, and the buyer may pay again into the same account; what is not provided yet waits for that.",
		[]DecisionKind{DecideRequeryPayment, DecideRecordExternal, DecideCloseWithEvidence},
		[]string{"providing what was not provided yet", "a refund: the money is not here", "telling the buyer that it was refunded"},
	},
	{
		ReviewSettledElsewhere, "Somebody says that this order was paid by other means.",
		[]DecisionKind{DecideRecordExternal, DecideCloseWithEvidence},
		[]string{"recording it without having seen the money"},
	},
	{
		ReviewIssuedAfterCancel, "This unit was being issued when its order was canceled, and it is out. What it cost was not given back.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"giving its money back before the goods are back", "leaving goods out that nobody pays for"},
	},
	{
		ReviewRefundProposed, "The order is canceled and holds money that our books cannot divide, or that cannot go back the way it came. A refund says how much.",
		[]DecisionKind{DecideCloseWithEvidence},
		[]string{"leaving the buyer without goods or money"},
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
