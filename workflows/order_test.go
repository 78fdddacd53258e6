package workflows

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// Goal: the decisions of a run that take minutes or days in real life - bounds, parking, waking, carrying on - in time that
// skips. Method: the workflow as it is against a small stand-in for the steps, which keeps one order in memory and answers as
// told. Not covered: what steps do (activities, store, e2e).

// side is the stand-in: one order, its attempt, its units.
type side struct {
	facts    activities.Loaded
	confirm  func() (activities.PaymentResult, error)
	resolve  func() (activities.PaymentResult, error)
	look     func() (activities.PaymentResult, error)
	seen     order.Status // what the answers kept so far say, for ReflectPayment
	reflectE error
	calls    map[string]int
	decided  []order.Decision
	issued   []order.UnitID
}

const attempt = order.AttemptID("att_1")

func newSide(s order.Status) *side {
	d := &side{calls: map[string]int{}, seen: s}
	d.facts.OrderID, d.facts.Status, d.facts.WorkSeq, d.facts.Policy = "o-1", order.OrderOpen, 1, order.DefaultPolicy()
	d.facts.Attempts = []activities.AttemptHead{{ID: attempt, Status: s, Gateway: "stripe", Account: "default", Environment: "test"}}
	return d
}

func (d *side) did(ctx context.Context) { d.calls[activity.GetInfo(ctx).ActivityType.Name]++ }

func (d *side) LoadOrder(ctx context.Context, _ activities.OrderInput) (activities.Loaded, error) {
	d.did(ctx)
	return d.facts, nil
}

func (d *side) ConfirmPayment(ctx context.Context, _ activities.AttemptInput) (activities.PaymentResult, error) {
	d.did(ctx)
	return d.confirm()
}

func (d *side) ResolvePayment(ctx context.Context, in activities.AttemptInput) (activities.PaymentResult, error) {
	d.did(ctx)
	r, err := d.resolve()
	return r, activities.Fail(ctx, err, in.Bounds)
}

func (d *side) LookPayment(ctx context.Context, in activities.AttemptInput) (activities.PaymentResult, error) {
	d.did(ctx)
	r, err := d.look()
	return r, activities.Fail(ctx, err, in.Bounds)
}

func (d *side) CloseAttempt(ctx context.Context, _ activities.AttemptInput) (activities.PaymentResult, error) {
	d.did(ctx)
	d.seen = order.AttemptClosed
	return activities.PaymentResult{Outcome: order.Declined}, nil
}

// ReflectPayment makes the attempt what the answers say, and the order with it.
func (d *side) ReflectPayment(ctx context.Context, _ activities.AttemptInput) (activities.Reflected, error) {
	d.did(ctx)
	if d.reflectE != nil {
		return activities.Reflected{}, activities.Fail(ctx, d.reflectE, activities.Bounds{})
	}
	r := activities.Reflected{Status: d.seen, Verdict: order.Applied, WorkFrom: d.facts.WorkSeq, WorkTo: d.facts.WorkSeq}
	if d.seen == order.AttemptSucceeded && d.facts.Status == order.OrderOpen {
		d.facts.Status = order.OrderPaid
		d.facts.WorkSeq++
		r.WorkTo++
	}
	d.facts.Attempts[0].Status = d.seen
	if d.seen != order.AttemptUnknown && d.seen != order.AttemptSent {
		d.facts.Reviews = nil
	}
	if d.seen == order.AttemptClosed {
		d.facts.Attempts = nil
	}
	r.Order = d.facts.Status
	return r, nil
}

func (d *side) Park(ctx context.Context, in activities.ParkInput) (order.Verdict, error) {
	d.did(ctx)
	r := activities.ReviewHead{ID: "rev_1", Version: 1, Reason: order.ReviewConfirmUnknown, SubjectKind: order.SubjectAttempt, SubjectID: string(in.AttemptID)}
	if in.AttemptID == "" {
		r.Reason, r.SubjectKind, r.SubjectID = order.ReviewRepeatedFailure, order.SubjectOrder, string(in.OrderID)
		if in.Code == "" {
			d.facts.Reviews = nil
			return order.Applied, nil
		}
	}
	d.facts.Reviews = []activities.ReviewHead{r}
	return order.Applied, nil
}

