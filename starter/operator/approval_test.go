package operator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/operator"
	"orderflow/store"
)

// Goal: what needs a second person is a proposal until one says yes: somebody else, with the role, through the form that only they get.
// Method: real HTTP and PostgreSQL; an order that somebody says was paid by other means. Not covered: how it looks (browser_test.go).
func TestASecondPersonApprovesOnThePage(t *testing.T) {
	b := setup(t)
	b.order("o-1")
	r := b.review("o-1", order.ReviewSettledElsewhere)
	const here = "/operator/order?id=o-1"
	effects := func() int { return b.count("SELECT count(*) FROM orders WHERE external_decision <> ''") }
	olga, anna, vera := b.as("olga"), b.as("anna"), b.as("vera")
	page := anna.get(here)
	form := page.form(t, order.DecideRecordExternal)
	form.Set("reason", "the buyer came to the office")
	form.Set("reference", "transfer 4711")
	require.Contains(t, anna.send(http.MethodPost, "/operator/decide", form).text, "or what you looked at, is missing", "half the evidence is none")
	form.Set("proof", "bank statement of today")
	for range 2 {
		require.Contains(t, anna.send(http.MethodPost, "/operator/decide", form).header.Get("Location"), "said=proposed")
	}
	require.Zero(t, effects(), "a proposal changes nothing")
	require.Equal(t, 1, b.count("SELECT count(*) FROM decision_proposals WHERE review_id = $1", string(r)))

	for who, p := range map[string]*person{"olga": olga, "anna": anna, "vera": vera} {
		a := p.get(here)
		require.Contains(t, a.text, "bank statement of today", "%s sees what is proposed", who)
		require.NotContains(t, a.text, `name="approves"`, "%s may not approve", who)
	}
	require.NoError(t, b.store.OperatorAdd(t.Context(), store.Operator{Login: "anna.two", Name: "ANNA", Role: "approver", PasswordHash: operator.HashPassword(password)}))
	require.NoError(t, b.store.OperatorAdd(t.Context(), store.Operator{Login: "beth", Name: "Beth", Role: "approver", PasswordHash: operator.HashPassword(password)}))
	require.NotContains(t, b.as("anna.two").get(here).text, `name="approves"`, "two logins of one person are one person")

	beth := b.as("beth")
	approval := beth.get(here).approval(t)
	require.Equal(t, "record_external_payment", approval.Get("decision"))
	approval.Set("reason", "I have seen it too")
	for who, p := range map[string]*person{"olga": olga, "anna": anna, "anna.two": b.as("anna.two")} {
		approval.Set("id", "dec_forged_by_"+who)
		require.Equal(t, http.StatusConflict, p.send(http.MethodPost, "/operator/decide", approval).status, who)
	}
	require.Equal(t, http.StatusForbidden, vera.send(http.MethodPost, "/operator/decide", approval).status)
	require.Zero(t, effects())
	approval = beth.get(here).approval(t)
	approval.Set("reason", "I have seen it too")
	for range 2 { // sent twice, it is one approval
		require.Contains(t, beth.send(http.MethodPost, "/operator/decide", approval).header.Get("Location"), "said=approved")
	}
	require.Equal(t, 1, effects())
	require.Equal(t, 1, b.count("SELECT count(*) FROM review_decisions WHERE actor = 'anna' AND approver = 'beth' AND NOT actor_claimed"))
	story := beth.get(here).text
	for _, text := range []string{"transfer 4711", "bank statement of today", "I have seen it too"} {
		require.Contains(t, beth.get("/operator/audit").text, text)
		require.Contains(t, story, text)
	}
	require.NotContains(t, story, `name="approves"`)
}

// approval reads the form that only a second person gets.
func (a page) approval(t *testing.T) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(a.text, `class="stack approve">`)
	require.True(t, found, "a form to approve with")
	text, _, _ := strings.Cut(rest, "</form>")
	v := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(text, -1) {
		v.Set(m[1], m[2])
	}
	require.NotEmpty(t, v.Get("approves"))
	return v
}
