package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Door is what a decision needs of the process that it comes in by.
type Door struct {
	Client order.ClientID                                         // whose orders' reviews may be decided; "" = everybody's, orphans included
	Seal   func(unit order.UnitID, reference string) []byte       // encrypts what the buyer gets to hold, for confirm_provided; nil = it is not kept
	Refund func(context.Context, RefundPlan) (RefundDraft, error) // freezes a refund's request, for refund; nil = refunds are refused here
}

// RefundPlan is what a refund that a person decided has to be planned for: this attempt's captured money, this much of it. It is asked
// inside the transaction, so planning must be free of effects and of waiting.
type RefundPlan struct {
	Attempt sqlcgen.PaymentAttempt
	Payment sqlcgen.Payment
	Amount  money.Amount
	Left    int64 // what may still go back, before this refund
}

// Decide applies a person's decision: the rule, its effect, the decision row and the log in one transaction. The same decision again
// is one effect and the same answer (A2); what the rule rejects changes nothing and is kept in the audit log. Where a second person is
// needed the verdict is order.Proposed: the proposal is stored, and a decision with Approves set to its id makes it effective. An
// authenticated actor's name replaces the one that the decision claims; otherwise the claimed one is the actor's.
func (s *Store) Decide(ctx context.Context, d order.Decision, by order.Actor, door Door) (order.DecisionResult, order.ID, error) {
	if by.Authenticated {
		d.Actor = by.Name
	} else {
		by.Name = d.Actor
	}
	m := deciding{store: s, d: d, by: by, door: door, named: d.DecisionID != "", res: order.DecisionResult{ReviewID: d.ReviewID, DecisionID: d.DecisionID}}
	err := s.inTx(ctx, "decide review", m.try)
	if err == nil && m.res.Verdict == order.Rejected {
		s.auditRefusal(ctx, m.order, d, by, m.res.Why)
	}
	return m.res, m.order, err
}

// contentID makes the id of a decision that brought none: the same words are the same decision. Asking the other side leaves
// the review open and may be wanted again, so there the version that was asked about belongs to it.
func contentID(d order.Decision, current int64) string {
	if d.ReviewVersion == 0 && d.Decision.Asks() {
		d.ReviewVersion = current
	}
	b, _ := json.Marshal(d) // a struct of strings and a number always marshals
	h := sha256.Sum256(b)
	return "dec_" + hex.EncodeToString(h[:16])
}

// deciding is one decision on its way through a transaction, which may run more than once.
type deciding struct {
	store *Store
	d     order.Decision
	by    order.Actor
	door  Door
	named bool // the decision brought an id
	order order.ID
	res   order.DecisionResult
}

func (m *deciding) reject(why string) error {
	m.res.Verdict, m.res.Why, m.res.Replayed = order.Rejected, why, false
	return nil
}

func (m *deciding) try(ctx context.Context, w *work) error {
	m.res.Verdict, m.res.Why, m.res.Replayed = "", "", false
	r, err := w.read.ReviewGet(ctx, string(m.d.ReviewID)) // on this connection: waiting for a second one could wait for ever
	if isNoRows(err) {
		return m.reject("no_such_review")
	}
	if err != nil {
		return err
	}
	sc, err := decisionScene(ctx, w, r, m.d)
	if err != nil {
		return err
	}
	if m.door.Client != "" && (r.OrderID == nil || sc.order.ClientID != string(m.door.Client)) { // as one that does not exist
		return m.reject("no_such_review")
	}
	if r.OrderID != nil || m.d.Decision == order.DecideLinkPayment {
		m.order = order.ID(sc.order.OrderID)
	}
	if r, err = w.read.ReviewLock(ctx, r.ReviewID); err != nil { // again, now that its order cannot move
		return err
	}
	d := m.d
	if !m.named {
		d.DecisionID = contentID(d, r.Version)
		m.res.DecisionID = d.DecisionID
	}
	if done, err := m.before(ctx, w, r, d); done || err != nil {
		return err
	}
	p, t, err := m.trigger(ctx, w, r, d)
	if t.Kind == "" || err != nil {
		return err
	}
	if err := sc.weighDecision(ctx, w, d); err != nil {
		return err
	}
	f := sc.facts()
	f.Review = reviewFacts(r)
	op, err := lastSend(ctx, w, sc, &f)
	if err != nil {
		return err
	}
	c := order.Apply(f, t)
	m.res.Verdict, m.res.Why = c.Verdict, c.Why
	switch c.Verdict {
	case order.Applied:
		return m.write(ctx, w, &sc, r, decided{t: t, c: c, op: op, approval: d, proposal: p})
	case order.Proposed:
		return m.propose(ctx, w, r, t.Decision)
	}
	return nil
}