func (d *side) FulfillInternal(ctx context.Context, _ activities.OrderInput) (activities.Provided, error) {
	d.did(ctx)
	p := activities.Provided{Units: 1, Order: order.OrderCompleted, WorkFrom: d.facts.WorkSeq, WorkTo: d.facts.WorkSeq + 1}
	d.facts.Status, d.facts.WorkSeq = order.OrderCompleted, p.WorkTo
	return p, nil
}

func (d *side) DeliverEvents(ctx context.Context, _ activities.DeliverInput) (activities.Delivered, error) {
	d.did(ctx)
	return activities.Delivered{}, nil
}

func (d *side) Rest(ctx context.Context, in activities.RestInput) (bool, error) {
	d.did(ctx)
	return in.Seen == d.facts.WorkSeq, nil
}

func (d *side) Decide(ctx context.Context, in activities.DecideInput) (order.DecisionResult, error) {
	d.did(ctx)
	d.decided = append(d.decided, in.Decision)
	if in.Decision.ReviewID != "rev_1" {
		return order.DecisionResult{Verdict: order.Rejected, Why: "no_such_review"}, nil
	}
	return order.DecisionResult{ReviewID: "rev_1", Verdict: order.Applied}, nil
}

func unknown() (activities.PaymentResult, error) {
	return activities.PaymentResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
}

func succeeds(d *side) func() (activities.PaymentResult, error) {
	return func() (activities.PaymentResult, error) {
		d.seen = order.AttemptSucceeded
		return activities.PaymentResult{Outcome: order.Succeeded}, nil
	}
}

func environment(t *testing.T, d *side) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestWorkflowEnvironment()
	env.RegisterActivity(d)
	env.SetTestTimeout(30 * time.Second)
	env.SetWorkflowRunTimeout(72 * time.Hour) // of the stand-in only: an order has none
	return env
}

func TestAnUnknownPaymentIsLookedUpForItsBoundAndThenParked(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	d.confirm = func() (activities.PaymentResult, error) { d.seen = order.AttemptUnknown; return unknown() }
	d.resolve = func() (activities.PaymentResult, error) {
		return activities.PaymentResult{}, fault.New(fault.GatewayReadFailed, "test")
	}
	env := environment(t, d)
	start := env.Now()
	// Most of a day later the provider answers again, and the sweep says look.
	env.RegisterDelayedCallback(func() {
		assert.Equal(t, 1, d.calls["Park"], "a person has it")
		assert.Less(t, d.calls["ResolvePayment"], 40, "looked up in growing intervals")
		assert.Greater(t, d.calls["ResolvePayment"], 5)
		d.resolve = succeeds(d)
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"})
	}, 20*time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
	assert.Equal(t, 1, d.calls["ConfirmPayment"], "never sent as new")
	assert.GreaterOrEqual(t, env.Now().Sub(start), 20*time.Hour)
}

// A worker that lacks the account never claims the attempt: without a review nobody would own it, and without a look nobody
// would notice that the account is there again.
func TestAnAttemptThatCannotBeSentIsParkedAndTriedAgainWhenTold(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	missing := func() (activities.PaymentResult, error) {
		return activities.PaymentResult{}, fault.New(fault.GatewayMisconfigured, "test")
	}
	d.confirm = func() (activities.PaymentResult, error) {
		return activities.PaymentResult{Outcome: order.Unknown, Code: string(fault.GatewayMisconfigured)}, nil
	}
	d.resolve = missing
	env := environment(t, d)
	env.RegisterDelayedCallback(func() {
		assert.Equal(t, 1, d.calls["Park"], "a person has it")
		assert.Equal(t, 1, d.calls["ConfirmPayment"], "and nothing spins meanwhile")
		d.confirm = succeeds(d)
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"})
	}, time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
}

func TestAClosedAttemptWithAStaleCaptureIsAskedAbout(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptClosed)
	d.facts.Attempts[0].Closed, d.facts.Attempts[0].Look = true, true
	d.look = succeeds(d)
	env := environment(t, d)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, 1, d.calls["LookPayment"])
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
}

func TestALookBesideTheScheduleSettlesAtOnce(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	d.confirm = func() (activities.PaymentResult, error) { d.seen = order.AttemptUnknown; return unknown() }
	d.resolve = func() (activities.PaymentResult, error) {
		return activities.PaymentResult{}, fault.New(fault.GatewayReadFailed, "test")
	}
	d.look = succeeds(d)
	env := environment(t, d)
	start := env.Now()
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "webhook"})
	}, 30*time.Second)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
	assert.Zero(t, d.calls["Park"])
	assert.Less(t, env.Now().Sub(start), 3*time.Minute)
}

