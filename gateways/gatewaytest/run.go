package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// Run runs every case against the harness. The cases count what the provider's books say, not what the gateway says.
func Run(t *testing.T, h Harness) {
	t.Helper()
	cases := []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"CapabilitiesMatchTheMethods", capabilitiesMatch},
		{"CredentialMarksTheKey", credentials},
		{"ConfirmCapturesWhatWasPlanned", confirmCaptures},
		{"DeclineIsAnObservationAndCapturesNothing", declineIsObserved},
		{"CancelClosesForGood", cancelCloses},
		{"CancelWhoseAnswerIsLostIsFound", cancelLost},
		{"RefundsMadeElsewhereAreSeen", refundsSeen},
		{"AbsentPaymentIsNotFoundAndNotAFailure", absentIsNotFound},

		{"SameConfirmTwiceIsOneCharge", sameTwice},
		{"SamePrepareTwiceIsOneObject", samePrepareTwice},
		{"AnswerLostThenLookupFindsPayment", answerLostThenLookup},
		{"AnswerLostThenRepeatIsOneCharge", answerLostThenRepeat},
		{"CutBeforeEffectIsUnknownToo", cutBefore},
		{"EffectAfterTheCallerLeftIsFound", lateEffect},
		{"RepeatWhileInFlightIsInProgress", inFlight},
		{"StoredErrorIsUnknownAndLookupDecides", storedError},
		{"NewOperationAfterAReceivedError", newKeyAfterError},
		{"TooManyRequestsCarriesTheDelay", busy},
		{"CancelledContextIsUnknown", cancelledContext},
		{"TimeoutIsUnknown", timeout},

		{"GarbageNeverDecides", garbage},
		{"AnotherPaymentsAnswerIsVisible", otherPayment},
		{"AConfirmThatSaysUntouchedIsUnknown", untouchedConfirm},
		{"TheOtherModeIsVisible", otherMode},
		{"FaultsQuoteNothing", quoting},

		{"WrongFieldsAreVisible", altered},
		{"SettingsThatContradictAreRefused", settings},
		{"SameKeyOtherRequestIsNeverASecondEffect", changedBody},

		{"ARefundGivesBackWhatWasPlanned", refundWhole},
		{"TwoPartsAreTwoRefunds", refundTwice},
		{"HeldMoneyIsCapturedOnce", heldIsCaptured},
		{"CaptureWhoseAnswerIsLostIsFound", captureLost},
		{"ReleasedMoneyIsCapturedByNobody", heldIsReleased},
		{"CapturesAreRefusedByForm", captureForms},
		{"SameRefundTwiceIsOne", sameRefundTwice},
		{"RefundWhoseAnswerIsLostIsFound", refundLostThenLookup},
		{"RefundWhoseAnswerIsLostIsRepeatedAsOne", refundLostThenRepeat},
		{"RefundCutBeforeEffectIsUnknownToo", refundCutBefore},
		{"StoredErrorOfARefundIsUnknownAndLookupDecides", refundStoredError},
		{"RefundTimeoutIsUnknown", refundTimeout},
		{"MoreThanIsLeftIsRefusedAndNothingGoesBack", refundAbove},
		{"NothingGoesBackOfWhatWasNotTaken", refundUncaptured},
		{"PendingRefundsEndEitherWay", refundSlow},
		{"AnotherPaymentsRefundIsVisible", otherRefund},
		{"RefundGarbageNeverDecides", refundGarbage},
		{"RefundsHaveKeysOfTheirOwn", refundKeys},
		{"RefundsAreRefusedByForm", refundForms},
		{"ListHasEveryPaymentOnce", listWhole},
		{"AnEmptyPageProvesNothing", listEmpty},
		{"AListThatCannotBeReadIsNoEmptyList", listGarbage},

		{"TheBuyerDecidesWhatWaits", waiting},
		{"ALostAnswerOfAWaitingPaymentIsFound", waitingLost},

		{"NoticeNamesItsPayment", noticeGenuine},
		{"NoticeTamperedIsUnproven", noticeTampered},
		{"NoticeReformattedIsUnproven", noticeReformatted},
		{"NoticeWithoutProofIsUnproven", noticeUnsigned},
		{"NoticeOutsideItsTimeIsUnproven", noticeTimes},
		{"NoticeNeedsASecret", noticeOff},
		{"NoticeOfNewWordsIsAccepted", noticeDrift},
		{"NoticeOfTheOtherModeSaysSo", noticeOtherMode},
		{"NoticeWithoutIDIsMalformed", noticeNoID},
		{"NoticeWithAnyFieldNullNeverBreaks", noticeNulls},
		{"NoticeOfRubbishIsRefused", noticeRubbish},

		{"AmountsKeepTheirExponent", amounts},
		{"AmountsItCannotSayAreRefused", refusedAmounts},
		{"OddReferencesTravelWhole", references},
		{"AlikeReferencesAreToldApart", alikeReferences},
		{"ListingFindsEveryPayment", listing},
		{"OddDescriptionsNeverStopAPayment", descriptions},

		{"EveryKindHasItsOwnStableKey", keys},
		{"FrozenBytesAreWhatIsSent", frozenBytes},
		{"WriteWithoutKeyNeverLeaves", noKey},
		{"ConcurrentUseIsSafe", concurrent},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, h)
		})
	}
}

