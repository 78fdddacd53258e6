package server_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
)

func (b *bundle) must(w wire, err error) wire {
	b.t.Helper()
	require.NoError(b.t, err)
	return w
}

func (b *bundle) issuer(method string, kind issuersim.Kind, rest string) wire {
	b.t.Helper()
	return b.must(b.call(method, "/issuers/"+string(kind)+"/v1/issuances"+rest, "", map[string]string{"Authorization": "Bearer issuer-token"}))
}

func TestIssuersDifferInWhatTheyGuard(t *testing.T) {
	t.Parallel()
	for kind, want := range map[issuersim.Kind]struct {
		issued, second, look, revoke int
	}{
		issuersim.Idempotent: {1, 200, 200, 200},
		issuersim.Lookup:     {2, 201, 200, 200},
		issuersim.Opaque:     {2, 201, 404, 404},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Contains(t, []int{404, 405}, b.issuer(http.MethodGet, kind, "/op").status)
			first := b.must(b.issue(kind, "op", "u-1"))
			require.Equal(t, 201, first.status, first.text)
			require.Equal(t, []string{"issued", "op"}, []string{first.str("status"), first.str("operation_id")})
			second := b.must(b.issue(kind, "op", "u-1"))
			require.Equal(t, want.second, second.status)
			require.Equal(t, want.issued == 1, first.str("reference") == second.str("reference"))
			issued := b.Issuers().Issuances(issuersim.Filter{UnitID: "u-1"})
			require.Len(t, issued, want.issued)
			require.Equal(t, []string{"o-1", "ticket", "op"}, []string{issued[0].OrderID, issued[0].SKU, issued[0].OperationID})

			look := b.issuer(http.MethodGet, kind, "/op")
			require.Equal(t, want.look, look.status)
			if want.look == 200 {
				require.Equal(t, first.str("issuance_id"), look.str("issuance_id"))
			}
			require.Equal(t, want.revoke, b.issuer(http.MethodPost, kind, "/op/revoke").status)
			require.Equal(t, want.revoke, b.issuer(http.MethodPost, kind, "/op/revoke").status, "doing it again answers the same")
			live := b.Issuers().Issuances(issuersim.Filter{LiveOnly: true})
			require.Equal(t, want.revoke == 200, len(live) == 0)
		})
	}
}

func TestIdempotentIssuerUnderAStorm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fault(faults.Fault{Target: faults.Issuer, Times: 1, Action: faults.Slow, Delay: 50 * time.Millisecond})
	var wg sync.WaitGroup
	statuses := make([]int, 16)
	for i := range statuses {
		wg.Go(func() { statuses[i] = b.must(b.issue(issuersim.Idempotent, "op", "u-1")).status })
	}
	wg.Wait()
	require.Len(t, b.Issuers().Issuances(issuersim.Filter{}), 1)
	for _, s := range statuses {
		require.Contains(t, []int{200, 201, 409}, s)
	}
}

func TestIssuerRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	post := func(body, key, token string) int {
		return b.must(b.call(http.MethodPost, "/issuers/idempotent/v1/issuances", body, map[string]string{"Authorization": token, "Idempotency-Key": key})).status
	}
	const good = `{"operation_id":"op","order_id":"o","unit_id":"u","sku":"s","recipient_ref":""}`
	require.Equal(t, 401, post(good, "op", "Bearer wrong"))
	require.Equal(t, 400, post(good, "", "Bearer issuer-token"))
	require.Equal(t, 400, post(good, "other", "Bearer issuer-token"))
	require.Equal(t, 400, post(`{"operation_id":"op"}`, "op", "Bearer issuer-token"))
	require.Equal(t, 400, post(`{`, "op", "Bearer issuer-token"))
	require.Empty(t, b.Issuers().Issuances(issuersim.Filter{}))
	require.Equal(t, 201, post(good, `"op"`, "Bearer issuer-token"), "the header in quotes, as the IETF draft writes it")
	require.Equal(t, 400, post(`{"operation_id":"op","order_id":"o","unit_id":"OTHER","sku":"s","recipient_ref":""}`, "op", "Bearer issuer-token"))
	require.Len(t, b.Issuers().Issuances(issuersim.Filter{}), 1)
}

