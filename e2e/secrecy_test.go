package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"orderflow/order"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
)

// TestP1_MarkersStayWhereTheyBelong puts known values into every secret and every text of a customer, makes every party fail
// with answers that repeat them, and then searches everything that is kept, shown or sent. Not covered: core dumps, swap.
func TestP1_MarkersStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with("ORDERFLOW_LOG_LEVEL", "debug"), with("ORDERFLOW_UNKNOWN_TO_REVIEW_AFTER", "1s"))
	const token, buyer, name, page = "TOKENMARKER7f3a", "BUYERMARKER 91c2", "NAMEMARKER-ギフト", "RETURNMARKER55d0"
	s := &spill{w: w, errors: map[string]string{}}
	secrets := map[string]string{
		"payment token": token, "Stripe key": w.env["STRIPE_SECRET_KEY"], "issuer token": "issuer-token-e2e", "API key": apiKey, "data key": w.env["ORDERFLOW_DATA_KEY"],
		"webhook secret": whsecOf(t, w.env["ORDERFLOW_RECEIVERS"]),
	}
	if u, err := url.Parse(w.db.AppURL); err == nil {
		if p, set := u.User.Password(); set && p != "" {
			secrets["database password"] = p
		}
	}
	customer := map[string]string{"buyer reference": buyer, "item name": name, "return page": page}

	w.spillOrders(s, token, buyer, name, page)
	for what, i := range w.sandbox.Issuers().Issuances(issuersim.Filter{}) {
		secrets[fmt.Sprintf("reference of issuance %d", what)] = i.Reference
	}
	require.Greater(t, len(s.errors), 8, "errors were forced")
	s.search(secrets, customer)

	// What is searched for is really there where it belongs, or the search proves nothing.
	assert.Contains(t, fmt.Sprint(w.sandbox.Stripe().Writes(stripeAll)), token)
	assert.Positive(t, w.number("SELECT count(*) FROM orders WHERE buyer_ref = $1", buyer))
	w.booksAgree()
}