// bench is one case's provider and gateway.
type bench struct {
	Provider
	gw   gateways.Gateway
	caps gateways.Capabilities
	h    Harness
}

func setup(t *testing.T, h Harness) bench {
	t.Helper()
	p := h.New(t)
	gw := p.Open(t, nil)
	return bench{Provider: p, gw: gw, caps: gw.Capabilities(), h: h}
}

// repeatable reports that a write of the attempt may be sent again under the same key.
func (b bench) repeatable(kind gateways.Kind, a *attempt) bool {
	return b.caps.RepeatSafe(kind, a.payment.Method.Type) > 0
}

// guarded leaves a case out where the provider has no guard against a repeat: there a write is sent once, ever, and the
// caller sees to that.
func (b bench) guarded(t *testing.T, kind gateways.Kind, a *attempt) {
	t.Helper()
	if !b.repeatable(kind, a) {
		t.Skipf("the provider has no guard against a repeated %s, so it is never repeated", kind)
	}
}

// repeated sends a confirm again that was executed before. Where the provider's guard is a single-use token, it answers
// that this was done already, and a lookup tells the rest.
func (b bench) repeated(t *testing.T, a *attempt) gateways.Observation {
	t.Helper()
	o, err := b.confirm(t.Context(), a)
	if err != nil && b.h.RepeatIsConflict {
		class(t, err, fault.Conflict)
		o, err = b.lookup(t.Context(), a)
	}
	require.NoError(t, err)
	return o
}

// attempt is one payment with its stored writes, as the store would hold it.
type attempt struct {
	payment gateways.Payment
	planned map[gateways.Kind][]byte
	keys    string // what its stored keys begin with
	id      string // given by the checkout, or learnt from Prepare or Confirm
	private secret.Value
	since   time.Time // before its first write
}

// nameless is the attempt as it stands when no answer ever told its id.
func (a *attempt) nameless() *attempt {
	out := *a
	out.id = ""
	return &out
}

// learn keeps what an answer says for later calls, as the store does: an id once, a secret when there is one.
func (a *attempt) learn(o gateways.Observation) {
	if a.id == "" {
		a.id = o.ProviderPaymentID
	}
	if !o.Private.IsZero() {
		a.private = o.Private
	}
}

var references64 atomic.Int64

// reference is short, unique and safe, as the store makes them.
func reference() string { return fmt.Sprintf("OF%016d", references64.Add(1)) }

func standard(h Harness) money.Amount {
	if len(h.Prices) > 0 {
		return h.Prices[0].Amount
	}
	return money.Amount{Minor: 1500, Currency: "JPY"}
}

func (b bench) plan(t *testing.T, p gateways.Payment) *attempt {
	t.Helper()
	planned, err := b.gw.Plan(p)
	require.NoError(t, err)
	a := &attempt{payment: p, keys: "key-" + reference(), planned: map[gateways.Kind][]byte{}, since: time.Now()}
	if i, ok := b.gw.(gateways.Identifier); ok {
		known := i.Identify(p)
		require.NotEmpty(t, known.ProviderPaymentID, "the buyer has been at the provider already")
		require.Equal(t, p.MerchantReference, known.MerchantReference, "the harness starts the payment under its reference")
		a.id = known.ProviderPaymentID
	}
	for _, w := range planned {
		a.planned[w.Kind] = w.Request
	}
	require.Contains(t, a.planned, gateways.Confirm)
	return a
}

// prepared plans an accepted payment and brings it to the point before its confirm.
func (b bench) prepared(t *testing.T) *attempt {
	t.Helper()
	return b.prepare(t, b.plan(t, b.Payment(t, reference(), standard(b.h))))
}

