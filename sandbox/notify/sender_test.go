package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orderflow/sandbox/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target takes webhooks and remembers them.
type target struct {
	url string

	mu     sync.Mutex
	got    []string // bodies in order of arrival
	tries  []string // X-Try
	status func(n int) int
	gate   chan struct{} // when set, requests wait for it
	now    int
	most   int // at the same time
}

func newTarget(t *testing.T) *target {
	t.Helper()
	to := &target{}
	srv := httptest.NewServer(to)
	t.Cleanup(srv.Close)
	to.url = srv.URL
	return to
}

func (to *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	to.mu.Lock()
	to.got = append(to.got, string(body))
	to.tries = append(to.tries, r.Header.Get("X-Try"))
	to.now++
	to.most = max(to.most, to.now)
	status := http.StatusOK
	if to.status != nil {
		status = to.status(len(to.got))
	}
	gate := to.gate
	to.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	to.mu.Lock()
	to.now--
	to.mu.Unlock()
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(status)
}

func (to *target) bodies() []string {
	to.mu.Lock()
	defer to.mu.Unlock()
	return append([]string(nil), to.got...)
}

func message(gateway, kind, body string) notify.Message {
	return notify.Message{
		Gateway: gateway, Account: "acct_1", Kind: kind, Body: []byte(body),
		Header: func(_ time.Time, try int) http.Header {
			return http.Header{"Content-Type": {"application/json"}, "X-Try": {fmt.Sprint(try)}}
		},
	}
}

func newSender(t *testing.T, cfg notify.Config) *notify.Sender {
	t.Helper()
	s, err := notify.New(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func idle(t *testing.T, s *notify.Sender) {
	t.Helper()
	require.NoError(t, s.AwaitIdle(soon(t)))
}

func TestAMessageArrivesWholeAndOnce(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
	s.Notify(message("stripe", "a.b", `{"n": 1 }`))
	idle(t, s)
	require.Equal(t, []string{`{"n": 1 }`}, to.bodies())
	log := s.Log(notify.Filter{})
	require.Len(t, log, 1)
	require.Equal(t, notify.Taken, log[0].Outcome)
	require.Equal(t, http.StatusOK, log[0].Status)
	require.Equal(t, "a.b", log[0].Kind)
	require.Positive(t, log[0].Latency)
}

func TestEachAccountMayHaveItsOwnTarget(t *testing.T) {
	t.Parallel()
	all, own := newTarget(t), newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": all.url, "stripe/acct_1": own.url}})
	s.Notify(message("stripe", "k", "1"))
	other := message("stripe", "k", "2")
	other.Account = "acct_2"
	s.Notify(other)
	s.Notify(message("toss", "k", "3"))
	idle(t, s)
	require.Equal(t, []string{"1"}, own.bodies())
	require.Equal(t, []string{"2"}, all.bodies())
	require.Len(t, s.Log(notify.Filter{Gateway: "toss", Outcome: notify.Nowhere}), 1)
	require.NoError(t, s.SetTarget("stripe/acct_1", ""))
	s.Notify(message("stripe", "k", "4"))
	idle(t, s)
	require.Equal(t, []string{"2", "4"}, all.bodies())
}

func TestWhatIsNotTakenIsSentAgainByTheSchedule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gateway string
		answers []int // 0 cuts the connection
		tries   int
		last    notify.Outcome
	}{
		"AfterAServerError":       {"stripe", []int{500, 503, 200}, 3, notify.Taken},
		"AfterACutConnection":     {"stripe", []int{0, 200}, 2, notify.Taken},
		"ARedirectIsNotTaken":     {"stripe", []int{302, 200}, 2, notify.Taken},
		"AcceptedIsTaken":         {"stripe", []int{202}, 1, notify.Taken},
		"AcceptedIsNotTakenByAll": {"toss", []int{204, 200}, 2, notify.Taken},
		"TossGivesUpAfterEight":   {"toss", []int{500}, 8, notify.GivenUp},
		"OthersAfterOneTry":       {"unknown", []int{500}, 1, notify.GivenUp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newTarget(t)
			to.status = func(n int) int { return c.answers[min(n, len(c.answers))-1] }
			s := newSender(t, notify.Config{Targets: map[string]string{c.gateway: to.url}, Scale: 1e-9})
			s.Notify(message(c.gateway, "k", "x"))
			idle(t, s)
			log := s.Log(notify.Filter{})
			require.Len(t, log, c.tries)
			for i, d := range log {
				require.Equal(t, i, d.Try)
				require.Equal(t, int64(1), d.Message)
				require.Equal(t, fmt.Sprint(i), to.tries[i], "headers are made anew for each try")
			}
			require.Equal(t, c.last, log[len(log)-1].Outcome)
		})
	}
}

