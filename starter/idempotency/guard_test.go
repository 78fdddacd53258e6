package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"orderflow/internal/seal"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/store"
)

// Goal: one key, one effect, one answer, whatever dies or comes at once. Method: the guard over real HTTP on a real
// PostgreSQL, with a handler each test writes. Not covered here: what the API's own handlers do.

type bundle struct {
	t        *testing.T
	db       *testkit.DB
	store    *store.Store
	url      string
	outcomes sync.Map // idempotency.Outcome -> *atomic.Int64
}

// handler is what a test guards. subject is the guard's; effects counts how often it got to work.
type handler func(w http.ResponseWriter, r *http.Request, subject string)

func setup(t *testing.T, lease time.Duration, h handler) *bundle {
	t.Helper()
	b := &bundle{t: t, db: testkit.Database(t)}
	var err error
	b.store, err = store.Open(t.Context(), b.db.AppURL, 60, store.Options{})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	guarded := b.guard(lease, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Invalid") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		subject, err := idempotency.From(r.Context()).Begin(r.Context(), func() string { return "sub-" + string(order.NewAttemptID()) })
		if errors.Is(err, idempotency.ErrAnswered) {
			w.WriteHeader(http.StatusTeapot) // must never be seen
			return
		}
		h(w, r, subject)
	}))
	srv := httptest.NewServer(b.recovering(guarded))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

type bodyKey struct{}

// guard puts a handler behind the guard, with the raw body read as the API does it.
func (b *bundle) guard(lease time.Duration, next http.Handler) http.Handler {
	box, err := seal.ParseKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(b.t, err)
	g := idempotency.Middleware(idempotency.Options{
		Keys: b.store, Box: box, Lease: lease,
		Caller:    func(r *http.Request) order.ClientID { return order.ClientID(r.Header.Get("X-Caller")) },
		Operation: func(r *http.Request) string { return "POST " + r.Header.Get("X-Operation") },
		Body:      func(r *http.Request) []byte { raw, _ := r.Context().Value(bodyKey{}).([]byte); return raw },
		Refuse: func(w http.ResponseWriter, _ *http.Request, why idempotency.Refusal, after time.Duration) {
			status := map[idempotency.Refusal]int{
				idempotency.KeyMissing: 400, idempotency.KeyMalformed: 400, idempotency.KeyReused: 422, idempotency.Running: 409, idempotency.Unavailable: 503,
			}[why]
			if after > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, string(why))
		},
		Count: func(_ *http.Request, o idempotency.Outcome) {
			n, _ := b.outcomes.LoadOrStore(o, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		},
	})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		g.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bodyKey{}, raw)))
	})
}

func (b *bundle) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (b *bundle) count(o idempotency.Outcome) int64 {
	n, ok := b.outcomes.Load(o)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (b *bundle) post(key, body string, headers ...string) answer {
	b.t.Helper()
	a, err := b.try(key, body, headers...)
	require.NoError(b.t, err)
	return a
}

func (b *bundle) try(key, body string, headers ...string) (answer, error) {
	req, err := http.NewRequest(http.MethodPost, b.url+"/things", bytes.NewBufferString(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("X-Caller", "shop")
	req.Header.Set("X-Operation", "/things")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(raw)}, err
}

func (b *bundle) rows() (n int) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.db.OwnerURL)
	require.NoError(b.t, err)
	defer func() { _ = conn.Close(b.t.Context()) }()
	require.NoError(b.t, conn.QueryRow(b.t.Context(), "SELECT count(*) FROM idempotency_keys").Scan(&n))
	return n
}