func (b bench) prepare(t *testing.T, a *attempt) *attempt {
	t.Helper()
	if !b.caps.Prepares {
		return a
	}
	o, err := b.gw.Send(t.Context(), gateways.Prepare, a.operation(gateways.Prepare))
	require.NoError(t, err)
	require.Equal(t, gateways.Untouched, o.Outcome, "a prepared object has seen no confirm")
	require.True(t, o.ProviderPaymentID != "" || !o.Private.IsZero(), "a prepared object has a name")
	require.Equal(t, a.payment.MerchantReference, o.MerchantReference)
	a.learn(o)
	return a
}

func (a *attempt) operation(kind gateways.Kind) gateways.Operation {
	op := gateways.Operation{
		Key: a.keys + "-" + string(kind), Request: a.planned[kind],
		MerchantReference: a.payment.MerchantReference, Private: a.private,
	}
	if kind != gateways.Prepare {
		op.ProviderPaymentID = a.id
	}
	return op
}

func (b bench) confirm(ctx context.Context, a *attempt) (gateways.Observation, error) {
	o, err := b.gw.Send(ctx, gateways.Confirm, a.operation(gateways.Confirm))
	o, err = b.hinted(ctx, a, o, err)
	if err == nil && o.MerchantReference == a.payment.MerchantReference {
		a.learn(o)
	}
	return o, err
}

// hinted does what every caller does with a conflict: it looks at once. Where answers are hints, that is the answer.
func (b bench) hinted(ctx context.Context, a *attempt, o gateways.Observation, err error) (gateways.Observation, error) {
	if f := fault.As(err); b.h.AnswersAreHints && f != nil && f.Class == fault.Conflict {
		return b.lookup(ctx, a)
	}
	return o, err
}

func (b bench) lookup(ctx context.Context, a *attempt) (gateways.Observation, error) {
	return b.gw.Lookup(ctx, a.query())
}

func (a *attempt) query() gateways.Query {
	return gateways.Query{
		ProviderPaymentID: a.id,
		MerchantReference: a.payment.MerchantReference,
		Currency:          a.payment.Amount.Currency,
		Since:             a.since,
		Private:           a.private,
	}
}

// paid asserts that an observation is the whole truth about a captured attempt.
func (b bench) paid(t *testing.T, a *attempt, o gateways.Observation) {
	t.Helper()
	require.Equal(t, gateways.Succeeded, o.Outcome)
	require.Equal(t, b.gw.Account(), o.Account)
	require.Equal(t, a.payment.MerchantReference, o.MerchantReference)
	require.Equal(t, a.payment.Amount.Currency, o.Currency)
	require.Equal(t, a.payment.Amount.Minor, o.AmountMinor)
	require.Equal(t, a.payment.Amount.Minor, o.CapturedMinor)
	require.Zero(t, o.RefundedMinor)
	require.NotEmpty(t, o.ProviderPaymentID)
	require.False(t, o.Final, "final means that nothing was captured")
	if a.id != "" {
		require.Equal(t, a.id, o.ProviderPaymentID)
	}
}

// charged asserts what the provider's books hold.
func (b bench) charged(t *testing.T, a *attempt, times int) {
	t.Helper()
	captures := b.Captures(t, a.payment.MerchantReference)
	require.Len(t, captures, times, "captures in the provider's books")
	for _, c := range captures {
		require.Equal(t, a.payment.Amount, c.Amount)
	}
}

// class asserts the class of a fault and returns it.
func class(t *testing.T, err error, want fault.Class) *fault.Error {
	t.Helper()
	require.Error(t, err)
	var f *fault.Error
	require.ErrorAs(t, err, &f, "errors of a gateway are faults")
	require.Equal(t, want, f.Class, "%v", f)
	require.Equal(t, fault.PolicyOf(f.Code).Class, f.Class, "class and code agree")
	return f
}

// eventually waits on a condition of the provider's books.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Second, 5*time.Millisecond, what)
}

// unsettled asserts that an answer decided nothing.
func unsettled(t *testing.T, o gateways.Observation, err error) {
	t.Helper()
	if err != nil {
		var f *fault.Error
		require.True(t, errors.As(err, &f), "errors of a gateway are faults")
		require.NotEqual(t, fault.Declined, f.Class, "a decline lets somebody charge again")
		return
	}
	require.Equal(t, gateways.Unknown, o.Outcome)
	require.False(t, o.Final)
}