func TestTossResendsOverFourDays(t *testing.T) {
	t.Parallel()
	var total time.Duration
	for _, d := range notify.Profiles()["toss"].Resends {
		total += d
	}
	require.Len(t, notify.Profiles()["toss"].Resends, 7)
	require.Equal(t, 5461*time.Minute, total)
}

func TestTheScaleShortensWaits(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	to.status = func(int) int { return 500 }
	s := newSender(t, notify.Config{Targets: map[string]string{"toss": to.url}})
	s.Notify(message("toss", "k", "x"))
	failed := func(n int) func([]notify.Delivery) bool {
		return func(log []notify.Delivery) bool { return len(log) >= n }
	}
	require.NoError(t, s.Await(soon(t), failed(1)))
	require.Equal(t, time.Minute, s.Log(notify.Filter{})[0].Next)
	require.NoError(t, s.SetScale(0.5))
	s.Notify(message("toss", "k", "y"))
	require.NoError(t, s.Await(soon(t), failed(2)))
	require.Equal(t, 30*time.Second, s.Log(notify.Filter{})[1].Next)
	for _, bad := range []float64{0, -1} {
		require.Error(t, s.SetScale(bad))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.AwaitIdle(ctx), context.DeadlineExceeded, "two resends wait")
	s.Reset()
	idle(t, s)
}

func TestCopies(t *testing.T) {
	t.Parallel()
	t.Run("OneAfterAnother", func(t *testing.T) {
		t.Parallel()
		to := newTarget(t)
		s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
		_, err := s.AddRule(notify.Rule{Copies: 4})
		require.NoError(t, err)
		s.Notify(message("stripe", "k", "x"))
		idle(t, s)
		require.Len(t, to.bodies(), 5)
		require.Equal(t, 1, to.most)
	})
	t.Run("Together", func(t *testing.T) {
		t.Parallel()
		to := newTarget(t)
		to.gate = make(chan struct{})
		s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}, Workers: 64})
		_, err := s.AddRule(notify.Rule{Copies: 49, Parallel: true, Times: 1})
		require.NoError(t, err)
		s.Notify(message("stripe", "k", "x"))
		require.Eventually(t, func() bool { to.mu.Lock(); defer to.mu.Unlock(); return to.now == 50 }, 20*time.Second, time.Millisecond)
		close(to.gate)
		idle(t, s)
		require.Len(t, s.Log(notify.Filter{Outcome: notify.Taken, Message: 1}), 50)
		s.Notify(message("stripe", "k", "y"))
		idle(t, s)
		require.Len(t, to.bodies(), 51, "the rule was for one message")
	})
}

func TestWorkersAreBoundedAndOneDeadTargetStopsNoOther(t *testing.T) {
	t.Parallel()
	dead, alive := newTarget(t), newTarget(t)
	dead.gate = make(chan struct{})
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": dead.url, "toss": alive.url}, Workers: 3, Queue: 10})
	for i := range 20 {
		s.Notify(message("stripe", "k", fmt.Sprint(i)))
	}
	require.Eventually(t, func() bool { dead.mu.Lock(); defer dead.mu.Unlock(); return dead.now == 3 }, 20*time.Second, time.Millisecond)
	s.Notify(message("toss", "k", "x"))
	require.NoError(t, s.Await(soon(t), func([]notify.Delivery) bool {
		return len(s.Log(notify.Filter{Gateway: "toss", Outcome: notify.Taken})) == 1
	}))
	require.Len(t, s.Log(notify.Filter{Outcome: notify.Overflow}), 7, "3 under way, 10 wait")
	close(dead.gate)
	idle(t, s)
	require.Equal(t, 3, dead.most)
	require.Len(t, dead.bodies(), 13)
}