// created answers 201 with a body that no two runs share.
func created(effects *atomic.Int64) handler {
	return func(w http.ResponseWriter, _ *http.Request, subject string) {
		n := effects.Add(1)
		w.Header().Set("Content-Type", "application/vnd.thing+json")
		w.Header().Set("Location", "/things/"+subject)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"subject":%q,"run":%d}`, subject, n)
	}
}

func TestDraft(t *testing.T) {
	t.Parallel()
	t.Run("FinishedIsReplayedExactly", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		first := b.post(`"k1"`, `{"a":1}`)
		again := b.post("k1", `{"a":1}`)
		require.Equal(t, 201, first.status)
		require.Equal(t, first.status, again.status)
		require.Equal(t, first.body, again.body)
		require.Equal(t, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
		require.Empty(t, first.header.Get("Idempotency-Replayed"))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.EqualValues(t, 1, effects.Load())
	})
	t.Run("MissingAndMalformedKeysLeaveNoRow", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		require.Equal(t, "key_missing", b.post("", "{}").body)
		require.Equal(t, 400, b.post("a b", "{}").status)
		require.Zero(t, effects.Load())
		require.Zero(t, b.rows())
	})
	t.Run("RefusedBeforeTheClaimLeavesNoRow", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		require.Equal(t, 422, b.post("k1", "{}", "X-Invalid", "1").status)
		require.Zero(t, b.rows())
		require.Equal(t, 201, b.post("k1", `{"fixed":true}`).status) // the key is still free
	})
	t.Run("OtherBodyIsRefused", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		b.post("k1", `{"a":1}`)
		a := b.post("k1", `{"a":2}`)
		require.Equal(t, 422, a.status)
		require.Equal(t, "key_reused", a.body)
		require.Equal(t, 422, b.post("k1", `{"a": 1}`).status) // raw bytes count, not their meaning
		require.EqualValues(t, 1, effects.Load())
	})
	t.Run("OtherCallerAndOtherOperationAreOtherKeys", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		mine := b.post("k1", "{}")
		theirs := b.post("k1", "{}", "X-Caller", "another")
		elsewhere := b.post("k1", "{}", "X-Operation", "/others")
		require.NotEqual(t, mine.body, theirs.body)
		require.NotEqual(t, mine.body, elsewhere.body)
		require.EqualValues(t, 3, effects.Load())
	})
	t.Run("BadAnswersAreReplayedToo", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, "no, for good (%d)", effects.Add(1))
		})
		first, again := b.post("k1", "{}"), b.post("k1", "{}")
		require.Equal(t, 409, again.status)
		require.Equal(t, first.body, again.body)
	})
}

// TestNotStored: answers that say "come again" are not kept, and the next try works for the same subject.
func TestNotStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		retryAfter string
	}{
		"Accepted":             {status: 202},
		"ConflictThatMayPass":  {status: 409, retryAfter: "1"},
		"TooManyRequests":      {status: 429},
		"ServerError":          {status: 500},
		"Unavailable":          {status: 503, retryAfter: "1"},
		"AcceptedWithoutAHint": {status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var subjects []string
			b := setup(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, subject string) {
				subjects = append(subjects, subject)
				if len(subjects) > 1 {
					w.WriteHeader(http.StatusCreated)
					return
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
			})
			require.Equal(t, c.status, b.post("k1", "{}").status)
			a := b.post("k1", "{}")
			require.Equal(t, 201, a.status)
			require.Empty(t, a.header.Get("Idempotency-Replayed"))
			require.Len(t, subjects, 2)
			require.Equal(t, subjects[0], subjects[1])
			require.Equal(t, 422, b.post("k1", "other").status) // the row keeps its fingerprint
		})
	}
	t.Run("Panic", func(t *testing.T) {
		t.Parallel()
		var subjects []string
		b := setup(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, subject string) {
			if subjects = append(subjects, subject); len(subjects) == 1 {
				panic("bug")
			}
			w.WriteHeader(http.StatusCreated)
		})
		require.Equal(t, 500, b.post("k1", "{}").status)
		require.Equal(t, 201, b.post("k1", "{}").status)
		require.Equal(t, subjects[0], subjects[1])
	})
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	t.Run("FiftyAtOnceAreOneEffect", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		var wg sync.WaitGroup
		answers := make([]answer, 50)
		for i := range answers {
			wg.Go(func() { answers[i], _ = b.try("k1", "{}") })
		}
		wg.Wait()
		bodies := map[string]bool{}
		for _, a := range answers {
			require.Contains(t, []int{201, 409}, a.status)
			if a.status == 201 {
				bodies[a.body] = true
			} else {
				require.NotEmpty(t, a.header.Get("Retry-After"))
			}
		}
		require.Len(t, bodies, 1)
		require.EqualValues(t, 1, effects.Load())
	})
	t.Run("RunningIsTold", func(t *testing.T) {
		t.Parallel()
		entered, leave := make(chan struct{}), make(chan struct{})
		b := setup(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, _ string) {
			close(entered)
			<-leave
			w.WriteHeader(http.StatusCreated)
		})
		done := make(chan answer, 1)
		go func() { a, _ := b.try("k1", "{}"); done <- a }()
		<-entered
		a := b.post("k1", "{}")
		require.Equal(t, 409, a.status)
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, 422, b.post("k1", "other").status) // another body is told so even while the first runs
		close(leave)
		require.Equal(t, 201, (<-done).status)
	})
	t.Run("CallerHangsUpAndFindsTheAnswer", func(t *testing.T) {
		t.Parallel()
		entered, leave := make(chan struct{}), make(chan struct{})
		var effects atomic.Int64
		b := setup(t, time.Minute, func(w http.ResponseWriter, r *http.Request, _ string) {
			effects.Add(1)
			close(entered)
			<-leave
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
		})
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/things", bytes.NewBufferString("{}"))
			req.Header.Set("X-Caller", "shop")
			req.Header.Set("X-Operation", "/things")
			req.Header.Set("Idempotency-Key", "k1")
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			gone <- err
		}()
		<-entered
		hangUp()
		require.Error(t, <-gone)
		close(leave)
		require.Eventually(t, func() bool { return b.post("k1", "{}").status == 201 }, 10*time.Second, 10*time.Millisecond)
		require.EqualValues(t, 1, effects.Load())
	})
}

// TestHolderDies: a lease that runs out passes on with its subject, and the process that wakes up later changes nothing.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	t.Run("LeasePassesOnWithTheSubject", func(t *testing.T) {
		t.Parallel()
		var effects atomic.Int64
		b := setup(t, time.Minute, created(&effects))
		// A holder that died: its row is there and its lease is over.
		k := store.Key{Client: "shop", Operation: "POST /things", Key: "k1"}
		probe := b.claimedBy(k, "dead-token", "sub-dead")
		a := b.post("k1", probe)
		require.Equal(t, 201, a.status)
		require.Contains(t, a.body, "sub-dead")
	})
	t.Run("WokenHolderCannotComplete", func(t *testing.T) {
		t.Parallel()
		asleep, wake := make(chan string, 1), make(chan struct{})
		var runs atomic.Int64
		b := setup(t, 300*time.Millisecond, func(w http.ResponseWriter, _ *http.Request, subject string) {
			n := runs.Add(1)
			if n == 1 {
				asleep <- subject
				<-wake // a pause longer than the lease
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, "run %d of %s", n, subject)
		})
		first := make(chan answer, 1)
		go func() { a, _ := b.try("k1", "{}"); first <- a }()
		subject := <-asleep
		var second answer
		require.Eventually(t, func() bool { second = b.post("k1", "{}"); return second.status == 201 }, 10*time.Second, 20*time.Millisecond)
		require.Equal(t, "run 2 of "+subject, second.body)
		close(wake)
		woken := <-first
		require.Equal(t, second.body, woken.body, "the woken process gives the answer that counts")
		require.Equal(t, "true", woken.header.Get("Idempotency-Replayed"))
		require.EqualValues(t, 1, b.count(idempotency.Overtaken))
		require.Equal(t, second.body, b.post("k1", "{}").body)
	})
}

// claimedBy leaves the row of a holder that died, and returns the body its request had.
func (b *bundle) claimedBy(k store.Key, token, subject string) string {
	const body = "{}"
	var fp []byte
	// The fingerprint is learnt from a claim of the same request under another key.
	b.post("probe", body)
	conn, err := pgx.Connect(b.t.Context(), b.db.OwnerURL)
	require.NoError(b.t, err)
	defer func() { _ = conn.Close(b.t.Context()) }()
	require.NoError(b.t, conn.QueryRow(b.t.Context(), "SELECT fingerprint FROM idempotency_keys WHERE key = 'probe'").Scan(&fp))
	st, err := b.store.KeyClaim(b.t.Context(), k, fp, subject, token, time.Millisecond)
	require.NoError(b.t, err)
	require.True(b.t, st.Mine)
	require.Eventually(b.t, func() bool {
		g, err := b.store.KeyClaim(b.t.Context(), k, []byte("another fingerprint, so that nothing is taken"), subject, "looker", 0)
		return err == nil && g.LeaseLeft == 0
	}, 5*time.Second, 5*time.Millisecond)
	return body
}

// TestStoredAnswerIsSealed: what the table holds says nothing to somebody who reads it.
func TestStoredAnswerIsSealed(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Minute, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "MARKER-IN-ANSWER")
	})
	b.post("k1", "MARKER-IN-BODY")
	conn, err := pgx.Connect(t.Context(), b.db.OwnerURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var row string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT k::text || encode(sealed_response, 'escape') FROM idempotency_keys k").Scan(&row))
	require.NotContains(t, row, "MARKER")
	// Moved to another key's row, it does not open.
	b.post("k2", "MARKER-IN-BODY")
	_, err = conn.Exec(t.Context(), `UPDATE idempotency_keys SET sealed_response = (SELECT sealed_response FROM idempotency_keys WHERE key = 'k1') WHERE key = 'k2'`)
	require.NoError(t, err)
	require.Equal(t, 503, b.post("k2", "MARKER-IN-BODY").status)
}