// before answers a decision whose id is known: the same one is one effect, another one may not use it.
func (m *deciding) before(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision) (bool, error) {
	old, err := w.read.DecisionGet(ctx, d.DecisionID)
	switch {
	case err == nil:
		m.res.Verdict, m.res.Replayed = order.Applied, true
		approved := old.ApprovalID == d.DecisionID
		if old.ReviewID != r.ReviewID || old.Decision != string(d.Decision) || approved != (d.Approves != "") || (approved && d.Approves != old.DecisionID) {
			return true, m.reject("decision_id_used")
		}
		return true, nil
	case !isNoRows(err):
		return true, err
	}
	p, err := w.read.ProposalGet(ctx, d.DecisionID)
	switch {
	case isNoRows(err):
		return false, nil
	case err != nil:
		return true, err
	case p.ReviewID != r.ReviewID || p.Decision != string(d.Decision) || d.Approves != "":
		return true, m.reject("decision_id_used")
	case p.Status != "open":
		return true, m.reject("proposal_replaced")
	}
	m.res.Verdict, m.res.Replayed = order.Proposed, true
	return true, nil
}

// trigger is what the rule is asked. Of an approval it is the proposal as the first person made it, with the second person beside it. An
// empty kind means that the approval was refused before that.
func (m *deciding) trigger(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision) (string, order.Trigger, error) {
	t := order.Trigger{Kind: order.DecisionMade, Decision: d, By: m.by, Rules: m.store.opts.Decisions}
	if d.Approves == "" {
		return "", t, nil
	}
	p, err := w.read.ProposalGet(ctx, d.Approves)
	switch {
	case isNoRows(err):
		return "", order.Trigger{}, m.reject("no_such_proposal")
	case err != nil:
		return "", order.Trigger{}, err
	case p.ReviewID != r.ReviewID || p.Decision != string(d.Decision):
		return "", order.Trigger{}, m.reject("no_such_proposal")
	case p.Status != "open":
		return "", order.Trigger{}, m.reject("proposal_" + p.Status)
	case p.SubjectVersion != r.SubjectVersion && r.Status == "open":
		return "", order.Trigger{}, m.reject("subject_moved")
	}
	if err := json.Unmarshal(p.Content, &t.Decision); err != nil {
		return "", order.Trigger{}, fault.Wrap(fault.InternalError, "read proposal", err)
	}
	t.Decision.ReviewVersion = d.ReviewVersion // as the second person saw it
	t.By = order.Actor{Name: p.Actor, Person: p.ActorPerson, Role: order.Role(p.ActorRole), Channel: order.Channel(p.Channel), Authenticated: !p.ActorClaimed}
	second := m.by
	t.Approver = &second
	return p.DecisionID, t, nil
}

// propose stores what waits for a second person. The review's version rises: who looked at it before has not seen the proposal.
func (m *deciding) propose(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := w.write.ProposalsReplace(ctx, r.ReviewID); err != nil {
		return err
	}
	if err := w.write.ProposalInsert(ctx, sqlcgen.ProposalInsertParams{
		DecisionID: d.DecisionID, ReviewID: r.ReviewID, ReviewVersion: r.Version, SubjectVersion: r.SubjectVersion, OrderID: r.OrderID,
		Decision: string(d.Decision), Content: content, Actor: m.by.Name, ActorPerson: m.by.Person, ActorRole: string(m.by.Role),
		ActorClaimed: !m.by.Authenticated, Channel: string(m.by.Channel),
	}); err != nil {
		return err
	}
	return w.write.ReviewProposed(ctx, r.ReviewID)
}

// decided is what is to be written of a decision that the rule applies.
type decided struct {
	t        order.Trigger
	c        order.Change
	op       string
	approval order.Decision // the second person's, or the decision itself
	proposal string         // its id, if this makes one effective
}

