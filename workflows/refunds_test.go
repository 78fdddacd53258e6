package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"orderflow/activities"
	"orderflow/internal/fault"
	"orderflow/order"
)

// backSide is side with one refund of a completed order.
type backSide struct {
	*side
	send   func() (activities.RefundResult, error)
	search func() (activities.RefundResult, error)
	ask    func() (activities.RefundResult, error)
	said   order.Status // what the answers kept so far say, for ReflectRefund
}

const refund = order.RefundID("ref_1")

func newBackSide(s order.Status) *backSide {
	d := &backSide{side: newSide(order.AttemptSucceeded), said: s}
	d.facts.Attempts, d.facts.Status = nil, order.OrderCompleted
	d.facts.Refunds = []activities.RefundHead{{ID: refund, Attempt: attempt, Status: s}}
	return d
}

func (d *backSide) SendRefund(ctx context.Context, _ activities.RefundInput) (activities.RefundResult, error) {
	d.did(ctx)
	return d.send()
}

func (d *backSide) ResolveRefund(ctx context.Context, in activities.RefundInput) (activities.RefundResult, error) {
	d.did(ctx)
	r, err := d.search()
	return r, activities.Fail(ctx, err, in.Bounds)
}

func (d *backSide) LookRefund(ctx context.Context, in activities.RefundInput) (activities.RefundResult, error) {
	d.did(ctx)
	r, err := d.ask()
	return r, activities.Fail(ctx, err, in.Bounds)
}

func (d *backSide) ReflectRefund(ctx context.Context, _ activities.RefundInput) (activities.RefundReflected, error) {
	d.did(ctx)
	r := activities.RefundReflected{Status: d.said, Verdict: order.Unchanged, WorkFrom: d.facts.WorkSeq, WorkTo: d.facts.WorkSeq}
	if len(d.facts.Refunds) == 0 {
		return r, nil
	}
	if d.facts.Refunds[0].Status != d.said {
		r.Verdict = order.Applied
	}
	d.facts.Refunds[0].Status = d.said
	if d.said == order.RefundSucceeded || d.said == order.RefundFailed {
		d.facts.Refunds, d.facts.Reviews = nil, nil
		d.facts.WorkSeq++
		r.WorkTo++
	}
	return r, nil
}

func (d *backSide) Park(ctx context.Context, in activities.ParkInput) (order.Verdict, error) {
	d.did(ctx)
	d.facts.Reviews = []activities.ReviewHead{{ID: "rev_1", Version: 1, Reason: order.ReviewRefundUnknown, SubjectKind: order.SubjectRefund, SubjectID: string(in.RefundID)}}
	return order.Applied, nil
}

func comes(d *backSide, s order.Status, o order.Outcome) func() (activities.RefundResult, error) {
	return func() (activities.RefundResult, error) {
		d.said = s
		return activities.RefundResult{Outcome: o}, nil
	}
}

func nobodyKnows(d *backSide) func() (activities.RefundResult, error) {
	return func() (activities.RefundResult, error) {
		d.said = order.RefundUnknown
		return activities.RefundResult{Outcome: order.Unknown, Code: string(fault.PaymentUnknown)}, nil
	}
}

func cannotLook() (activities.RefundResult, error) {
	return activities.RefundResult{}, fault.New(fault.GatewayReadFailed, "test")
}

// PC-44: the refund's answer is lost and the provider cannot be asked for 25 hours.
func TestPC44_AnUnknownRefundStaysUnknownUntilALookup(t *testing.T) {
	t.Parallel()
	d := newBackSide(order.RefundRequested)
	d.send, d.search, d.ask = nobodyKnows(d), cannotLook, cannotLook
	env := environment(t, d.side)
	env.RegisterActivity(d)
	for h := 1; h < 25; h++ { // the sweep asks again and again
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"}) }, time.Duration(h)*time.Hour)
	}
	env.RegisterDelayedCallback(func() {
		assert.Equal(t, order.RefundUnknown, d.said)
		assert.Equal(t, 1, d.calls["SendRefund"], "never sent as new")
		assert.Equal(t, 1, d.calls["Park"], "a person has it")
		assert.Less(t, d.calls["ResolveRefund"], 80, "in growing intervals, then when the sweep says so")
		d.search = comes(d, order.RefundSucceeded, order.Succeeded)
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"})
	}, 25*time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Empty(t, d.facts.Refunds)
	assert.Equal(t, 1, d.calls["SendRefund"])
}

func TestAPendingRefundKeepsNoRunOpen(t *testing.T) {
	t.Parallel()
	d := newBackSide(order.RefundRequested)
	d.send = comes(d, order.RefundPending, order.Pending)
	env := environment(t, d.side)
	env.RegisterActivity(d)
	start := env.Now()
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Less(t, env.Now().Sub(start), time.Minute)
	assert.Zero(t, d.calls["LookRefund"])

	d.ask = comes(d, order.RefundSucceeded, order.Succeeded)
	env = environment(t, d.side)
	env.RegisterActivity(d)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{Look: true}) // as a sweep's signal does
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, 1, d.calls["LookRefund"])
	assert.Empty(t, d.facts.Refunds)
}

