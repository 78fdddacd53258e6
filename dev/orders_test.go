package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/view"
)

// Goal: the table of a demo tells the truth, and the shop's page shows what the API says. Method: a scripted API and sandbox
// over HTTP. Not covered: that the orders come to where the scenarios say; make demo EXIT=1 does that.

func TestScenariosNameStatesThatExistAndEveryProvider(t *testing.T) {
	t.Parallel()
	promises := []order.Status{order.OrderOpen, order.OrderPaid, order.OrderCompleted, order.OrderExpired, order.OrderCanceled}
	payments := []view.PaymentState{view.PaymentActionNeeded, view.PaymentPaid, view.PaymentDeclined}
	goods := []view.FulfillmentState{view.FulfillmentNone, view.FulfillmentUnknown, view.FulfillmentFulfilled}
	paid, waiting, names := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, s := range scenarios() {
		name := s.Gateway + " " + s.Name
		assert.False(t, names[name], name)
		names[name] = true
		assert.Contains(t, promises, order.Status(s.Order), name)
		assert.Contains(t, payments, view.PaymentState(s.Payment), name)
		assert.Contains(t, goods, view.FulfillmentState(s.Fulfillment), name)
		assert.NotEmpty(t, s.Happened, name)
		assert.Less(t, len(s.Happened), 70, "%s: the table stays readable", name)
		if s.Payment == "paid" {
			paid[s.Gateway]++
		}
		if s.Payment == "action_needed" {
			waiting[s.Gateway]++
		}
	}
	for gateway := range providerNames {
		assert.Positive(t, paid[gateway], gateway)
		assert.Equal(t, 1, waiting[gateway], "%s: one payment for a person to finish", gateway)
	}
}

// scripted answers for the API and the sandbox by path; what is not in it is not found.
func scripted(t *testing.T, answers map[string]string) demoClient {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return demoClient{base: s.URL, sandbox: s.URL, shop: "http://shop.example"}
}

func TestTheTableTellsOnlyWhatHappened(t *testing.T) {
	t.Parallel()
	const done = `{"states":{"order":"completed","payment":"paid","fulfillment":"fulfilled"},"deliveries":[{"status":"delivered"}]}`
	const waits = `{"states":{"order":"open","payment":"action_needed","fulfillment":"none"},"attempts":[{"gateway":"toss","next_action":{"account":"X12 3"}}]}`
	s := scenario{Gateway: "omise", Currency: "THB", Happened: "it went well"}
	for name, c := range map[string]struct {
		scenario scenario
		view     string
		fault    string
		good     bool
		says     string
		todo     string
	}{
		"AsItShould":         {scenario: s.completed(), view: done, good: true, says: "it went well", todo: "nothing"},
		"FaultMet":           {scenario: s.completed(), view: done, fault: `{"used_up":true}`, good: true, says: "it went well", todo: "nothing"},
		"FaultNotMet":        {scenario: s.completed(), view: done, fault: `{"used_up":false}`, says: "what was to go wrong did not", todo: "nothing"},
		"ElsewhereThanMeant": {scenario: s.completed(), view: waits, says: "expected completed / paid / fulfilled", todo: "be the buyer: open SANDBOX/buyer/toss/X12%203"},
		"EventOnItsWay":      {scenario: s.completed(), view: strings.ReplaceAll(done, "delivered", "pending"), says: "NOT AS IT SHOULD BE", todo: "nothing"},
		"Unasked":            {scenario: s.ends("completed", "paid", "unknown"), view: strings.ReplaceAll(done, `fulfilled"}`, `unknown"}`), says: "NOT AS IT SHOULD BE", todo: "nothing"},
		"AskedForNoReason": {
			scenario: s.completed(), view: strings.Replace(done, `{`, `{"reviews":[{"id":"rev_1","status":"open"}],`, 1),
			says: "NOT AS IT SHOULD BE", todo: "decide review rev_1",
		},
		"AccountToPayInto": {scenario: s.waits(), view: waits, good: true, says: "it went well", todo: "be the buyer: open SANDBOX/buyer/toss/X12%203"},
		"NothingToOpen":    {scenario: s.waits(), view: strings.Replace(waits, "X12 3", "", 1), says: "NOT AS IT SHOULD BE", todo: "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := scripted(t, map[string]string{"GET /v1/orders/o 1": c.view, "GET /admin/faults/f": c.fault})
			d := &driven{scenario: c.scenario, ID: "o 1", Total: 45000}
			if c.fault != "" {
				d.Armed = []string{"/admin/faults/f"}
			}
			r, err := client.row(t.Context(), d)
			require.NoError(t, err)
			assert.Equal(t, c.good, r.Good)
			assert.Contains(t, r.Happened, c.says)
			assert.Equal(t, c.todo, strings.ReplaceAll(r.Todo, client.sandbox, "SANDBOX"))
			assert.Equal(t, "Omise THB 450.00", r.Paid)
			var table strings.Builder
			assert.Equal(t, c.good, printTable(&table, []row{{Good: true}, r}), "one wrong row is enough")
			assert.Contains(t, table.String(), r.Happened)
		})
	}
}

func TestTheShopsPageShowsWhatTheAPISays(t *testing.T) {
	t.Parallel()
	for state, again := range map[string]bool{"checking": true, "paid": true, "action_needed": true, "done": false, "declined": false} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(map[string]any{
				"states": map[string]string{"order": "open", "payment": "p-word", "fulfillment": "none"},
				"buyer":  map[string]string{"state": state, "message": "<b>Thank you</b>"},
			})
			require.NoError(t, err)
			shop := shopHandler(scripted(t, map[string]string{"GET /v1/orders/o-1": string(body)}))
			w := httptest.NewRecorder()
			shop.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders/o-1?status=paid", nil))
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Contains(t, w.Body.String(), "&lt;b&gt;Thank you&lt;/b&gt;")
			assert.Contains(t, w.Body.String(), "p-word")
			assert.Equal(t, again, strings.Contains(w.Body.String(), `http-equiv="refresh"`), "it asks again while something moves")
			w = httptest.NewRecorder()
			shop.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders/unknown", nil))
			assert.Equal(t, http.StatusBadGateway, w.Code)
		})
	}
}
