package issuertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/issuers"
)

// bound ends a test whose issuer forgot to end a request; it is never waited for when all is well.
const bound = 20 * time.Second

// bench is one subtest's side, with helpers that fail the test.
type bench struct {
	Side
	t    *testing.T
	caps issuers.Capabilities
}

// Run holds an issuer against the contract. What an issuer must do depends on its own Capabilities, so it is run once per
// kind of issuer.
func Run(t *testing.T, h Harness) {
	for name, check := range map[string]func(*bench){
		"FrozenBytesNameTheOperationAndNeverChange":   frozen,
		"ARequestThatCannotBeReadIsRefusedBeforehand": unreadable,
		"BytesOfAnotherOperationAreNotSent":           foreignBytes,
		"IssuedOnce":                                  issuedOnce,
		"SameOperationTwice":                          twice,
		"LostAnswerIsUnknownAndResolvedByKind":        lostAnswer,
		"LostRequestIsUnknown":                        lostRequest,
		"CanceledCallIsUnknown":                       canceled,
		"DeadlineIsUnknown":                           deadline,
		"CallCanceledBeforehandIsUnknown":             canceledBefore,
		"GarbageIsUnknown":                            garbage,
		"AnotherOperationsAnswerIsAMismatch":          mismatch,
		"StatusesWithAMeaning":                        statuses,
		"RefusalIsAnObservation":                      refusal,
		"ProcessingIsAnObservation":                   processing,
		"LookupNotFoundIsAnObservation":               notFound,
		"LookupThatFailsProvesNothing":                lookupFails,
		"LookupCutProvesNothing":                      lookupCut,
		"LookupWhereThereIsNone":                      noLookup,
		"Revoke":                                      revoke,
		"RevokeThatFails":                             revokeFails,
		"ManyOperationsAtOnce":                        manyOperations,
		"OneOperationManyTimesAtOnce":                 oneOperation,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			side := h.Open(t)
			check(&bench{Side: side, t: t, caps: side.Issuer.Capabilities()})
		})
	}
	t.Run("CapabilitiesAreComplete", func(t *testing.T) {
		t.Parallel()
		side := h.Open(t)
		require.NotEmpty(t, side.Issuer.Name())
		require.Positive(t, side.Issuer.Capabilities().SendTimeout, "without it nobody knows when a missing answer is lost")
		if side.Issuer.Capabilities().NotFoundFinalAfter > 0 {
			require.True(t, side.Issuer.Capabilities().Lookup)
		}
	})
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) freeze(r issuers.Request) []byte {
	b.t.Helper()
	frozen, err := b.Issuer.Freeze(r)
	require.NoError(b.t, err)
	return frozen
}

func (b *bench) issue(r issuers.Request) (issuers.Observation, error) {
	b.t.Helper()
	return b.Issuer.Issue(b.ctx(), r.OperationID, b.freeze(r))
}

// arm makes the next call about an operation go wrong, and skips the subtest where the far side cannot misbehave so.
func (b *bench) arm(on Call, operationID string, trouble Trouble) {
	b.t.Helper()
	trouble.Body = strings.ReplaceAll(trouble.Body, mark, operationID)
	if !b.Arm(b.t, on, trouble) {
		b.t.Skipf("this far side cannot do %+v on %s", trouble, on)
	}
}

func (b *bench) faultIs(err error, code fault.Code) *fault.Error {
	b.t.Helper()
	require.Error(b.t, err)
	var f *fault.Error
	require.ErrorAs(b.t, err, &f)
	require.Equal(b.t, code, f.Code, "%v (cause: %v)", f, f.Cause)
	require.Equal(b.t, fault.PolicyOf(code).Class, f.Class)
	if f.Class != fault.Internal {
		require.Equal(b.t, b.Issuer.Name(), f.Provider.Name, "a fault has to say whose it is")
	}
	return f
}

func (b *bench) issued(o issuers.Observation, err error, r issuers.Request) {
	b.t.Helper()
	require.NoError(b.t, err)
	require.Equal(b.t, issuers.Issued, o.Outcome)
	require.Equal(b.t, r.OperationID, o.OperationID)
	require.NotEmpty(b.t, o.IssuanceID)
	require.NotEmpty(b.t, o.Reference)
}

func frozen(b *bench) {
	first := b.freeze(request(1))
	for range 20 {
		require.Equal(b.t, first, b.freeze(request(1)), "a request that changes over a restart is another request under the same key")
	}
	require.Contains(b.t, string(first), request(1).OperationID)
	require.NotEqual(b.t, first, b.freeze(request(2)))
}

