package omisesim_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"
	"github.com/stretchr/testify/require"

	"orderflow/sandbox/omisesim"
)

// Goal: the simulator speaks the language of the real SDK. Method: omise-go itself, over HTTP. Not covered: whether Omise
// decides as the simulator does.

func TestOmiseGoTokenizesChargesAndRefunds(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.sdk(t)
	token := &omisego.Token{}
	require.NoError(t, c.Do(token, &operations.CreateToken{Name: "A", Number: "4242424242424242", ExpirationMonth: 1, ExpirationYear: 2030, SecurityCode: "123"}))
	require.False(t, token.Used)
	charge := &omisego.Charge{}
	require.NoError(t, c.Do(charge, &operations.CreateCharge{
		Amount: 8050, Currency: "thb", Card: token.ID, Metadata: map[string]any{"merchant_reference": "of-1"},
	}))
	require.Equal(t, omisego.ChargeSuccessful, charge.Status)
	require.True(t, charge.Paid)
	require.Equal(t, int64(8050), charge.CapturedAmount)
	require.Equal(t, "4242", charge.Card.LastDigits)
	require.Equal(t, "of-1", charge.Metadata["merchant_reference"])
	require.NoError(t, c.Do(token, &operations.RetrieveToken{ID: token.ID}))
	require.True(t, token.Used)

	refund := &omisego.Refund{}
	require.NoError(t, c.Do(refund, &operations.CreateRefund{ChargeID: charge.ID, Amount: 50}))
	require.Equal(t, charge.ID, refund.Charge)
	refunds := &omisego.RefundList{}
	require.NoError(t, c.Do(refunds, &operations.ListRefunds{ChargeID: charge.ID}))
	require.Len(t, refunds.Data, 1)
	var failed *omisego.Error
	require.ErrorAs(t, c.Do(refund, &operations.CreateRefund{ChargeID: charge.ID, Amount: 8001}), &failed)
	require.Equal(t, "failed_refund", failed.Code)
	require.NoError(t, c.Do(charge, &operations.RetrieveCharge{ChargeID: charge.ID}))
	require.Equal(t, int64(50), charge.RefundedAmount)

	book := w.sim.Charges(omisesim.Filter{MerchantReference: "of-1"})
	require.Len(t, book, 1)
	require.Equal(t, []int64{8050, 8050, 50}, []int64{book[0].Amount, book[0].Captured, book[0].Refunded})
	for _, write := range w.sim.Writes(omisesim.Filter{}) {
		require.NotContains(t, write.Body, "4242424242424242", "the books hold no card number")
	}
}

func TestOmiseGoAuthorizesCapturesAndReverses(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.sdk(t)
	hold := func(token string) *omisego.Charge {
		charge := &omisego.Charge{}
		require.NoError(t, c.Do(charge, &operations.CreateCharge{Amount: 10000, Currency: "thb", Card: token, DontCapture: true}))
		require.Equal(t, omisego.ChargePending, charge.Status)
		require.True(t, charge.Authorized)
		require.False(t, charge.Paid)
		return charge
	}
	captured := hold("tokn_test_ok__a")
	require.NoError(t, c.Do(captured, &operations.CaptureCharge{ChargeID: captured.ID, CaptureAmount: 5000}))
	require.True(t, captured.Paid)
	require.Equal(t, int64(5000), captured.CapturedAmount)
	reversed := hold("tokn_test_ok__b")
	require.NoError(t, c.Do(reversed, &operations.ReverseCharge{ChargeID: reversed.ID}))
	require.Equal(t, omisego.ChargeReversed, reversed.Status)
	for _, op := range []error{
		c.Do(reversed, &operations.ReverseCharge{ChargeID: reversed.ID}), c.Do(reversed, &operations.CaptureCharge{ChargeID: reversed.ID}),
		c.Do(captured, &operations.CaptureCharge{ChargeID: captured.ID}),
	} {
		var failed *omisego.Error
		require.ErrorAs(t, op, &failed)
		require.Equal(t, http.StatusBadRequest, failed.StatusCode)
	}
	lapsed := hold("tokn_test_ok__c")
	w.pass(8 * 24 * time.Hour)
	var failed *omisego.Error
	require.ErrorAs(t, c.Do(lapsed, &operations.CaptureCharge{ChargeID: lapsed.ID}), &failed)
	require.Equal(t, "expired_charge", failed.Code)
	require.Equal(t, []string{
		"charge.create", "charge.complete", "charge.capture", "charge.create", "charge.complete", "charge.reverse",
		"charge.create", "charge.complete", "charge.expire",
	}, w.kinds())
}

