package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderflow/internal/cleantext"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// cancelReasons are the words a cancel may give as its reason.
var cancelReasons = []string{"requested_by_buyer", "not_available", "abandoned", "duplicate", "fraud", "other"}

// CancelRequest asks for an order not to be carried out.
type CancelRequest struct {
	Reason string `json:"reason" doc:"requested_by_buyer, not_available, abandoned, duplicate, fraud or other"`
}

type cancelInput struct {
	ID   string `path:"id"`
	Body CancelRequest
}

// CancelView is a cancel with the order it is about.
type CancelView struct {
	view.Cancel
	Refund *view.Refund `json:"refund,omitempty" doc:"what goes back; it has an outcome of its own"`
	Order  view.Summary `json:"order"`
}

type cancelOutput struct {
	Status     int
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	Body       CancelView
}

func (a *API) cancelOrder(ctx context.Context, in *cancelInput) (*cancelOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "")
	}
	caller, id := callerOf(ctx), order.ID(in.ID)
	if _, err := a.d.Store.OrderOwned(ctx, caller.Client, id); err != nil {
		return nil, a.failure(ctx, err)
	}
	if !slices.Contains(cancelReasons, in.Body.Reason) {
		return nil, problem(typeValidation, "", FieldError{"body.reason", "must be one of " + strings.Join(cancelReasons, ", ")})
	}
	g := idempotency.From(ctx)
	subject, err := g.Begin(ctx, func() string { return string(order.NewCancelID()) })
	if err != nil {
		return nil, err
	}
	c, err := a.d.Store.CancelOpen(ctx, store.CancelDraft{
		ID: order.CancelID(subject), OrderID: id, Client: caller.Client, CallerKey: g.Key(), Reason: in.Body.Reason, MayRefund: slices.Contains(caller.Scopes, scopeOperate),
	})
	if err != nil {
		return nil, a.cancelProblem(ctx, caller.Client, id, err)
	}
	return a.cancelAnswer(ctx, caller.Client, a.driveCancel(ctx, c))
}

// driveCancel has a cancel worked on for as long as the answer may take, and its refund after it. What became of them is asked of
// PostgreSQL, whatever the engine says or does not say.
func (a *API) driveCancel(ctx context.Context, c sqlcgen.Cancel) sqlcgen.Cancel {
	within, stop := context.WithTimeout(ctx, a.d.AnswerBudget)
	defer stop()
	if c.Status != string(order.CancelDone) {
		if err := a.d.Engine.Cancel(within, order.ID(c.OrderID), order.CancelID(c.CancelID)); err != nil {
			a.d.Log.InfoContext(ctx, "no outcome within the answer budget", "cancel", c.CancelID, "error_type", errorType(err))
		}
		if now, err := a.d.Store.Cancel(ctx, order.ClientID(c.ClientID), order.CancelID(c.CancelID)); err == nil {
			c = now
		}
	}
	if c.RefundID != nil && within.Err() == nil {
		if r, err := a.d.Store.Refund(ctx, order.ClientID(c.ClientID), order.RefundID(*c.RefundID)); err == nil {
			a.driveRefund(within, r)
		}
	}
	return c
}

func (a *API) cancelAnswer(ctx context.Context, client order.ClientID, c sqlcgen.Cancel) (*cancelOutput, error) {
	h, err := a.d.Store.OrderHead(ctx, client, order.ID(c.OrderID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	out := &cancelOutput{Status: http.StatusCreated, Location: orderPath(order.ID(c.OrderID)), Body: CancelView{Cancel: view.CancelOf(c), Order: view.SummaryOf(h)}}
	if c.RefundID != nil {
		r, err := a.d.Store.Refund(ctx, client, order.RefundID(*c.RefundID))
		if err != nil {
			return nil, a.failure(ctx, err)
		}
		v := view.RefundOf(r)
		out.Body.Refund = &v
	}
	if out.Body.Outcome == "checking" || out.Body.Refund != nil && out.Body.Refund.Outcome == "checking" {
		out.Status, out.RetryAfter = http.StatusAccepted, strconv.Itoa(int(waitHint/time.Second))
	}
	return out, nil
}

func (a *API) cancelProblem(ctx context.Context, client order.ClientID, id order.ID, err error) error {
	var p *Problem
	switch rejection(err) {
	case "order_completed":
		p = problem(typeCompleted, "")
	case "order_expired":
		p = problem(typeExpired, "")
	case "paid_needs_operate":
		p = problem(typeForbidden, "The order is paid, so canceling it gives money back: that needs an API key with the scope operate.")
	case "key_bound_elsewhere":
		return problem(typeKeyReused, "")
	default:
		return a.failure(ctx, err)
	}
	a.standing(ctx, client, id, p)
	return p
}

type replaceInput struct {
	ID   string `path:"id"`
	Body ReplaceRequest
}

// ReplaceRequest is an order stated anew, whole.
type ReplaceRequest struct {
	OrderRequest
	Revision int `json:"revision,omitempty" doc:"the revision you have read; refused when another one stands. Left out, the newest is replaced"`
}

type replaceOutput struct{ Body view.Summary }

func (a *API) replaceOrder(ctx context.Context, in *replaceInput) (*replaceOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "")
	}
	caller, id := callerOf(ctx), order.ID(in.ID)
	if _, err := a.d.Store.OrderOwned(ctx, caller.Client, id); err != nil {
		return nil, a.failure(ctx, err)
	}
	d, errs := a.draft(in.Body.OrderRequest, caller.Client)
	if in.Body.ID != in.ID {
		errs = append(errs, FieldError{"body.id", "must be the id of the address"})
	}
	if in.Body.Revision < 0 {
		errs = append(errs, FieldError{"body.revision", "must be the number that reading the order shows"})
	}
	if len(errs) > 0 {
		return nil, problem(typeValidation, "", errs...)
	}
	if _, err := a.d.Store.OrderReplace(ctx, d, in.Body.Revision); err != nil {
		switch rejection(err) {
		case "out_of_stock", "no_such_stock":
			return nil, a.placeProblem(ctx, d, err)
		}
		return nil, a.openProblem(ctx, caller.Client, id, err)
	}
	h, err := a.d.Store.OrderHead(ctx, caller.Client, id)
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	return &replaceOutput{view.SummaryOf(h)}, nil
}