func whsecOf(t *testing.T, receivers string) string {
	m := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`).FindString(receivers)
	require.NotEmpty(t, m)
	return m
}

// spillOrders drives orders whose every step fails somehow, with answers that quote what they were asked.
func (w *world) spillOrders(s *spill, token, buyer, name, page string) {
	t := w.t
	quote := fmt.Sprintf(`No such thing: '%s' '%s' '%s'`, token, buyer, name)
	place := func(id, action string) {
		l := line{"sku": "s", "name": name, "quantity": 1, "unit_amount": 500, "tax_rate": "10", "action": "grant"}
		if action != "" {
			l["action"], l["issuer"] = "issue", action
		}
		body := orderBody(id, "JPY", l)
		body["buyer_ref"] = buyer
		require.Equal(t, 201, w.call("POST", "/v1/orders", "place-"+id, body).Status)
	}
	pay := func(id, card string) answer {
		body := payBody("pm_card_" + card + "__" + token)
		body["method"].(map[string]any)["return_url"] = "https://shop.example/back?s=" + page
		return s.note("pay "+id, w.call("POST", path(id)+"/payments", id+"-k", body))
	}
	stripe := func(f faults.Fault) { f.Target, f.Method = faults.Stripe, "POST"; w.arm(f) }

	place("s-good", "tickets")
	oneOf(t, pay("s-good", "visa"), 201, 202)
	w.awaitStatus("s-good", "completed")
	place("s-declined", "")
	pay("s-declined", "visa_chargeDeclined")
	place("s-pending", "")
	pay("s-pending", "threeDSecure2Required")
	place("s-unknown-token", "") // the provider quotes the token in its answer
	pay("s-unknown-token", "nonsense")
	for i, f := range []faults.Fault{
		{Action: faults.Status, Status: 400, Body: fmt.Sprintf(`{"error":{"type":"invalid_request_error","code":"parameter_missing","message":%q,"param":%q}}`, quote, token)},
		{Action: faults.Status, Status: 402, Body: fmt.Sprintf(`{"error":{"type":"card_error","code":%q,"decline_code":%q,"message":%q}}`, token, buyer, quote)},
		{Action: faults.Status, Status: 500, Body: quote, Header: map[string]string{"Request-Id": token, "Retry-After": token}},
		{Action: faults.Garbage, Body: quote},
		{Action: faults.Status, Status: 302, Header: map[string]string{"Location": "http://" + token + "/"}},
	} {
		id := fmt.Sprintf("s-stripe-%d", i)
		place(id, "")
		f.PathSuffix, f.Times = []string{"/confirm", "/v1/payment_intents"}[i%2], 1
		stripe(f)
		pay(id, "visa")
	}
	for i, f := range []faults.Fault{
		{Action: faults.Refuse, Code: name}, // an issuer knows the goods and the buyer, never the payment
		{Action: faults.Garbage, Body: quote},
		{Action: faults.Status, Status: 422, Body: fmt.Sprintf(`{"code":%q}`, buyer)},
		{Action: faults.LoseAnswer},
	} {
		id := fmt.Sprintf("s-issuer-%d", i)
		place(id, "vouchers")
		f.Target, f.Method, f.BodyContains, f.Times = faults.Issuer, "POST", id, 1
		w.arm(f)
		pay(id, "visa")
	}
	// A database that quotes the row in its error, as PostgreSQL does in the detail of a violated constraint.
	w.execute(`CREATE FUNCTION spill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.order_id = 's-database' THEN
			RAISE EXCEPTION 'row % is bad', NEW USING ERRCODE = '23514', DETAIL = NEW::text, HINT = NEW::text;
		END IF;
		RETURN NEW; END $$`)
	w.execute("CREATE TRIGGER spill BEFORE INSERT ON grants FOR EACH ROW EXECUTE FUNCTION spill()")
	place("s-database", "")
	pay("s-database", "visa")
	w.await("the database's refusal in a history", func() bool {
		return strings.Contains(w.historyText(order.WorkflowID("s-database")), "constraint_violated")
	})
	w.execute("DROP TRIGGER spill ON grants")
	w.execute("CREATE TRIGGER spill BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION spill()")
	body := orderBody("s-database", "JPY", grant("g", 1, 500))
	body["buyer_ref"] = buyer
	s.note("a failing insert", w.call("POST", "/v1/orders", "s-database-2", body))
	w.execute("DROP TRIGGER spill ON orders")
	w.receiverSpills(place, pay, quote)
	s.badRequests(token, buyer, name)
	w.awaitStatus("s-database", "completed")
	w.settled("s-good", "s-declined", "s-database")
}

// receiverSpills has the event receiver answer with what it should not have known.
func (w *world) receiverSpills(place func(string, string), pay func(string, string) answer, quote string) {
	place("s-receiver", "")
	f := w.arm(faults.Fault{Target: faults.Receiver, BodyContains: "s-receiver", Action: faults.Status, Status: 500, Body: quote, Times: 1})
	pay("s-receiver", "visa")
	w.fired(f, 1)
}

// historyText is the newest history of a workflow as it lies in Temporal.
func (w *world) historyText(id string) string {
	b, err := proto.Marshal(w.history(id, ""))
	require.NoError(w.t, err)
	return string(b)
}

// spill collects what was answered, and searches.
type spill struct {
	w      *world
	errors map[string]string
}

// note keeps an answer's body and headers if it is an error.
func (s *spill) note(what string, a answer) answer {
	if a.Status >= 400 {
		s.errors[what] = fmt.Sprint(a.Status, a.Header) + string(a.Raw)
	}
	return a
}

// badRequests are refused, each quoting a marker in the place that is wrong.
func (s *spill) badRequests(token, buyer, name string) {
	w := s.w
	w.place("s-bad", grant("g", 1, 500))
	for what, body := range map[string]any{
		"unknown field":   fmt.Sprintf(`{"gateway":"stripe","method":{"type":"card","token":"pm_x"},%q:1}`, token),
		"unknown gateway": map[string]any{"gateway": token, "method": map[string]any{"type": "card", "token": "pm_x"}},
		"bad method":      map[string]any{"gateway": "stripe", "method": map[string]any{"type": name, "token": token}},
		"bad token":       map[string]any{"gateway": "stripe", "method": map[string]any{"type": "card", "token": "tok " + token}},
		"bad return page": map[string]any{"gateway": "stripe", "method": map[string]any{"type": "card", "token": "pm_" + token, "return_url": "javascript:" + buyer}},
		"half":            `{"gateway":"` + token,
		"wrong type":      fmt.Sprintf(`{"gateway":"stripe","method":%q}`, token),
	} {
		a := s.note(what, w.call("POST", path("s-bad")+"/payments", "s-bad-"+url.QueryEscape(what), body))
		assert.GreaterOrEqual(w.t, a.Status, 400, what)
	}
	order := orderBody("s-bad-2", "JPY", line{"sku": "s", "name": name + " 4242424242424242", "quantity": 1, "unit_amount": 1, "action": token})
	order["buyer_ref"], order["currency"] = buyer+"\x01", "JPY"
	s.note("bad order", w.call("POST", "/v1/orders", "s-bad-2", order))
	s.note("a path with a marker", w.call("GET", "/v1/"+token, "", nil))
	a, err := w.try("GET", path("s-bad"), "", token, nil)
	require.NoError(w.t, err)
	s.note("a wrong API key", a)
}

