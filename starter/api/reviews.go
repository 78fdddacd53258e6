package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"orderflow/internal/door"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/starter/view"
	"orderflow/store"
)

func (a *API) registerReviews(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-reviews", Method: http.MethodGet, Path: "/v1/reviews", Summary: "List what waits for a person, the oldest first",
		Description: "Needs view, operate or approve. A key of one client sees the reviews of that client's orders; one of the client * sees all, orphans included.",
	}, a.listReviews)
	huma.Register(h, huma.Operation{
		OperationID: "read-review", Method: http.MethodGet, Path: "/v1/reviews/{id}", Summary: "Read one review with its evidence",
	}, a.readReview)
	huma.Register(h, huma.Operation{
		OperationID: "decide-review", Method: http.MethodPost, Path: "/v1/reviews/{id}/decisions", MaxBodyBytes: MaxBody + 1, Summary: "Decide a review",
		Description: "Needs operate or approve. 200 with the verdict applied, or proposed where a second person is needed: somebody else with the scope approve " +
			"then sends the same decision with approves set to its id. The Idempotency-Key is the decision's identity, for good.",
	}, a.decideReview)
	huma.Register(h, huma.Operation{
		OperationID: "take-review", Method: http.MethodPost, Path: "/v1/reviews/{id}/take", MaxBodyBytes: MaxBody + 1, Summary: "Take a review, or give it to somebody",
	}, a.takeReview)
	huma.Register(h, huma.Operation{
		OperationID: "read-figures", Method: http.MethodGet, Path: "/v1/figures", Summary: "How much is unresolved, and since when",
		Description: "Needs a key of the client *.",
	}, a.readFigures)
}

// reach is whose reviews a caller sees.
func reach(c store.Caller) order.ClientID {
	if c.Client == store.Everyone {
		return ""
	}
	return c.Client
}

type queueInput struct {
	Reason     string `query:"reason" doc:"only reviews of this reason"`
	Gateway    string `query:"gateway" doc:"only those about this provider, issuer or receiver"`
	Owner      string `query:"owner" doc:"only those of this group"`
	AssignedTo string `query:"assigned_to" doc:"only those that this person has taken"`
	Unassigned bool   `query:"unassigned" doc:"only those that nobody has taken"`
	Proposed   bool   `query:"proposed" doc:"only those that wait for a second person"`
	MinAge     string `query:"min_age" doc:"only those open for at least this long, such as 90m"`
	After      string `query:"after" doc:"next of the last page"`
	Limit      int    `query:"limit" doc:"1 to 200; left out, 50"`
}

// QueueView is one page of the queue.
type QueueView struct {
	Reviews []QueueRow `json:"reviews"`
	Next    string     `json:"next,omitempty" doc:"for after; missing on the last page"`
}

// QueueRow is one open review in the queue.
type QueueRow struct {
	view.Review
	OrderID     string       `json:"order_id,omitempty" doc:"missing for a payment that no order explains"`
	OrderStatus order.Status `json:"order_status,omitempty"`
	Currency    string       `json:"currency,omitempty"`
	Total       int64        `json:"total,omitempty" doc:"of the order, in minor units"`
	AgeSeconds  int64        `json:"age_seconds"`
	ProposalID  string       `json:"proposal_id,omitempty" doc:"a decision that waits for a second person"`
}

type queueOutput struct{ Body QueueView }

func (a *API) listReviews(ctx context.Context, in *queueInput) (*queueOutput, error) {
	var errs fieldErrors
	f := store.QueueFilter{
		Client: reach(callerOf(ctx)), Reason: order.ReviewReason(in.Reason), Gateway: in.Gateway, Owner: in.Owner, AssignedTo: in.AssignedTo,
		Unassigned: in.Unassigned, Proposed: in.Proposed,
	}
	for at, text := range map[string]string{"reason": in.Reason, "gateway": in.Gateway, "owner": in.Owner, "assigned_to": in.AssignedTo} {
		errs.text("query."+at, text, 200)
	}
	if in.MinAge != "" {
		var err error
		if f.MinAge, err = time.ParseDuration(in.MinAge); err != nil || f.MinAge < 0 || f.MinAge > 10*365*24*time.Hour {
			errs.add("query.min_age", "must be a duration such as 90m or 24h")
		}
	}
	if in.Limit < 0 || in.Limit > store.MaxQueuePage {
		errs.add("query.limit", "must be between 1 and 200")
	}
	after, ok := parseQueueKey(in.After)
	if !ok {
		errs.add("query.after", "must be next of an earlier page, as it was")
	}
	if len(errs.list) > 0 {
		return nil, problem(typeValidation, "", errs.list...)
	}
	if in.Limit == 0 {
		in.Limit = 50
	}
	items, more, err := a.d.Store.ReviewQueue(ctx, f, after, in.Limit)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	out := &queueOutput{Body: QueueView{Reviews: make([]QueueRow, len(items))}}
	for i, item := range items {
		row := QueueRow{
			Review: view.ReviewOf(item.Review), OrderStatus: item.OrderStatus, Currency: item.Currency, Total: item.TotalMinor, ProposalID: item.Proposal,
			AgeSeconds: max(0, int64(a.d.Now().Sub(item.Review.OpenedAt)/time.Second)),
		}
		if id := item.Review.OrderID; id != nil {
			row.OrderID = *id
		}
		out.Body.Reviews[i] = row
	}
	if more {
		out.Body.Next = queueKey(items[len(items)-1].Key())
	}
	return out, nil
}