func unreadable(b *bench) {
	for name, spoil := range map[string]func(*issuers.Request){
		"NoOperation":      func(r *issuers.Request) { r.OperationID = "" },
		"NoUnit":           func(r *issuers.Request) { r.UnitID = "" },
		"NoSKU":            func(r *issuers.Request) { r.SKU = "" },
		"NUL":              func(r *issuers.Request) { r.SKU = "a\x00" },
		"LineBreakInKey":   func(r *issuers.Request) { r.OperationID = "op\r\nX-Evil: 1" },
		"PathInOperation":  func(r *issuers.Request) { r.OperationID = "../admin" },
		"DotsAsOperation":  func(r *issuers.Request) { r.OperationID = ".." },
		"InvalidRecipient": func(r *issuers.Request) { r.RecipientRef = "\xff" },
	} {
		r := request(1)
		spoil(&r)
		_, err := b.Issuer.Freeze(r)
		require.Error(b.t, err, name)
		b.faultIs(err, fault.IssuanceInvalid)
	}
}

func foreignBytes(b *bench) {
	for _, bytes := range [][]byte{b.freeze(request(2)), nil, []byte("{}"), []byte("rubbish")} {
		_, err := b.Issuer.Issue(b.ctx(), request(1).OperationID, bytes)
		b.faultIs(err, fault.InternalError)
	}
	require.Zero(b.t, b.Sent(request(1).OperationID)+b.Sent(request(2).OperationID))
}

func issuedOnce(b *bench) {
	r := request(1)
	o, err := b.issue(r)
	b.issued(o, err, r)
	require.Equal(b.t, 1, b.Sent(r.OperationID))
	require.Equal(b.t, 1, b.Issued(r.OperationID))
	if b.caps.Lookup {
		found, err := b.Issuer.Lookup(b.ctx(), r.OperationID)
		b.issued(found, err, r)
		require.Equal(b.t, o, found)
	}
}

// twice: an issuer that claims to be idempotent is. One that does not claim it gets both requests, since hiding one would
// make the caller believe in a guard that is not there.
func twice(b *bench) {
	r := request(1)
	first, err := b.issue(r)
	b.issued(first, err, r)
	second, err := b.issue(r)
	require.Equal(b.t, 2, b.Sent(r.OperationID), "an implementation neither repeats nor remembers")
	if b.caps.Idempotent {
		b.issued(second, err, r)
		require.Equal(b.t, first, second)
		require.Equal(b.t, 1, b.Issued(r.OperationID))
		return
	}
	if err == nil && second.Outcome == issuers.Issued && second.IssuanceID != first.IssuanceID {
		require.Equal(b.t, 2, b.Issued(r.OperationID))
	}
}

func lostAnswer(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Effect: true, Cut: true})
	_, err := b.issue(r)
	b.faultIs(err, fault.IssuanceUnknown)
	require.Equal(b.t, 1, b.Sent(r.OperationID), "a write is never repeated by the implementation")
	b.resolve(r)
	require.Equal(b.t, 1, b.Issued(r.OperationID))
}

// resolve finds out what a lost answer was, by whatever the issuer has for it.
func (b *bench) resolve(r issuers.Request) {
	b.t.Helper()
	if b.caps.Lookup {
		o, err := b.Issuer.Lookup(b.ctx(), r.OperationID)
		b.issued(o, err, r)
	}
	if b.caps.Idempotent {
		o, err := b.issue(r)
		b.issued(o, err, r)
	}
}

func lostRequest(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Cut: true})
	_, err := b.issue(r)
	b.faultIs(err, fault.IssuanceUnknown)
	require.LessOrEqual(b.t, b.Sent(r.OperationID), 1)
	require.Zero(b.t, b.Issued(r.OperationID))
	if b.caps.Lookup {
		o, err := b.Issuer.Lookup(b.ctx(), r.OperationID)
		require.NoError(b.t, err)
		require.Equal(b.t, issuers.NotFound, o.Outcome)
	}
}

func canceled(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Effect: true, Hang: true})
	ctx, cancel := context.WithCancel(b.ctx())
	bytes := b.freeze(r)
	done := make(chan error, 1)
	go func() {
		_, err := b.Issuer.Issue(ctx, r.OperationID, bytes)
		done <- err
	}()
	require.Eventually(b.t, func() bool { return b.Issued(r.OperationID) == 1 }, bound, 2*time.Millisecond)
	cancel()
	b.faultIs(<-done, fault.IssuanceUnknown)
	b.resolve(r)
	require.Equal(b.t, 1, b.Issued(r.OperationID))
}

func deadline(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Effect: true, Hang: true})
	ctx, cancel := context.WithTimeout(b.ctx(), 200*time.Millisecond)
	defer cancel()
	_, err := b.Issuer.Issue(ctx, r.OperationID, b.freeze(r))
	f := b.faultIs(err, fault.IssuanceUnknown)
	require.True(b.t, errors.Is(f, context.DeadlineExceeded), "the cause says why: %v", f.Cause)
}