// search looks for secrets everywhere, and for a customer's texts everywhere but in the rows that hold them.
func (s *spill) search(secrets, customer map[string]string) {
	w := s.w
	places := map[string]string{}
	for what, text := range s.errors {
		places["error answer: "+what] = text
	}
	for i, h := range w.everyHistory() {
		b, err := proto.Marshal(h)
		require.NoError(w.t, err)
		id := h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
		places[fmt.Sprintf("history %d of %s", i, id)] = string(b)
		d, err := w.temporal.DescribeWorkflow(context.Background(), id, "")
		require.NoError(w.t, err)
		b, err = proto.Marshal(d.RawResponse) // memo, search attributes, pending steps and their last failures
		require.NoError(w.t, err)
		places["description of "+id] = string(b)
	}
	logs, err := filepath.Glob(filepath.Join(w.logs, "*.log"))
	require.NoError(w.t, err)
	for _, file := range logs {
		b, err := os.ReadFile(file)
		require.NoError(w.t, err)
		places["log "+filepath.Base(file)] = string(b)
	}
	export, _, code := w.starterCommand(nil, "export")
	require.Zero(w.t, code)
	places["the audit export"] = export
	places["metrics of starter"] = fetch(w.t, "http://"+w.env["ORDERFLOW_OPS_LISTEN"]+"/metrics")
	places["metrics of the worker"] = fetch(w.t, "http://"+w.workers[len(w.workers)-1].ops+"/metrics")
	require.Contains(w.t, places["metrics of the worker"], `orderflow_outside_request_duration_seconds_count{name="stripe/default",operation="confirm",party="gateway",result="ok"}`)
	for _, d := range w.sandbox.Receiver().Deliveries(receiverAll) {
		places["event "+d.ID] += d.Body
	}
	require.Greater(w.t, len(places), 40)
	for place, text := range places {
		for _, values := range []map[string]string{secrets, customer} {
			for what, marker := range values {
				assert.False(w.t, found(text, marker), "P1: %s is in %s", what, place)
			}
		}
		assert.NotRegexp(w.t, `pi_[A-Za-z0-9]+_secret_`, text, "P1: the provider's secret of one payment is in %s", place)
	}
	w.searchTables(secrets, nil)
	w.searchTables(customer, map[string]bool{"orders": true, "order_lines": true, "grants": true, "transaction_records": true})
}

// found also sees a marker that JSON or a URL has escaped.
func found(text, marker string) bool {
	for _, form := range []string{marker, url.QueryEscape(marker), url.PathEscape(marker), strings.Trim(fmt.Sprintf("%+q", marker), `"`)} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// searchTables reads every row of every table as text; bytes show as hex, so a value that is stored unsealed shows too.
func (w *world) searchTables(values map[string]string, except map[string]bool) {
	w.t.Helper()
	for table := range w.rowCounts() {
		if except[table] {
			continue
		}
		rows, err := w.owner.Query(context.Background(), "SELECT x::text FROM "+pgx.Identifier{table}.Sanitize()+" x")
		require.NoError(w.t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(w.t, err)
		text := strings.Join(all, "\n")
		for what, marker := range values {
			assert.False(w.t, found(text, marker) || strings.Contains(text, hex.EncodeToString([]byte(marker))), "P1: %s is in a column of %s", what, table)
		}
		assert.NotRegexp(w.t, `pi_[A-Za-z0-9]+_secret_`, text, "P1: the provider's secret of one payment is in a column of %s", table)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	return string(b)
}