func queueKey(k store.QueueKey) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.OpenedAt.UTC().Format(time.RFC3339Nano) + " " + string(k.ID)))
}

func parseQueueKey(text string) (store.QueueKey, bool) {
	if text == "" {
		return store.QueueKey{}, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) > 200 {
		return store.QueueKey{}, false
	}
	at, id, _ := strings.Cut(string(raw), " ")
	t, err := time.Parse(time.RFC3339Nano, at)
	return store.QueueKey{OpenedAt: t, ID: order.ReviewID(id)}, err == nil && strings.HasPrefix(id, "rev_") && !strings.ContainsRune(id, 0)
}

type reviewInput struct {
	ID string `path:"id"`
}

type reviewOutput struct{ Body view.ReviewDetail }

func (a *API) readReview(ctx context.Context, in *reviewInput) (*reviewOutput, error) {
	if !reviewID(in.ID) {
		return nil, problem(typeNotFound, "")
	}
	f, err := a.d.Store.ReviewFile(ctx, reach(callerOf(ctx)), order.ReviewID(in.ID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	return &reviewOutput{Body: view.ReviewDetailOf(f)}, nil
}

func reviewID(id string) bool {
	return len(id) <= 64 && strings.HasPrefix(id, "rev_") && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// DecisionRequest is a person's decision. Who decides is whoever holds the API key.
type DecisionRequest struct {
	Decision      order.DecisionKind `json:"decision" doc:"one of the review's allowed decisions"`
	ReviewVersion int64              `json:"review_version" doc:"the review's version as you saw it; a moved one is refused"`
	Reason        string             `json:"reason" doc:"why, in words that somebody else understands later"`
	Evidence      order.Evidence     `json:"evidence,omitempty"`
	Amount        int64              `json:"amount,omitempty" doc:"for refund, in minor units; left out, all that is left"`
	AttemptID     order.AttemptID    `json:"attempt_id,omitempty" doc:"for link_payment: whose payment it is"`
	Approves      string             `json:"approves,omitempty" doc:"the id of a proposed decision, to make it effective as the second person"`
}

type decideInput struct {
	ID   string   `path:"id"`
	Key  []string `header:"Idempotency-Key" hidden:"true"`
	Body DecisionRequest
}

type decideOutput struct {
	Body DecisionView
}

// DecisionView is what became of a decision.
type DecisionView struct {
	order.DecisionResult
	OrderID order.ID `json:"order_id,omitempty"`
}

func (a *API) decideReview(ctx context.Context, in *decideInput) (*decideOutput, error) {
	if !reviewID(in.ID) {
		return nil, problem(typeNotFound, "")
	}
	key, missing, ok := idempotency.ParseKey(in.Key)
	switch {
	case missing:
		return nil, problem(typeKeyMissing, "")
	case !ok:
		return nil, problem(typeKeyMalformed, "")
	}
	caller, b := callerOf(ctx), in.Body
	if p := b.check(); p != nil {
		return nil, p
	}
	d := order.Decision{
		ReviewID: order.ReviewID(in.ID), ReviewVersion: b.ReviewVersion, DecisionID: decisionID(caller, key), Decision: b.Decision, Reason: b.Reason,
		Evidence: b.Evidence, AmountMinor: b.Amount, AttemptID: b.AttemptID, Approves: b.Approves,
	}
	with := door.New(a.d.Box, a.d.Gateways)
	with.Client = reach(caller)
	res, id, err := a.d.Store.Decide(ctx, d, caller.Actor(order.ChannelAPI), with)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	if res.Verdict == order.Rejected {
		return nil, decisionProblem(res.Why)
	}
	if id != "" && !res.Replayed {
		if err := a.d.Engine.LookAgain(ctx, id, "operator", in.ID); err != nil { // the decision is stored: the sweep acts on it
			a.d.Log.InfoContext(ctx, "the order's run was not told of a decision", "review", in.ID, "error_type", errorType(err))
		}
	}
	return &decideOutput{Body: DecisionView{res, id}}, nil
}

// decisionID is a decision's identity: the caller's and its key, for good.
func decisionID(c store.Caller, key string) string {
	whole, _ := json.Marshal([]string{string(c.Client), c.KeyID, key}) // strings always marshal
	h := sha256.Sum256(whole)
	return "dec_" + hex.EncodeToString(h[:16])
}

func (b DecisionRequest) check() *Problem {
	var errs fieldErrors
	if b.Decision == "" {
		errs.add("body.decision", "is missing; the review lists what is allowed")
	}
	if b.ReviewVersion <= 0 {
		errs.add("body.review_version", "must be the version of the review that you looked at")
	}
	if b.Reason == "" {
		errs.add("body.reason", "is missing")
	}
	if b.Amount < 0 || b.Amount > order.MaxMinor {
		errs.add("body.amount", "must be minor units, or left out for all that is left")
	}
	for at, text := range map[string]string{"body.decision": string(b.Decision), "body.attempt_id": string(b.AttemptID), "body.approves": b.Approves} {
		errs.text(at, text, 200)
	}
	for at, text := range map[string]string{"body.reason": b.Reason, "body.evidence.reference": b.Evidence.Reference, "body.evidence.proof": b.Evidence.Proof} {
		errs.text(at, text, 1000)
		errs.number(at, text)
	}
	if len(errs.list) > 0 {
		return problem(typeValidation, "", errs.list...)
	}
	return nil
}

// decisionProblem answers a refused decision by the rule's word.
func decisionProblem(why string) *Problem {
	name := typeNotDecided
	switch why {
	case "no_such_review":
		return problem(typeNotFound, "")
	case "decision_id_used":
		return problem(typeKeyReused, "")
	case "role_too_low", "channel_closed", "same_person", "approver_not_authenticated":
		name = typeMayNotDecide
	case "review_moved", "review_closed", "subject_moved", "proposal_replaced", "proposal_applied", "no_such_proposal":
		name = typeReviewMoved
	}
	p := problem(name, "")
	p.Why = why
	return p
}

// TakeRequest gives a review to a person.
type TakeRequest struct {
	To   *string `json:"to,omitempty" doc:"who gets it; left out, whoever holds the API key; empty gives it back to the queue"`
	From string  `json:"from,omitempty" doc:"who has it now, to take it over"`
}

type takeInput struct {
	ID   string `path:"id"`
	Body TakeRequest
}

type takeOutput struct{ Body view.Review }

func (a *API) takeReview(ctx context.Context, in *takeInput) (*takeOutput, error) {
	if !reviewID(in.ID) {
		return nil, problem(typeNotFound, "")
	}
	caller := callerOf(ctx)
	by := caller.Actor(order.ChannelAPI)
	to := by.Name
	if in.Body.To != nil {
		to = *in.Body.To
	}
	var errs fieldErrors
	errs.text("body.to", to, 100)
	errs.text("body.from", in.Body.From, 100)
	if len(errs.list) > 0 {
		return nil, problem(typeValidation, "", errs.list...)
	}
	r, err := a.d.Store.ReviewAssign(ctx, store.Assignment{Review: order.ReviewID(in.ID), Client: reach(caller), To: to, From: in.Body.From}, by)
	switch why := rejection(err); {
	case why == "assigned_elsewhere":
		p := problem(typeReviewTaken, "")
		p.Holder = r.AssignedTo
		return nil, p
	case why != "":
		return nil, decisionProblem(why)
	case err != nil:
		return nil, a.failure(ctx, err)
	}
	return &takeOutput{Body: view.ReviewOf(r)}, nil
}

type figuresOutput struct{ Body view.Figures }

func (a *API) readFigures(ctx context.Context, _ *struct{}) (*figuresOutput, error) {
	if reach(callerOf(ctx)) != "" {
		return nil, problem(typeForbidden, "The figures are the installation's: they need a key of the client *.")
	}
	f, err := a.d.Store.Figures(ctx)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	return &figuresOutput{Body: view.FiguresOf(f)}, nil
}