func canceledBefore(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx())
	cancel()
	_, err := b.Issuer.Issue(ctx, request(1).OperationID, b.freeze(request(1)))
	b.faultIs(err, fault.IssuanceUnknown)
}

func mismatch(b *bench) {
	r := request(1)
	foreign := Trouble{Effect: true, Status: 201, Body: `{"issuance_id":"iss_x","operation_id":"op_other","status":"issued","reference":"V-1"}`}
	b.arm(OnIssue, r.OperationID, foreign)
	_, err := b.issue(r)
	b.faultIs(err, fault.IssuanceMismatch)
	if b.caps.Lookup {
		foreign.Status = 200
		b.arm(OnLookup, r.OperationID, foreign)
		_, err = b.Issuer.Lookup(b.ctx(), r.OperationID)
		b.faultIs(err, fault.IssuanceMismatch)
	}
}

// statuses are those that say by themselves what a write came to: nothing was issued.
func statuses(b *bench) {
	for n, tc := range []struct {
		status int
		code   fault.Code
		after  time.Duration
	}{
		{401, fault.IssuerMisconfigured, 0},
		{403, fault.IssuerMisconfigured, 0},
		{409, fault.IssuanceInProgress, 0},
		{429, fault.IssuerRateLimited, 7 * time.Second},
	} {
		r := request(n)
		trouble := Trouble{Status: tc.status, Body: `{"code":"some_code"}`}
		if tc.after > 0 {
			trouble.Header = map[string]string{"Retry-After": fmt.Sprint(int(tc.after.Seconds()))}
		}
		b.arm(OnIssue, r.OperationID, trouble)
		_, err := b.issue(r)
		f := b.faultIs(err, tc.code)
		require.Equal(b.t, tc.after, f.RetryAfter)
		require.Equal(b.t, tc.status, f.Provider.HTTPStatus)
		require.Equal(b.t, 1, b.Sent(r.OperationID))
		require.Zero(b.t, b.Issued(r.OperationID))
	}
}

func refusal(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Status: 422, Body: `{"code":"sold_out"}`})
	o, err := b.issue(r)
	require.NoError(b.t, err, "a refusal is an answer")
	require.Equal(b.t, issuers.Observation{OperationID: r.OperationID, Outcome: issuers.Refused, Code: "sold_out"}, o)
	require.Zero(b.t, b.Issued(r.OperationID))
}

func processing(b *bench) {
	r := request(1)
	b.arm(OnIssue, r.OperationID, Trouble{Status: 202, Body: `{"status":"processing"}`})
	o, err := b.issue(r)
	require.NoError(b.t, err)
	require.Equal(b.t, issuers.Observation{OperationID: r.OperationID, Outcome: issuers.Processing}, o)
	if b.caps.Lookup {
		b.arm(OnLookup, r.OperationID, Trouble{Status: 200, Body: `{"status":"processing","operation_id":"` + mark + `"}`})
		o, err = b.Issuer.Lookup(b.ctx(), r.OperationID)
		require.NoError(b.t, err)
		require.Equal(b.t, issuers.Processing, o.Outcome)
	}
}

func manyOperations(b *bench) {
	const n = 32
	var wg sync.WaitGroup
	got, errs := make([]issuers.Observation, n), make([]error, n)
	frozen := make([][]byte, n)
	for i := range n {
		frozen[i] = b.freeze(request(i))
	}
	ctx := b.ctx()
	for i := range n {
		wg.Go(func() { got[i], errs[i] = b.Issuer.Issue(ctx, request(i).OperationID, frozen[i]) })
	}
	wg.Wait()
	ids := map[string]bool{}
	for i := range n {
		b.issued(got[i], errs[i], request(i))
		ids[got[i].IssuanceID] = true
		require.Equal(b.t, 1, b.Issued(request(i).OperationID))
	}
	require.Len(b.t, ids, n, "two operations got one issuance")
}

func oneOperation(b *bench) {
	if !b.caps.Idempotent {
		b.t.Skip("only an idempotent issuer may be asked twice")
	}
	const n = 16
	r := request(1)
	frozen, ctx := b.freeze(r), b.ctx()
	var wg sync.WaitGroup
	got, errs := make([]issuers.Observation, n), make([]error, n)
	for i := range n {
		wg.Go(func() { got[i], errs[i] = b.Issuer.Issue(ctx, r.OperationID, frozen) })
	}
	wg.Wait()
	require.Equal(b.t, 1, b.Issued(r.OperationID))
	var issuance string
	for i := range n {
		if errs[i] != nil {
			b.faultIs(errs[i], fault.IssuanceInProgress)
			continue
		}
		if got[i].Outcome == issuers.Processing {
			continue
		}
		b.issued(got[i], nil, r)
		if issuance == "" {
			issuance = got[i].IssuanceID
		}
		require.Equal(b.t, issuance, got[i].IssuanceID)
	}
	require.NotEmpty(b.t, issuance, "nobody got it")
}