func TestLostMessagesNeverArrive(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
	id, err := s.AddRule(notify.Rule{Lose: true, Kind: "payment_intent.*", BodyContains: "pi_1", Skip: 1, Times: 1})
	require.NoError(t, err)
	for _, m := range []notify.Message{
		message("stripe", "payment_intent.created", "pi_1 a"), message("stripe", "payment_intent.succeeded", "pi_1 b"),
		message("stripe", "payment_intent.succeeded", "pi_2 c"), message("stripe", "charge.succeeded", "pi_1 d"),
		message("stripe", "payment_intent.succeeded", "pi_1 e"),
	} {
		s.Notify(m)
	}
	idle(t, s)
	require.ElementsMatch(t, []string{"pi_1 a", "pi_2 c", "pi_1 d", "pi_1 e"}, to.bodies())
	state, ok := s.Rule(id)
	require.True(t, ok)
	require.Equal(t, 1, state.Met)
	require.True(t, state.UsedUp)
	lost := s.Log(notify.Filter{Outcome: notify.Lost})
	require.Len(t, lost, 1)
	require.NoError(t, s.Resend(lost[0].Message), "a person may send it from the dashboard")
	idle(t, s)
	require.Len(t, to.bodies(), 5)
	require.Error(t, s.Resend(99))
}

func TestHeldMessagesWaitForTheirRelease(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
	id, err := s.AddRule(notify.Rule{Hold: true, Copies: 1})
	require.NoError(t, err)
	s.Notify(message("stripe", "k", "1"))
	s.Notify(message("stripe", "k", "2"))
	idle(t, s)
	require.Empty(t, to.bodies())
	n, ok := s.Release(id)
	require.True(t, ok)
	require.Equal(t, 2, n)
	idle(t, s)
	require.Len(t, to.bodies(), 4, "with the rule's other effects")
	s.Notify(message("stripe", "k", "3"))
	require.True(t, s.RemoveRule(id), "removing releases")
	idle(t, s)
	require.Len(t, to.bodies(), 6)
	_, ok = s.Release(id)
	require.False(t, ok)
}

func TestShuffleNeverKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for range 5 {
		to := newTarget(t)
		s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
		_, err := s.AddRule(notify.Rule{Shuffle: 100 * time.Millisecond, Copies: 1})
		require.NoError(t, err)
		s.Notify(message("stripe", "k", "1"))
		s.Notify(message("stripe", "k", "2"))
		s.Notify(message("stripe", "k", "3"))
		idle(t, s)
		got := to.bodies()
		require.Len(t, got, 6)
		require.Equal(t, 1, to.most, "one by one")
		order := []string{got[0], got[2], got[4]}
		require.ElementsMatch(t, []string{"1", "2", "3"}, order)
		require.NotEqual(t, []string{"1", "2", "3"}, order)
		for i := range order {
			require.Equal(t, got[2*i], got[2*i+1], "copies go beside each other")
		}
	}
}

func TestADelayedMessageDoesNotHoldUpALaterOne(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
	_, err := s.AddRule(notify.Rule{Delay: 300 * time.Millisecond, Times: 1})
	require.NoError(t, err)
	s.Notify(message("stripe", "k", "late"))
	s.Notify(message("stripe", "k", "early"))
	idle(t, s)
	require.Equal(t, []string{"early", "late"}, to.bodies())
}

func TestCloseCutsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	to.gate = make(chan struct{})
	t.Cleanup(func() { close(to.gate) })
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url}})
	s.Notify(message("stripe", "k", "x"))
	require.Eventually(t, func() bool { return len(to.bodies()) == 1 }, 20*time.Second, time.Millisecond)
	s.Close()
	s.Notify(message("stripe", "k", "y"))
	require.Len(t, to.bodies(), 1)
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{Targets: map[string]string{"stripe": to.url, "toss": to.url}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				s.Notify(message([]string{"stripe", "toss"}[j%2], "k", fmt.Sprintf("%d-%d", i, j)))
				if id, err := s.AddRule(notify.Rule{Copies: 1, BodyContains: "never"}); err == nil && j%2 == 0 {
					s.RemoveRule(id)
				}
				s.Rules()
				s.Log(notify.Filter{})
			}
		})
	}
	wg.Wait()
	idle(t, s)
	require.Len(t, to.bodies(), 160)
}