func (m *deciding) write(ctx context.Context, w *work, sc *scene, r sqlcgen.Review, x decided) error {
	d, c := x.t.Decision, x.c
	before := subjectStates(*sc)
	if c.To(order.SubjectUnit) == order.UnitIssued && sc.unit != nil {
		if err := m.writeIssuance(ctx, w, sc, d, x.op); err != nil {
			return err
		}
	}
	if c.OpenRefund != nil {
		op, why, err := m.openRefund(ctx, w, *sc, r, d, *c.OpenRefund)
		if err != nil {
			return err
		}
		if why != "" {
			return m.reject(why)
		}
		x.op = op
	}
	if err := m.store.write(ctx, w, sc, c, cause{trigger: order.DecisionMade, decision: d.DecisionID}); err != nil {
		return err
	}
	if c.PlanUnits {
		if err := planUnits(ctx, w, sc, order.DecisionMade, &Reflected{}); err != nil {
			return err
		}
	}
	if c.LookAgain && sc.attempt != nil { // nobody asks about a settled attempt by himself
		p := sqlcgen.AttemptLookWantedParams{Wanted: true, AttemptID: sc.attempt.AttemptID}
		if err := w.write.AttemptLookWanted(ctx, p); err != nil {
			return err
		}
	}
	if c.Link {
		if err := link(ctx, w, sc); err != nil {
			return err
		}
	}
	if err := endOrBump(ctx, w, sc, r, d, c); err != nil {
		return err
	}
	evidence, err := json.Marshal(d.Evidence)
	if err != nil {
		return err
	}
	by := x.t.By
	p := sqlcgen.DecisionInsertParams{
		DecisionID: d.DecisionID, ReviewID: r.ReviewID, ReviewVersion: r.Version, OrderID: sc.orderID(), Decision: string(d.Decision),
		Actor: by.Name, ActorRole: string(by.Role), ActorClaimed: !by.Authenticated, Channel: string(by.Channel), Reason: d.Reason,
		Evidence: evidence, Before: []byte(before), After: []byte(subjectStates(*sc)), OperationID: x.op,
	}
	if a := x.t.Approver; a != nil {
		p.ApprovalID, p.Approver, p.ApproverRole, p.ApproverChannel, p.ApproverReason = x.approval.DecisionID, a.Name, string(a.Role), string(a.Channel), x.approval.Reason
		if err := w.write.ProposalApplied(ctx, x.proposal); err != nil {
			return err
		}
	}
	if err := w.write.DecisionInsert(ctx, p); err != nil {
		return err
	}
	if sc.order.OrderID == "" {
		return nil
	}
	return w.write.OrderRaiseWork(ctx, sc.order.OrderID)
}

func (sc *scene) orderID() *string {
	if sc.order.OrderID == "" {
		return nil
	}
	return &sc.order.OrderID
}

// openRefund stores the refund a person decided, as RefundOpen does what a caller asked for. A word instead of an operation says why
// it cannot be.
func (m *deciding) openRefund(ctx context.Context, w *work, sc scene, r sqlcgen.Review, d order.Decision, ask money.Amount) (op, why string, err error) {
	if m.door.Refund == nil {
		return "", "refund_not_possible_here", nil
	}
	draft, err := m.door.Refund(ctx, RefundPlan{Attempt: *sc.attempt, Payment: sc.paid, Amount: ask, Left: sc.money.Left()})
	switch f := fault.As(err); {
	case err == nil:
	case f.Class == fault.Invalid, f.Class == fault.Misconfigured:
		return "", "refund_not_possible", nil // the provider's rules, or ours, do not take it: nothing was sent
	default:
		return "", "", err
	}
	draft.OrderID, draft.Client = order.ID(sc.order.OrderID), order.ClientID(sc.order.ClientID)
	draft.CallerKey, draft.Attempt = "decision/"+d.DecisionID, order.AttemptID(sc.attempt.AttemptID)
	draft.Amount, draft.LeftMinor, draft.Reason = ask, sc.money.Left(), order.ReviewReason(r.Reason).RefundWord()
	if draft.Operation.ID != order.RefundOperation(draft.ID) || draft.Operation.Kind != "refund" {
		return "", "", fault.New(fault.InternalError, "decide refund") // the key is derived, not chosen (rule 7)
	}
	_, err = insertRefund(ctx, w, sc, draft, sc.refunds+1)
	return string(draft.Operation.ID), "", err
}

