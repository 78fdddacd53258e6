package view

import (
	"encoding/json"
	"time"

	"orderflow/gateways"
	"orderflow/internal/seal"
	"orderflow/order"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// Summary is an order in short.
type Summary struct {
	ID          order.ID  `json:"id"`
	Currency    string    `json:"currency"`
	Total       int64     `json:"total" doc:"minor units"`
	Revision    int32     `json:"revision" doc:"rises when the order is stated anew"`
	States      States    `json:"states"`
	Buyer       Buyer     `json:"buyer"`
	ReviewsOpen int64     `json:"reviews_open" doc:"how many questions wait for a person"`
	Waits       string    `json:"waits,omitempty" doc:"why what is owed and not provided yet waits, in words"`
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// SummaryOf makes the short view.
func SummaryOf(h store.Head) Summary {
	s := StatesOf(h)
	b := BuyerOf(s)
	b.CanPay = b.CanPay && h.Order.CancelID == ""
	for _, a := range h.Attempts {
		b.CanPay = b.CanPay && a.Closed // while one is being closed at its provider, another is refused
	}
	return Summary{
		ID: order.ID(h.Order.OrderID), Currency: h.Order.Currency, Total: h.Order.TotalMinor, Revision: h.Order.Revision, States: s, Buyer: b,
		ReviewsOpen: h.ReviewsOpen, Waits: waitsOf(h), CreatedAt: h.Order.CreatedAt.UTC(), ExpiresAt: h.Order.ExpiresAt.UTC(),
	}
}

// Attempt is one try to collect. Tokens are not in it.
type Attempt struct {
	ID                order.AttemptID      `json:"id"`
	Outcome           string               `json:"outcome" enum:"succeeded,pending,declined,checking,partly_captured"`
	Status            order.Status         `json:"status"`
	Code              string               `json:"code,omitempty" doc:"why it was declined, or what is wrong"`
	CloseReason       order.CloseReason    `json:"close_reason,omitempty"`
	Gateway           string               `json:"gateway"`
	Account           string               `json:"account"`
	Environment       string               `json:"environment"`
	MethodType        string               `json:"method_type"`
	Amount            int64                `json:"amount" doc:"minor units"`
	Held              int64                `json:"held,omitempty" doc:"minor units that the buyer's bank holds until they are captured"`
	Capture           int64                `json:"capture,omitempty" doc:"minor units that were asked to be captured of it"`
	Currency          string               `json:"currency"`
	MerchantReference string               `json:"merchant_reference" doc:"what the provider knows this attempt by"`
	ProviderPaymentID string               `json:"provider_payment_id,omitempty"`
	NextAction        *gateways.NextAction `json:"next_action,omitempty" doc:"what the buyer has to do"`
	Unreflected       bool                 `json:"unreflected,omitempty" doc:"the provider answered, and the answer is not yet written into the order; while this lasts, the history says what it was"`
	CreatedAt         time.Time            `json:"created_at"`
	ClosedAt          *time.Time           `json:"closed_at,omitempty"`
}

// AttemptOf makes the view of one attempt.
func AttemptOf(a sqlcgen.PaymentAttempt) Attempt {
	v := Attempt{
		ID: order.AttemptID(a.AttemptID), Outcome: OutcomeOf(order.Status(a.Status)), Status: order.Status(a.Status), Code: a.Code,
		CloseReason: order.CloseReason(a.CloseReason), Gateway: a.Gateway, Account: a.Account, Environment: a.Environment, MethodType: a.MethodType,
		Amount: a.AmountMinor, Currency: a.Currency, MerchantReference: a.MerchantReference, ProviderPaymentID: a.ProviderPaymentID,
		CreatedAt: a.CreatedAt.UTC(), ClosedAt: utc(a.ClosedAt), Unreflected: a.ObservedSeq > a.ReflectedSeq,
	}
	pending := order.Status(a.Status) == order.AttemptPending
	if v.Capture = a.CaptureMinor; pending {
		if v.Held = a.HeldMinor; v.Capture > 0 {
			v.Outcome = "checking" // it may be captured by now
		}
	}
	if pending && v.Held == 0 && v.Capture == 0 && len(a.NextAction) > 0 {
		var next gateways.NextAction
		if json.Unmarshal(a.NextAction, &next) == nil && next.Type != "" {
			v.NextAction = &next
		}
	}
	return v
}

// OutcomePartly is the outcome of an attempt that took only a part of what was asked for.
const OutcomePartly = "partly_captured"

// Partly is the attempt as one that took only a part: it is no success of the buyer's, and a person has it.
func (a Attempt) Partly() Attempt {
	a.Outcome = OutcomePartly
	return a
}

// Order is an order in full.
type Order struct {
	Summary
	BuyerRef    string        `json:"buyer_ref"`
	Lines       []Line        `json:"lines"`
	Adjustments []Adjustment  `json:"adjustments,omitempty"`
	Attempts    []Attempt     `json:"attempts"`
	Payments    []PaymentRow  `json:"payments"`
	Refunds     []Refund      `json:"refunds"`
	Cancel      *Cancel       `json:"cancel,omitempty"`
	Units       []Unit        `json:"units"`
	Deliveries  []Delivery    `json:"deliveries"`
	Reviews     []Review      `json:"reviews"`
	Decisions   []DecisionRow `json:"decisions,omitempty"`
	History     []Event       `json:"history" doc:"what happened, oldest first"`
}

// Line is one thing bought.
type Line struct {
	No         int32  `json:"no"`
	SKU        string `json:"sku"`
	Name       string `json:"name"`
	Quantity   int32  `json:"quantity"`
	UnitAmount int64  `json:"unit_amount"`
	Amount     int64  `json:"amount"`
	TaxRate    string `json:"tax_rate,omitempty"`
	Action     string `json:"action"`
	Issuer     string `json:"issuer,omitempty"`
}

// Adjustment is a signed amount beside the lines.
type Adjustment struct {
	Kind    string `json:"kind"`
	Amount  int64  `json:"amount"`
	TaxRate string `json:"tax_rate,omitempty"`
}

// PaymentRow is what a provider confirmed.
type PaymentRow struct {
	ID                string    `json:"id"`
	Gateway           string    `json:"gateway"`
	Account           string    `json:"account"`
	Environment       string    `json:"environment"`
	ProviderPaymentID string    `json:"provider_payment_id"`
	AttemptID         string    `json:"attempt_id,omitempty"`
	Currency          string    `json:"currency"`
	Captured          int64     `json:"captured"`
	Refunded          int64     `json:"refunded"`
	Released          int64     `json:"released,omitempty" doc:"what was asked for and not captured, in minor units: the provider has let it go"`
	Matched           bool      `json:"matched" doc:"whether it is what we asked for"`
	Dispute           string    `json:"dispute,omitempty" enum:"open,won,lost" doc:"whether the buyer's bank takes it back on its own"`
	Disputed          int64     `json:"disputed,omitempty" doc:"what the dispute is about, in minor units"`
	TakenBack         bool      `json:"taken_back,omitempty" doc:"the bank has taken the deposit back: nothing of it is here"`
	FirstSeenAt       time.Time `json:"first_seen_at"`
}

// Unit is one thing provided, or to be.
type Unit struct {
	ID          order.UnitID      `json:"id"`
	LineNo      int32             `json:"line_no"`
	Ordinal     int32             `json:"ordinal"`
	SKU         string            `json:"sku"`
	Action      string            `json:"action"`
	Issuer      string            `json:"issuer,omitempty"`
	Status      order.Status      `json:"status"`
	Code        string            `json:"code,omitempty"`
	OperationID order.OperationID `json:"operation_id,omitempty" doc:"the key the issuer knows it by"`
	IssuanceID  string            `json:"issuance_id,omitempty" doc:"the issuer's id"`
	Reference   string            `json:"reference,omitempty" doc:"what the buyer gets to hold"`
	IssuedAt    *time.Time        `json:"issued_at,omitempty"`
}

// Delivery is one event on its way to one receiver.
type Delivery struct {
	EventID     string     `json:"event_id"`
	Type        string     `json:"type"`
	Receiver    string     `json:"receiver"`
	Status      string     `json:"status"`
	Tries       int32      `json:"tries"`
	LastCode    string     `json:"last_code,omitempty"`
	NextTryAt   *time.Time `json:"next_try_at,omitempty"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
}

// Review is a question for a person, with what it means and what may be done.
type Review struct {
	ID          order.ReviewID       `json:"id"`
	Version     int64                `json:"version"`
	Reason      order.ReviewReason   `json:"reason"`
	Code        string               `json:"code,omitempty"`
	SubjectKind string               `json:"subject_kind"`
	SubjectID   string               `json:"subject_id"`
	Status      string               `json:"status"`
	Owner       string               `json:"owner,omitempty" doc:"the group that answers for it"`
	AssignedTo  string               `json:"assigned_to,omitempty" doc:"the person who has taken it"`
	Gateway     string               `json:"gateway,omitempty" doc:"the other side it is about: a provider, an issuer or a receiver"`
	OpenedAt    time.Time            `json:"opened_at"`
	NextCheckAt *time.Time           `json:"next_check_at,omitempty"`
	ResolvedAt  *time.Time           `json:"resolved_at,omitempty"`
	ResolvedBy  string               `json:"resolved_by,omitempty"`
	Means       string               `json:"means"`
	Allowed     []order.DecisionKind `json:"allowed"`
	Forbidden   []string             `json:"forbidden"`
	Paste       *order.Decision      `json:"paste,omitempty" doc:"the very JSON for Temporal's resolve_review update; fill in actor, reason and evidence"`
}

// DecisionRow is what a person decided.
type DecisionRow struct {
	ID           string          `json:"id"`
	ReviewID     string          `json:"review_id"`
	Decision     string          `json:"decision"`
	Actor        string          `json:"actor"`
	ActorClaimed bool            `json:"actor_claimed" doc:"true when nobody checked who the actor is"`
	ActorRole    string          `json:"actor_role"`
	Channel      string          `json:"channel"`
	Reason       string          `json:"reason"`
	Evidence     json.RawMessage `json:"evidence"`
	Before       json.RawMessage `json:"before" doc:"the states before it"`
	After        json.RawMessage `json:"after" doc:"the states after it"`
	OperationID  string          `json:"operation_id,omitempty" doc:"the outside write it is about, or opened"`
	Approver     string          `json:"approver,omitempty" doc:"the second person, where one was needed"`
	ApprovalNote string          `json:"approval_reason,omitempty" doc:"in that person's words"`
	At           time.Time       `json:"at"`
}

// Event is one line of history: a state that moved, or something another side said.
type Event struct {
	At                time.Time `json:"at"`
	Kind              string    `json:"kind" enum:"transition,observation"`
	Subject           string    `json:"subject" doc:"order, attempt, unit, refund or cancel"`
	SubjectID         string    `json:"subject_id"`
	From              string    `json:"from,omitempty"`
	To                string    `json:"to,omitempty"`
	Trigger           string    `json:"trigger,omitempty"`
	DecisionID        string    `json:"decision_id,omitempty"`
	Source            string    `json:"source,omitempty" doc:"send, lookup, webhook, list or operator"`
	Outcome           string    `json:"outcome,omitempty"`
	ProviderStatus    string    `json:"provider_status,omitempty"`
	ProviderPaymentID string    `json:"provider_payment_id,omitempty"`
	ProviderRefundID  string    `json:"provider_refund_id,omitempty"`
	OperationID       string    `json:"operation_id,omitempty"`
	Code              string    `json:"code,omitempty"`
	RequestID         string    `json:"request_id,omitempty" doc:"what the other side's support asks for"`
	seq               int
}

// OrderOf makes the full view. References of issuances are opened with box; one that cannot be opened is left out.
func OrderOf(v store.View, box *seal.Box) Order {
	o := Order{Summary: SummaryOf(v.Head), BuyerRef: v.Head.Order.BuyerRef, Attempts: []Attempt{}, Payments: []PaymentRow{}}
	for _, l := range v.Lines {
		o.Lines = append(o.Lines, Line{
			No: l.LineNo, SKU: l.Sku, Name: l.Name, Quantity: l.Quantity, UnitAmount: l.UnitAmountMinor, Amount: l.AmountMinor, TaxRate: l.TaxRate,
			Action: l.Action, Issuer: l.Issuer,
		})
	}
	for _, a := range v.Adjustments {
		o.Adjustments = append(o.Adjustments, Adjustment{a.Kind, a.AmountMinor, a.TaxRate})
	}
	for _, a := range v.Attempts {
		o.Attempts = append(o.Attempts, AttemptOf(a))
	}
	for _, p := range v.Payments {
		o.Payments = append(o.Payments, PaymentRow{
			ID: p.PaymentID, Gateway: p.Gateway, Account: p.Account, Environment: p.Environment, ProviderPaymentID: p.ProviderPaymentID,
			AttemptID: deref(p.AttemptID), Currency: p.Currency, Captured: p.CapturedMinor, Refunded: p.RefundedMinor, Matched: p.Matched,
			Dispute: disputeOf(p.Dispute), Disputed: p.DisputedMinor, TakenBack: p.TakenBack, FirstSeenAt: p.FirstSeenAt.UTC(),
		})
	}
	o.partly(v.Head)
	o.Refunds = refundsOf(v.Refunds)
	if v.Cancel != nil {
		c := CancelOf(*v.Cancel)
		o.Cancel = &c
	}
	o.Units = unitsOf(v, box)
	o.Deliveries = deliveriesOf(v.Deliveries)
	o.Reviews = []Review{}
	for _, r := range v.Reviews {
		o.Reviews = append(o.Reviews, ReviewOf(r))
	}
	o.Decisions = append(o.Decisions, decisionsOf(v.Decisions)...)
	o.History = historyOf(v)
	return o
}

// partly notes of attempts that took less than was asked for what they did not take.
func (o *Order) partly(h store.Head) {
	for i, a := range o.Attempts {
		if !h.Part(a.ID) {
			continue
		}
		o.Attempts[i] = a.Partly()
		for j, p := range o.Payments {
			if p.Matched && p.AttemptID == string(a.ID) {
				o.Payments[j].Released = a.Amount - p.Captured
			}
		}
	}
}

func unitsOf(v store.View, box *seal.Box) []Unit {
	issued := make(map[string]sqlcgen.Issuance, len(v.Issuances))
	for _, i := range v.Issuances {
		if _, there := issued[i.UnitID]; !there || i.RevokedAt == nil {
			issued[i.UnitID] = i
		}
	}
	out := make([]Unit, 0, len(v.Units))
	for _, u := range v.Units {
		row := Unit{
			ID: order.UnitID(u.UnitID), LineNo: u.LineNo, Ordinal: u.Ordinal, SKU: u.Sku, Action: u.Action, Issuer: u.Issuer, Status: order.Status(u.Status),
			Code: u.Code, IssuedAt: utc(u.IssuedAt),
		}
		if order.Action(u.Action) == order.ActionIssue {
			row.OperationID = order.IssueOperation(row.ID, int(u.Generation))
		}
		if i, there := issued[u.UnitID]; there {
			row.IssuanceID = i.IssuerIssuanceID
			if len(i.SealedReference) > 0 && box != nil {
				if plain, err := box.Open(i.SealedReference, order.ReferencePlace(row.ID)); err == nil {
					row.Reference = string(plain)
				}
			}
		}
		out = append(out, row)
	}
	return out
}

func deliveriesOf(rows []sqlcgen.DeliveriesByOrderRow) []Delivery {
	out := make([]Delivery, 0, len(rows))
	for _, d := range rows {
		row := Delivery{EventID: d.EventID, Type: d.Type, Receiver: d.Receiver, Status: d.Status, Tries: d.Tries, LastCode: d.LastCode, DeliveredAt: utc(d.DeliveredAt)}
		if d.Status == "pending" {
			row.NextTryAt = utc(&d.NextTryAt)
		}
		out = append(out, row)
	}
	return out
}

// ReviewOf makes the view of one review.
func ReviewOf(r sqlcgen.Review) Review {
	g := order.GuidanceOf(order.ReviewReason(r.Reason))
	v := Review{
		ID: order.ReviewID(r.ReviewID), Version: r.Version, Reason: order.ReviewReason(r.Reason), Code: r.Code, SubjectKind: r.SubjectKind,
		SubjectID: r.SubjectID, Status: r.Status, Owner: r.Owner, AssignedTo: r.AssignedTo, Gateway: r.Gateway, OpenedAt: r.OpenedAt.UTC(), ResolvedAt: utc(r.ResolvedAt), ResolvedBy: r.ResolvedBy,
		Means: g.Means, Allowed: g.Allowed, Forbidden: g.Forbidden,
	}
	if r.Status != "open" {
		return v
	}
	v.NextCheckAt = utc(&r.NextCheckAt)
	if len(g.Allowed) > 0 {
		v.Paste = &order.Decision{
			ReviewID: v.ID, ReviewVersion: v.Version, Decision: g.Allowed[0], Actor: "YOUR NAME", Reason: "WHY YOU DECIDE SO",
			Evidence: order.Evidence{Reference: "THE OTHER SIDE'S ID, IF THERE IS ONE", Proof: "WHAT YOU LOOKED AT"},
		}
	}
	return v
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func disputeOf(d string) string {
	if order.Dispute(d) == order.DisputeNone {
		return ""
	}
	return d
}

// waitsOf says why an order that was paid waits, as long as it is owed.
func waitsOf(h store.Head) string {
	if order.Status(h.Order.Status) != order.OrderPaid {
		return ""
	}
	return order.Hold(h.Order.Hold).Means()
}
