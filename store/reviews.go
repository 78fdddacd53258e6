package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Channel says through which door a decision came, and whether its actor is only claimed.
type Channel struct {
	Name    string // "api", "page", "command_line", "temporal_update", "temporal_signal"
	Claimed bool   // nobody checked who the actor is
	Sealer  func(unit order.UnitID, reference string) []byte
}

// Decide applies a person's decision: the rule, its effect, the decision row and the log in one transaction. The same
// decision again is one effect and the same answer (A2); what the rule rejects changes nothing and is kept in the audit log.
func (s *Store) Decide(ctx context.Context, d order.Decision, ch Channel) (order.DecisionResult, order.ID, error) {
	named := d.DecisionID != ""
	res := order.DecisionResult{ReviewID: d.ReviewID, DecisionID: d.DecisionID}
	var orderID order.ID
	err := s.inTx(ctx, "decide review", func(ctx context.Context, w *work) error {
		res.Verdict, res.Why, res.Replayed = "", "", false
		r, err := w.read.ReviewGet(ctx, string(d.ReviewID)) // on this connection: waiting for a second one could wait for ever
		if isNoRows(err) {
			res.Verdict, res.Why = order.Rejected, "no_such_review"
			return nil
		}
		if err != nil {
			return err
		}
		if r.OrderID != nil {
			orderID = order.ID(*r.OrderID)
		}
		return s.decide(ctx, w, r, d, named, ch, &res)
	})
	if err == nil && res.Verdict == order.Rejected {
		s.auditRefusal(ctx, orderID, d, ch, res.Why)
	}
	return res, orderID, err
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

func (s *Store) decide(ctx context.Context, w *work, r sqlcgen.Review, d order.Decision, named bool, ch Channel, res *order.DecisionResult) error {
	sc, err := decisionScene(ctx, w, r)
	if err != nil {
		return err
	}
	if r, err = w.read.ReviewLock(ctx, r.ReviewID); err != nil { // again, now that its order cannot move
		return err
	}
	if !named {
		d.DecisionID = contentID(d, r.Version)
		res.DecisionID = d.DecisionID
	}
	if old, err := w.read.DecisionGet(ctx, d.DecisionID); err == nil {
		res.Verdict, res.Replayed = order.Applied, true
		if old.ReviewID != r.ReviewID || old.Decision != string(d.Decision) {
			res.Verdict, res.Why, res.Replayed = order.Rejected, "decision_id_used", false
		}
		return nil
	} else if !isNoRows(err) {
		return err
	}
	f := sc.facts()
	f.Review = &order.ReviewFacts{
		ID: order.ReviewID(r.ReviewID), Reason: order.ReviewReason(r.Reason), Open: r.Status == "open", Version: r.Version,
		SubjectKind: order.SubjectKind(r.SubjectKind), SubjectVersion: r.SubjectVersion,
	}
	op, err := lastSend(ctx, w, sc, &f)
	if err != nil {
		return err
	}
	c := order.Apply(f, order.Trigger{Kind: order.DecisionMade, Decision: d})
	res.Verdict, res.Why = c.Verdict, c.Why
	if c.Verdict != order.Applied {
		return nil
	}
	return s.writeDecision(ctx, w, &sc, r, d, ch, c, op)
}

// decisionScene locks order first, then the subject (rule 9).
func decisionScene(ctx context.Context, w *work, r sqlcgen.Review) (scene, error) {
	if r.OrderID == nil {
		return scene{}, nil
	}
	o, err := w.read.OrderLock(ctx, *r.OrderID)
	if err != nil {
		return scene{}, err
	}
	sc, err := newScene(o)
	if err != nil {
		return sc, err
	}
	switch order.SubjectKind(r.SubjectKind) {
	case order.SubjectAttempt:
		a, err := w.read.AttemptGet(ctx, r.SubjectID)
		if err != nil {
			return sc, err
		}
		sc.attempt = &a
	case order.SubjectUnit:
		u, err := w.read.UnitLock(ctx, r.SubjectID)
		if err != nil {
			return sc, err
		}
		sc.unit = &u
	case order.SubjectRefund:
		return refundScene(ctx, w, order.RefundID(r.SubjectID))
	}
	return sc, nil
}

// lastSend tells the rule whether a request of the unit may still be under way.
func lastSend(ctx context.Context, w *work, sc scene, f *order.Facts) (string, error) {
	if sc.refund != nil {
		return sc.refund.OperationID, nil // its scene has asked
	}
	if f.Unit == nil || f.Unit.Operation == "" {
		return "", nil
	}
	op, err := w.read.OperationQuiet(ctx, sc.policy.RerunSafeAfter, string(f.Unit.Operation))
	if isNoRows(err) {
		f.Unit.RerunSafe = true
		return "", nil
	}
	f.Unit.RerunSafe = err == nil && op.Quiet
	return op.OperationID, err
}

func (s *Store) writeDecision(ctx context.Context, w *work, sc *scene, r sqlcgen.Review, d order.Decision, ch Channel, c order.Change, op string) error {
	before, after := subjectStates(*sc), ""
	if c.To(order.SubjectUnit) == order.UnitIssued && sc.unit != nil {
		p := sqlcgen.IssuanceInsertParams{
			IssuanceID: "iss_" + sc.unit.UnitID, UnitID: sc.unit.UnitID, OrderID: sc.order.OrderID, Issuer: sc.unit.Issuer, Source: "operator",
		}
		if op != "" {
			p.OperationID = &op
		}
		if ch.Sealer != nil {
			p.SealedReference = ch.Sealer(order.UnitID(sc.unit.UnitID), d.Evidence.Reference)
		}
		if err := w.write.IssuanceInsert(ctx, p); err != nil {
			return err
		}
	}
	if err := s.write(ctx, w, sc, c, cause{trigger: order.DecisionMade, decision: d.DecisionID}); err != nil {
		return err
	}
	if c.EndReview {
		if err := w.write.ReviewResolveOne(ctx, d.DecisionID, r.ReviewID); err != nil {
			return err
		}
		switch order.SubjectKind(r.SubjectKind) {
		case order.SubjectEvent:
			if err := w.write.DeliverySkip(ctx, r.SubjectID, sc.order.OrderID); err != nil {
				return err
			}
		case order.SubjectOrphan:
			if err := w.write.OrphanClose(ctx, r.SubjectID); err != nil {
				return err
			}
		}
	} else if err := w.write.ReviewBump(ctx, r.ReviewID); err != nil {
		return err
	}
	after = subjectStates(*sc)
	evidence, err := json.Marshal(d.Evidence)
	if err != nil {
		return err
	}
	if err := w.write.DecisionInsert(ctx, sqlcgen.DecisionInsertParams{
		DecisionID: d.DecisionID, ReviewID: r.ReviewID, ReviewVersion: r.Version, OrderID: r.OrderID, Decision: string(d.Decision), Actor: d.Actor,
		ActorClaimed: ch.Claimed, Channel: ch.Name, Reason: d.Reason, Evidence: evidence, Before: []byte(before), After: []byte(after), OperationID: op,
	}); err != nil {
		return err
	}
	if r.OrderID == nil {
		return nil
	}
	return w.write.OrderRaiseWork(ctx, *r.OrderID)
}

// subjectStates is the decision's before and after, as JSON.
func subjectStates(sc scene) string {
	m := map[string]any{"order": sc.order.Status}
	if sc.attempt != nil {
		m["attempt"], m["attempt_version"] = sc.attempt.Status, sc.attempt.Version
	}
	if sc.unit != nil {
		m["unit"], m["unit_version"] = sc.unit.Status, sc.unit.Version
	}
	if sc.refund != nil {
		m["refund"], m["refund_version"] = sc.refund.Status, sc.refund.Version
	}
	b, _ := json.Marshal(m) // strings and numbers always marshal
	return string(b)
}

// auditRefusal keeps what was refused. A refusal has no effect, so failing to write it must not fail the answer.
func (s *Store) auditRefusal(ctx context.Context, orderID order.ID, d order.Decision, ch Channel, why string) {
	detail, _ := json.Marshal(map[string]string{"review_id": string(d.ReviewID), "decision": string(d.Decision), "why": why})
	p := sqlcgen.AuditInsertParams{Actor: d.Actor, Channel: ch.Name, Act: "decision_refused", Detail: detail}
	if orderID != "" {
		p.OrderID = ptr(string(orderID))
	}
	_ = s.q().AuditInsert(ctx, p)
}

// Review reads one review.
func (s *Store) Review(ctx context.Context, id order.ReviewID) (sqlcgen.Review, error) {
	r, err := s.q().ReviewGet(ctx, string(id))
	if isNoRows(err) {
		return r, fault.New(fault.NotFound, "read review")
	}
	return r, translate("read review", err)
}