func call(t *testing.T, h http.Handler, method, path, body string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	out := map[string]any{}
	if w.Body.Len() > 0 {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), w.Body.String())
	}
	return w.Code, out
}

func TestTheAdminAPI(t *testing.T) {
	t.Parallel()
	to := newTarget(t)
	s := newSender(t, notify.Config{})
	h := s.Handler()
	status, got := call(t, h, "POST", "/admin/notices/settings", `{"scale":0.25,"targets":{"stripe":"`+to.url+`"},"profiles":{"stripe":{"resends":["1s"],"only_200":true,"timeout":"2s"}}}`)
	require.Equal(t, 200, status)
	require.Equal(t, 0.25, got["scale"])
	require.Equal(t, map[string]any{"resends": []any{"1s"}, "only_200": true, "timeout": "2s"}, got["profiles"].(map[string]any)["stripe"])
	for _, bad := range []string{`{"scale":0}`, `{"targets":{"stripe":"nowhere"}}`, `{"targets":{"":"http://x"}}`, `{"profiles":{"toss":{"resends":["soon"]}}}`} {
		status, got = call(t, h, "POST", "/admin/notices/settings", bad)
		require.Equal(t, 422, status, bad)
		require.NotEmpty(t, got["error"])
	}
	status, _ = call(t, h, "POST", "/admin/notices/settings", `{"scal":1}`)
	require.Equal(t, 400, status)

	status, got = call(t, h, "POST", "/admin/notices/rules", `{"gateway":"stripe","hold":true,"delay":"1ms"}`)
	require.Equal(t, 201, status)
	id := got["id"].(string)
	s.Notify(message("stripe", "k", "x"))
	status, got = call(t, h, "GET", "/admin/notices/rules/"+id, "")
	require.Equal(t, 200, status)
	require.Equal(t, map[string]any{"id": id, "gateway": "stripe", "hold": true, "delay": "1ms", "met": 1.0, "used_up": false, "held": 1.0}, got)
	status, got = call(t, h, "POST", "/admin/notices/rules/"+id+"/release", "")
	require.Equal(t, 200, status)
	require.Equal(t, 1.0, got["released"])
	idle(t, s)
	_, got = call(t, h, "GET", "/admin/notices?gateway=stripe&outcome=taken", "")
	require.Len(t, got["deliveries"], 1)
	status, _ = call(t, h, "POST", "/admin/notices/1/resend", "")
	require.Equal(t, 202, status)
	status, _ = call(t, h, "DELETE", "/admin/notices/rules/"+id, "")
	require.Equal(t, 204, status)
	idle(t, s)
	require.Len(t, to.bodies(), 2)

	for path, want := range map[string]int{"/admin/notices/7/resend": 404, "/admin/notices/x/resend": 404, "/admin/notices/rules/none/release": 404} {
		status, got = call(t, h, "POST", path, "")
		require.Equal(t, want, status, path)
		require.NotEmpty(t, got["error"])
	}
	for _, bad := range []string{
		`{}`, `{"gateway":"stripe"}`, `{"lose":true,"copies":1}`, `{"parallel":true,"delay":"1s"}`, `{"copies":-1}`,
		`{"copies":100000}`, `{"shuffle":"48h"}`,
	} {
		status, got = call(t, h, "POST", "/admin/notices/rules", bad)
		require.Equal(t, 422, status, bad)
		require.NotEmpty(t, got["error"])
	}
	for _, bad := range []string{``, `[]`, `{"kinds":"x","lose":true}`, `{"delay":"soon"}`} {
		status, _ = call(t, h, "POST", "/admin/notices/rules", bad)
		require.Equal(t, 400, status, bad)
	}
	status, _ = call(t, h, "DELETE", "/admin/notices/rules", "")
	require.Equal(t, 204, status)
}