func TestSubmitAnswersForAnAttemptThatIsClosed(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	d.confirm = func() (activities.PaymentResult, error) {
		d.seen = order.AttemptDeclined
		return activities.PaymentResult{Outcome: order.Declined}, nil
	}
	env := environment(t, d)
	var results []order.SubmitResult
	ask := func(id order.AttemptID) {
		env.UpdateWorkflow(order.UpdateSubmitPayment, string(id), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Errorf("rejected: %v", err) },
			OnComplete: func(r any, err error) {
				require.NoError(t, err)
				results = append(results, r.(order.SubmitResult))
			},
		}, order.SubmitPayment{AttemptID: id})
	}
	env.RegisterDelayedCallback(func() { ask(attempt); ask("att_closed_long_ago") }, 0)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, results, 2)
	got := map[order.AttemptID]order.Status{}
	for _, r := range results {
		got[r.AttemptID] = r.Status
	}
	assert.Contains(t, []order.Status{order.AttemptDeclined, order.AttemptClosed}, got[attempt])
	assert.Equal(t, order.AttemptClosed, got["att_closed_long_ago"], "it holds no run open")
}

func TestAFaultOfOurOwnGetsAnOwnerAndTheRunGoesOnWhenTold(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptCreated)
	d.confirm = succeeds(d)
	d.reflectE = fault.New(fault.ConstraintViolated, "test")
	env := environment(t, d)
	env.RegisterDelayedCallback(func() {
		require.Len(t, d.facts.Reviews, 1)
		assert.Equal(t, order.ReviewRepeatedFailure, d.facts.Reviews[0].Reason)
		d.reflectE = nil
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "operator"})
	}, time.Hour)
	d.look = succeeds(d)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
	assert.Empty(t, d.facts.Reviews, "the review ended with the step that went through")
}

func TestABadSignalIsRefusedAndFailsNothing(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptPending)
	d.seen = order.AttemptPending
	d.look = func() (activities.PaymentResult, error) { return activities.PaymentResult{Outcome: order.Pending}, nil }
	env := environment(t, d)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(order.SignalDecision, order.Decision{ReviewID: "rev_of_nobody"}) }, time.Minute)
	env.RegisterDelayedCallback(func() {
		assert.Len(t, d.decided, 1)
		d.look = succeeds(d)
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "api"})
	}, time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, order.OrderCompleted, d.facts.Status)
}

func TestADecisionOfTheWrongShapeIsRejectedAtTheDoor(t *testing.T) {
	t.Parallel()
	d := newSide(order.AttemptPending)
	d.look = succeeds(d)
	env := environment(t, d)
	var rejected error
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(order.UpdateResolveReview, "u-1", &testsuite.TestUpdateCallback{
			OnAccept: func() { t.Error("accepted") }, OnReject: func(err error) { rejected = err }, OnComplete: func(any, error) {},
		}, order.Decision{ReviewID: "rev_1", Decision: order.DecideRequeryPayment, Actor: "ann"})
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "test"})
	}, time.Minute)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, rejected, "reason_missing")
	assert.Empty(t, d.decided)
}

// TestEveryCodeSurvivesTheWayThroughTemporal: what a step fails with is what the workflow reads.
func TestEveryCodeSurvivesTheWayThroughTemporal(t *testing.T) {
	t.Parallel()
	for _, p := range fault.Table() {
		t.Run(string(p.Code), func(t *testing.T) {
			t.Parallel()
			var s testsuite.WorkflowTestSuite
			s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := s.NewTestActivityEnvironment()
			step := func(ctx context.Context) error {
				return activities.Fail(ctx, fault.Wrap(p.Code, "step", errors.New("secret cause")), activities.Bounds{Once: true})
			}
			env.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: "step"})
			_, err := env.ExecuteActivity("step")
			require.Error(t, err)
			assert.Equal(t, p.Code, codeOf(err, "never"))
			assert.NotContains(t, err.Error(), "secret cause")
		})
	}
	assert.Equal(t, fault.InternalError, codeOf(errors.New("raw"), "never"))
}
