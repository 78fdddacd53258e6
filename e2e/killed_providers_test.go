package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"orderflow/order"
	"orderflow/sandbox/faults"
)

// Goal: what TestKilledInTheMiddleOfEveryStep shows for Stripe holds for the writes of every other provider. Method: the same - a
// fault holds one answer of each order, before and after the effect, and one SIGKILL hits the worker in the middle of all of them.
// Long: before a guarded charge at Omise is repeated, its first send must be surely over.
func TestKilledWhileAskingAnyProvider(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("half a minute of waiting: make test-long runs it")
	}
	w := newWorld(t, workersDie, with("OMISE_TIMEOUT", "20s"), with("TWOCTWOP_TIMEOUT", "20s"), with("TOSS_TIMEOUT", "20s"),
		with("ORDERFLOW_STEP_TIMEOUT", "30s"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "60s"), with("ORDERFLOW_LONGEST_RETRY_INTERVAL", "2s"))
	var trials []*trial
	for _, p := range []*psp{&omise, &omiseCustomer, &twoctwop, &toss} {
		tag := p.gateway
		if p == &omiseCustomer {
			tag = "stored"
		}
		for suffix, effect := range map[string]bool{"_done": true, "_undone": false} {
			want := done
			if p == &omiseCustomer && !effect {
				want = unpaid // sent once, ever
			}
			confirm := &trial{name: tag + "_confirm" + suffix, psp: p, fault: faults.Fault{Action: faults.Hang, Effect: effect}, want: want}
			confirm.onConfirm()
			trials = append(trials, confirm)
			if p.prepare == nil {
				continue
			}
			prepare := &trial{name: tag + "_prepare" + suffix, psp: p, fault: faults.Fault{Action: faults.Hang, Effect: effect}, want: done}
			if effect {
				prepare.want = unpaid // its token is lost, and only time makes "not found" final
			}
			prepare.onPrepare()
			trials = append(trials, prepare)
		}
	}
	var answers []<-chan answer
	for _, x := range trials {
		answers = append(answers, w.begin(x))
		w.fired(x.name, 1)
	}
	w.killWorkers()
	w.startWorker()
	for i, x := range trials {
		a := <-answers[i]
		assert.Contains(t, []int{http.StatusCreated, http.StatusAccepted}, a.Status, "%s: %s", x.name, a.Raw)
	}
	for _, x := range trials {
		w.ends(x)
		w.settled(x.name)
		assert.Equal(t, x.want, w.cameTo(x.name), x.name)
		w.noticedOnce(x)
		if x.want.attempt == order.AttemptSucceeded {
			assert.Equal(t, 1, w.captured(x.name), x.name)
		}
	}
	w.booksAgree()
}
