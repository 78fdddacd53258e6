package omise

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/omise/omise-go/operations"
	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/gateways/gatewaytest"
	"orderflow/internal/fault"
	"orderflow/sandbox/omisesim"
)

func listOf(offset int) operations.List { return operations.List{Limit: listLimit, Offset: offset} }

// made makes a charge past the gateway and returns its id.
func made(t *testing.T, base, fields string) string {
	t.Helper()
	var c struct{ ID string }
	require.NoError(t, json.Unmarshal(call(t, base, http.MethodPost, "/charges", `{"amount":1500,"currency":"jpy",`+fields+`}`), &c))
	return c.ID
}

func TestCancelClosesByWhatTheChargeIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields, status, path string
		held                 int64
	}{
		"WaitingSource": {`"source":"src_test_konbini__a"`, "expired", "/expire", 0},
		"WaitingQR":     {`"source":"src_test_promptpay__a"`, "expired", "/expire", 0},
		"WaitingCard":   {`"card":"tokn_test_3ds__a","return_uri":"https://shop.example/"`, "expired", "/expire", 0},
		"Held":          {`"card":"tokn_test_ok__a","capture":false`, "reversed", "/reverse", 1500},
		"Declined":      {`"card":"tokn_test_insufficient__a"`, "failed", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSimulated(t, methodCard)
			g, ok := s.Open(t, nil).(*Gateway)
			require.True(t, ok)
			id := made(t, s.base, c.fields)
			o, err := g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
			require.NoError(t, err)
			require.Equal(t, c.held, o.AuthorizedMinor)
			for range 2 { // the second one finds nothing left to do
				o, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
				require.NoError(t, err)
				require.Equal(t, gateways.Declined, o.Outcome)
				require.True(t, o.Final)
				require.Equal(t, c.status, o.Status)
			}
			writes := s.sim.Writes(omisesim.Filter{Charge: id})
			if c.path == "" {
				require.Empty(t, writes, "what is closed needs no write")
				return
			}
			require.Len(t, writes, 1)
			require.Equal(t, "/charges/"+id+c.path, writes[0].Path)
			require.Equal(t, "{}", writes[0].Body)
		})
	}
}

func TestCancelNeverTouchesAPaidCharge(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	g, ok := s.Open(t, nil).(*Gateway)
	require.True(t, ok)
	id := made(t, s.base, `"card":"tokn_test_ok__a"`)
	_, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
	require.Empty(t, s.sim.Writes(omisesim.Filter{Charge: id}))
}

// The buyer pays between the read and the write: Omise refuses to expire, and a lookup finds the money.
func TestACancelThatComesTooLateIsAConflict(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	id := made(t, s.base, `"source":"src_test_promptpay__a"`)
	var reads atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.sim.ServeHTTP(w, r)
		if r.Method == http.MethodGet && reads.Add(1) == 1 {
			s.sim.Decide(id, true)
		}
	}))
	t.Cleanup(front.Close)
	g := open(t, front.URL)
	_, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.True(t, fault.IsCode(err, fault.PaymentAlready), "%v", err)
	require.Equal(t, "failed_expire", fault.As(err).Provider.Code)
	o, err := g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
	require.NoError(t, err)
	require.Equal(t, gateways.Succeeded, o.Outcome)
}

// A read that fails proves that nothing was sent; a write that fails proves nothing.
func TestAFailedCancelSaysWhetherItMayHaveHappened(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	g, ok := s.Open(t, nil).(*Gateway)
	require.True(t, ok)
	id := made(t, s.base, `"source":"src_test_promptpay__a"`)
	s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.CutBefore, On: gatewaytest.Lookup})
	_, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.True(t, fault.IsCode(err, fault.GatewayReadFailed), "%v", err)
	require.Empty(t, s.sim.Writes(omisesim.Filter{Charge: id}))

	s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.LoseAnswer, On: gateways.Cancel})
	_, err = g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	o, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.NoError(t, err, "and it may be sent again")
	require.True(t, o.Final)
	require.Len(t, s.sim.Writes(omisesim.Filter{Charge: id}), 1)

	_, err = g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, "chrg_test_absent"))
	require.True(t, fault.IsCode(err, fault.PaymentNotFound), "%v", err)
	require.Equal(t, fault.Conflict, fault.As(err).Class)
}

// A charge of which only a person may judge is not closed either.
func TestCancelLeavesAPersonsCaseAlone(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		strings.Replace(paidCharge, `"successful","paid":true`, `"failed","failure_code":"brand_new","paid":false`, 1),
		strings.Replace(paidCharge, `"successful"`, `"half_done"`, 1),
	} {
		body = strings.Replace(body, `"captured_amount":1500,`, "", 1)
		base, seen := scripted(t, 200, body)
		g := open(t, base)
		o, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, "chrg_test_1"))
		if err != nil {
			require.True(t, fault.IsCode(err, fault.PaymentNeedsReview), "%v", err)
		} else {
			require.Equal(t, gateways.Unknown, o.Outcome)
		}
		require.Equal(t, http.MethodGet, (<-seen).Method)
		require.Empty(t, seen)
	}
}

// A cancel is a read and a write, and both together keep the time that a send may take.
func TestACancelKeepsItsTime(t *testing.T) {
	t.Parallel()
	s := startSimulated(t, methodCard)
	id := made(t, s.base, `"source":"src_test_promptpay__a"`)
	gw := s.Open(t, func(s *gateways.Settings) { s.Timeout = 400 * time.Millisecond })
	g, ok := gw.(*Gateway)
	require.True(t, ok)
	s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Slow, On: gatewaytest.Lookup, Delay: 250 * time.Millisecond})
	s.Arm(t, gatewaytest.Fault{Kind: gatewaytest.Slow, On: gateways.Cancel, Delay: 250 * time.Millisecond})
	_, err := g.Send(t.Context(), gateways.Cancel, cancelOp(t, g, id))
	require.True(t, fault.IsCode(err, fault.PaymentUnknown), "%v", err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