// link binds the orphan's payment to the attempt and has the provider asked about it.
func link(ctx context.Context, w *work, sc *scene) error {
	a := sc.attempt
	a.ProviderPaymentID, a.Version = sc.orphan.ProviderPaymentID, a.Version+1
	if err := w.write.AttemptLinkPayment(ctx, a.ProviderPaymentID, a.AttemptID); err != nil {
		return err
	}
	if err := w.write.OrphanLinkTo(ctx, a.AttemptID, sc.orphan.OrphanID); err != nil {
		return err
	}
	if err := w.write.ReviewsTouch(ctx, sqlcgen.ReviewsTouchParams{SubjectVersion: a.Version, SubjectKind: string(order.SubjectAttempt), SubjectID: a.AttemptID}); err != nil {
		return err
	}
	sc.orphan.Status = "linked"
	return wantLooks(ctx, w, "operator", []reconcile.Look{{Attempt: order.AttemptID(a.AttemptID)}})
}

func (m *deciding) writeIssuance(ctx context.Context, w *work, sc *scene, d order.Decision, op string) error {
	p := sqlcgen.IssuanceInsertParams{
		IssuanceID: "iss_" + sc.unit.UnitID, UnitID: sc.unit.UnitID, OrderID: sc.order.OrderID, Issuer: sc.unit.Issuer, Source: "operator",
	}
	if op != "" {
		p.OperationID = &op
	}
	if m.door.Seal != nil {
		p.SealedReference = m.door.Seal(order.UnitID(sc.unit.UnitID), d.Evidence.Reference)
	}
	return w.write.IssuanceInsert(ctx, p)
}

// endOrBump ends the decided review with what hangs on it, or raises its version.
func endOrBump(ctx context.Context, w *work, sc *scene, r sqlcgen.Review, d order.Decision, c order.Change) error {
	if !c.EndReview {
		return w.write.ReviewBump(ctx, r.ReviewID)
	}
	if err := w.write.ReviewResolveOne(ctx, d.DecisionID, r.ReviewID); err != nil {
		return err
	}
	switch order.SubjectKind(r.SubjectKind) {
	case order.SubjectEvent:
		return w.write.DeliverySkip(ctx, r.SubjectID, sc.order.OrderID)
	case order.SubjectOrphan:
		if c.Link {
			return nil
		}
		sc.orphan.Status = "closed"
		return w.write.OrphanClose(ctx, r.SubjectID)
	}
	return nil
}

// subjectStates is the decision's before and after, as JSON.
func subjectStates(sc scene) string {
	m := map[string]any{}
	if sc.order.OrderID != "" {
		m["order"] = sc.order.Status
	}
	if sc.attempt != nil {
		m["attempt"], m["attempt_version"] = sc.attempt.Status, sc.attempt.Version
	}
	if sc.unit != nil {
		m["unit"], m["unit_version"] = sc.unit.Status, sc.unit.Version
	}
	if sc.orphan != nil {
		m["orphan"] = sc.orphan.Status
	}
	if sc.refund != nil {
		m["refund"], m["refund_version"] = sc.refund.Status, sc.refund.Version
	}
	b, _ := json.Marshal(m) // strings and numbers always marshal
	return string(b)
}

// auditRefusal keeps what was refused. A refusal has no effect, so failing to write it must not fail the answer.
func (s *Store) auditRefusal(ctx context.Context, orderID order.ID, d order.Decision, by order.Actor, why string) {
	detail, _ := json.Marshal(map[string]any{
		"review_id": bounded(string(d.ReviewID)), "decision": bounded(string(d.Decision)), "why": why, "role": by.Role, "claimed": !by.Authenticated,
		"approves": bounded(d.Approves),
	})
	p := sqlcgen.AuditInsertParams{Actor: bounded(by.Name), Channel: string(by.Channel), Act: "decision_refused", Detail: detail}
	if orderID != "" {
		p.OrderID = ptr(string(orderID))
	}
	if d.ReviewID != "" {
		p.ReviewID = ptr(bounded(string(d.ReviewID)))
	}
	_ = s.q().AuditInsert(ctx, p)
}

// bounded keeps the beginning of what somebody typed: a log row is no place for a megabyte.
func bounded(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// Review reads one review.
func (s *Store) Review(ctx context.Context, id order.ReviewID) (sqlcgen.Review, error) {
	r, err := s.q().ReviewGet(ctx, string(id))
	if isNoRows(err) {
		return r, fault.New(fault.NotFound, "read review")
	}
	return r, translate("read review", err)
}