func TestALookBesideTheScheduleSettlesARefundAtOnce(t *testing.T) {
	t.Parallel()
	d := newBackSide(order.RefundRequested)
	d.send, d.search, d.ask = nobodyKnows(d), cannotLook, comes(d, order.RefundSucceeded, order.Succeeded)
	env := environment(t, d.side)
	env.RegisterActivity(d)
	start := env.Now()
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "webhook"})
	}, 30*time.Second)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
	require.NoError(t, env.GetWorkflowError())
	assert.Zero(t, d.calls["Park"])
	assert.Less(t, env.Now().Sub(start), 3*time.Minute)
}

func TestRefundPaymentAnswersAtTheFirstOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sends func(*backSide) func() (activities.RefundResult, error)
		want  order.Status
	}{
		"GoneBack": {func(d *backSide) func() (activities.RefundResult, error) {
			return comes(d, order.RefundSucceeded, order.Succeeded)
		}, order.RefundSucceeded},
		"ProviderIsAtIt": {func(d *backSide) func() (activities.RefundResult, error) {
			return comes(d, order.RefundPending, order.Pending)
		}, order.RefundPending},
		"Refused": {func(d *backSide) func() (activities.RefundResult, error) {
			return comes(d, order.RefundFailed, order.Refused)
		}, order.RefundFailed},
		"APersonHasIt":     {nobodyKnows, order.RefundUnknown},
		"OverBeforeItRuns": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newBackSide(order.RefundRequested)
			d.search, d.ask = cannotLook, cannotLook
			if d.facts.Refunds = d.facts.Refunds[:1]; c.sends == nil {
				d.facts.Refunds = nil
			} else {
				d.send = c.sends(d)
			}
			env := environment(t, d.side)
			env.RegisterActivity(d)
			var got *order.RefundResult
			env.RegisterDelayedCallback(func() {
				env.UpdateWorkflow(order.UpdateRefundPayment, "u", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(err error) { t.Errorf("rejected: %v", err) },
					OnComplete: func(r any, err error) {
						require.NoError(t, err)
						res := r.(order.RefundResult)
						got = &res
					},
				}, order.RefundPayment{RefundID: refund})
			}, 0)
			env.RegisterDelayedCallback(func() { // whoever waits for a person does so until told
				d.search = comes(d, order.RefundSucceeded, order.Succeeded)
				env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "test"})
			}, time.Hour)
			env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{})
			require.NoError(t, env.GetWorkflowError())
			require.NotNil(t, got)
			assert.Equal(t, c.want, got.Status)
		})
	}
}

// What a provider says of a refund that it is at may be for a person to read: two that look alike in a list without names.
func TestAPendingRefundThatNeedsAPersonGetsOne(t *testing.T) {
	t.Parallel()
	d := newBackSide(order.RefundPending)
	d.ask = func() (activities.RefundResult, error) {
		return activities.RefundResult{}, fault.New(fault.PaymentNeedsReview, "test")
	}
	env := environment(t, d.side)
	env.RegisterActivity(d)
	for h := 1; h < 5; h++ {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"}) }, time.Duration(h)*time.Hour)
	}
	env.RegisterDelayedCallback(func() {
		assert.Equal(t, 1, d.calls["Park"], "once")
		assert.Equal(t, order.RefundPending, d.said)
		d.ask = comes(d, order.RefundSucceeded, order.Succeeded)
		env.SignalWorkflow(order.SignalFactsChanged, order.FactsChanged{Source: "sweep"})
	}, 6*time.Hour)
	env.ExecuteWorkflow(OrderWorkflow, order.ID("o-1"), Carried{Look: true})
	require.NoError(t, env.GetWorkflowError())
	assert.Empty(t, d.facts.Refunds)
	assert.Zero(t, d.calls["SendRefund"], "never sent again")
}