func TestLookupShowsNothingDuringItsLag(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Issuers().SetLookupLag(time.Hour)
	b.must(b.issue(issuersim.Lookup, "op", "u-1"))
	require.Equal(t, 404, b.issuer(http.MethodGet, issuersim.Lookup, "/op").status, "issued, and not found")
	b.Issuers().SetLookupLag(0)
	require.Equal(t, 200, b.issuer(http.MethodGet, issuersim.Lookup, "/op").status)
}

func TestAcceptedNowIssuedLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fault(faults.Fault{Target: faults.Issuer, Times: 1, Action: faults.Accept, Delay: 100 * time.Millisecond})
	w := b.must(b.issue(issuersim.Idempotent, "op", "u-1"))
	require.Equal(t, 202, w.status)
	require.Equal(t, "processing", w.str("status"))
	within(t, "it is issued", func() bool { return b.issuer(http.MethodGet, issuersim.Idempotent, "/op").str("status") == "issued" })
	require.Equal(t, 200, b.must(b.issue(issuersim.Idempotent, "op", "u-1")).status)
	require.Len(t, b.Issuers().Issuances(issuersim.Filter{}), 1)
}

func TestReceiverTakesEachEventOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const paid, shipped = `{"type":"order.paid","data":{"order_id":"o-1"}}`, `{"type":"order.provided","data":{"order_id":"o-1"}}`
	for _, e := range []struct{ id, body string }{{"e-1", paid}, {"e-2", shipped}, {"e-1", paid}, {"e-3", `{"type":"order.paid","data":{"order_id":"o-2"}}`}} {
		require.Equal(t, 200, b.must(b.deliver(e.id, e.body)).status)
	}
	effects := b.Receiver().Effects(receiver.Filter{OrderID: "o-1"})
	require.Len(t, effects, 2)
	require.Equal(t, []string{"order.paid", "order.provided"}, []string{effects[0].Type, effects[1].Type})
	require.Equal(t, []int{1, 2}, []int{effects[0].Position, effects[1].Position})
	require.Equal(t, 2, effects[0].Taken)
	require.Len(t, b.Receiver().Deliveries(receiver.Filter{}), 4)

	require.Equal(t, 200, b.must(b.deliver("e-1", shipped)).status)
	all := b.Receiver().Deliveries(receiver.Filter{ID: "e-1"})
	require.Contains(t, all[len(all)-1].Problem, "another body")
}

func TestReceiverRefusesForgeries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const body = `{"type":"order.paid","data":{"order_id":"o-1"}}`
	for name, change := range map[string]func(map[string]string){
		"NoSignature":    func(h map[string]string) { delete(h, "webhook-signature") },
		"OtherSignature": func(h map[string]string) { h["webhook-signature"] = "v1,AAAA" },
		"OtherID":        func(h map[string]string) { h["webhook-id"] = "e-2" },
		"Old": func(h map[string]string) {
			h["webhook-timestamp"] = strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
		},
		"NotJSON": func(h map[string]string) { h["Content-Type"] = "text/plain" },
	} {
		t.Run(name, func(t *testing.T) {
			h := b.event("e-1", body)
			change(h)
			require.Equal(t, 401, b.must(b.call(http.MethodPost, "/receiver", body, h)).status)
		})
	}
	require.Empty(t, b.Receiver().Effects(receiver.Filter{}))
	h := b.event("e-1", body)
	h["webhook-signature"] = "v1,AAAA " + h["webhook-signature"]
	require.Equal(t, 200, b.must(b.call(http.MethodPost, "/receiver", body, h)).status, "two signatures while a secret is rotated")
	require.Equal(t, 405, b.must(b.call(http.MethodGet, "/receiver", "", nil)).status)
}