// The parameters of omise-go's lists travel in the body of a GET; others put them into the query.
func TestOmiseGoListsInPages(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.sdk(t)
	for i := range 25 {
		w.charge(t, `"customer":"cust_test_ok__a","metadata":{"n":"`+string(rune('a'+i))+`"}`)
		if i == 12 {
			w.pass(time.Minute)
		}
	}
	list := &omisego.ChargeList{}
	require.NoError(t, c.Do(list, &operations.ListCharges{List: operations.List{Limit: 10, Offset: 20, Order: omisego.Chronological, To: w.now()}}))
	require.Equal(t, 25, list.Total)
	require.Len(t, list.Data, 5)
	require.Equal(t, "u", list.Data[0].Metadata["n"])
	require.NoError(t, c.Do(list, &operations.ListCharges{List: operations.List{Order: omisego.ReverseChronological, From: w.now()}}))
	require.Equal(t, 12, list.Total)
	require.Equal(t, "y", list.Data[0].Metadata["n"])
	_, query := w.ask(t, http.MethodGet, "/charges?limit=10&offset=20&order=chronological", secretKey, "")
	require.Len(t, query["data"], 5)
	_, body := w.ask(t, http.MethodGet, "/charges?limit=99", secretKey, `{"limit":3}`)
	require.Len(t, body["data"], 3)
	for _, bad := range []string{`{"limit":101}`, `{"limit":0}`, `{"limit":"x"}`, `{"offset":-1}`, `{"order":"up"}`, `{"from":"soon"}`, `[]`, `{`} {
		status, _ := w.ask(t, http.MethodGet, "/charges", secretKey, bad)
		require.Equal(t, 400, status, bad)
	}
}

func TestOmiseGoPaysByASource(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.sdk(t)
	source := &omisego.Source{}
	require.NoError(t, c.Do(source, &operations.CreateSource{Type: "promptpay", Amount: 10000, Currency: "thb"}))
	charge := &omisego.Charge{}
	require.NoError(t, c.Do(charge, &operations.CreateCharge{Amount: 10000, Currency: "thb", Source: source.ID, ReturnURI: "https://shop.example/"}))
	require.Equal(t, omisego.ChargePending, charge.Status)
	require.NotEmpty(t, charge.Source.ScannableCode.Image.DownloadURI)
	require.False(t, charge.ExpiresAt.IsZero())
	require.Error(t, c.Do(charge, &operations.CreateCharge{Amount: 10001, Currency: "thb", Source: source.ID}), "another amount than the source's")
	require.True(t, w.sim.Decide(charge.ID, true))
	require.False(t, w.sim.Decide(charge.ID, true), "it waits no more")
	require.NoError(t, c.Do(charge, &operations.RetrieveCharge{ChargeID: charge.ID}))
	require.Equal(t, omisego.ChargeSuccessful, charge.Status)

	events := &omisego.EventList{}
	require.NoError(t, c.Do(events, &operations.ListEvents{}))
	require.Len(t, events.Data, 2)
	event := &omisego.Event{}
	require.NoError(t, c.Do(event, &operations.RetrieveEvent{EventID: events.Data[1].ID}))
	require.Equal(t, "charge.complete", event.Key)
	paid, ok := event.Data.(*omisego.Charge)
	require.True(t, ok)
	require.Equal(t, charge.ID, paid.ID)
}

func TestOmiseGoSeesErrorsAsItKnowsThem(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.sdk(t)
	for name, op := range map[string]func() error{
		"used_token": func() error {
			op := &operations.CreateCharge{Amount: 10000, Currency: "thb", Card: "tokn_test_ok__a"}
			return errors.Join(c.Do(nil, op), c.Do(nil, op))
		},
		"not_found": func() error { return c.Do(nil, &operations.RetrieveCharge{ChargeID: "chrg_test_x"}) },
		"invalid_card": func() error {
			return c.Do(nil, &operations.CreateToken{Name: "A", Number: "4242424242424241"})
		},
		"invalid_amount": func() error { return c.Do(nil, &operations.CreateCharge{Currency: "thb", Card: "tokn_test_ok__b"}) },
		"missing_card":   func() error { return c.Do(nil, &operations.CreateCharge{Amount: 10000, Currency: "thb"}) },
		"bad_request": func() error {
			return c.Do(nil, &operations.CreateCharge{Amount: 10000, Currency: "krw", Card: "tokn_test_ok__b"})
		},
		"brand_not_supported": func() error {
			return c.Do(nil, &operations.CreateCharge{Amount: 10000, Currency: "thb", Card: "tokn_test_brand__b"})
		},
		"service_not_found": func() error { return c.Do(nil, &operations.RetrieveTransfer{TransferID: "x"}) },
	} {
		var failed *omisego.Error
		require.ErrorAs(t, op(), &failed, name)
		require.Equal(t, name, failed.Code)
	}
}
