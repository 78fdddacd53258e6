package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"

	"orderflow/order"
)

// details is what the Web UI shows on the order's page, by the query that the Web UI makes.
func (w *world) details(id string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v, err := w.temporal.QueryWorkflow(ctx, order.WorkflowID(order.ID(id)), "", "__temporal_workflow_metadata")
	require.NoError(w.t, err)
	var m sdkpb.WorkflowMetadata
	require.NoError(w.t, v.Get(&m))
	return m.GetCurrentDetails()
}

// pasted are the JSON texts of an order's details, by the decision each makes, once they speak of the review.
func (w *world) pasted(id string, review order.ReviewID) map[order.DecisionKind]string {
	w.t.Helper()
	var text string
	w.await("details of "+id, func() bool {
		text = w.details(id)
		return strings.Contains(text, string(review))
	})
	out := map[order.DecisionKind]string{}
	for _, block := range strings.Split(text, "```json\n")[1:] {
		body, _, closed := strings.Cut(block, "\n```")
		require.True(w.t, closed, "%s", text)
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		var dec order.Decision
		require.NoError(w.t, d.Decode(&dec), "%s", body)
		require.NotContains(w.t, out, dec.Decision)
		out[dec.Decision] = body
	}
	return out
}

// detailsCanBePasted: for every open review and every decision that it allows, the page holds a JSON that is complete but
// for what only a person knows.
func (w *world) detailsCanBePasted(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		review := w.text("SELECT review_id FROM reviews WHERE order_id = $1 AND status = 'open'", id)
		reason := w.text("SELECT reason FROM reviews WHERE review_id = $1", review)
		texts := w.pasted(id, order.ReviewID(review))
		var kinds []order.DecisionKind
		for kind, text := range texts {
			kinds = append(kinds, kind)
			var d order.Decision
			require.NoError(w.t, json.Unmarshal([]byte(text), &d))
			assert.Empty(w.t, d.Shape(), text)
			assert.Equal(w.t, review, string(d.ReviewID))
			assert.Positive(w.t, d.ReviewVersion)
			reference, proof := kind.Needs(order.ReviewReason(reason))
			assert.Equal(w.t, [2]bool{reference, proof}, [2]bool{d.Evidence.Reference != "", d.Evidence.Proof != ""}, "it has the evidence's places: %s", text)
		}
		assert.ElementsMatch(w.t, order.GuidanceOf(order.ReviewReason(reason)).Allowed, kinds, "%s: %s", id, reason)
		text := w.details(id)
		for _, f := range order.GuidanceOf(order.ReviewReason(reason)).Forbidden {
			assert.Contains(w.t, text, f)
		}
	}
}

// filled puts a person's words into a pasted JSON and leaves the rest as it was shown.
func filled(text string) string {
	return strings.NewReplacer("your name", "ann", `"why"`, `"the issuer's portal was checked"`, "the issuer's reference", "V-4711",
		"what was looked at, and where", "the issuer's portal lists no such operation").Replace(text)
}

// webUI posts as the Web UI's page does: with its cookie and token, ids escaped as the browser escapes them.
type webUI struct {
	w      *world
	base   string
	client *http.Client
	csrf   string
}

func (w *world) openWebUI(base string) *webUI {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	u := &webUI{w: w, base: base, client: &http.Client{Jar: jar, Timeout: 30 * time.Second}}
	res, err := u.client.Get(base + "/")
	require.NoError(w.t, err)
	_ = res.Body.Close()
	at, err := url.Parse(base)
	require.NoError(w.t, err)
	for _, c := range jar.Cookies(at) {
		if c.Name == "_csrf" {
			u.csrf = c.Value
		}
	}
	require.NotEmpty(w.t, u.csrf)
	return u
}

// payload is how the page wraps what was typed.
func payload(typed string) map[string]any {
	encode := base64.StdEncoding.EncodeToString
	return map[string]any{"payloads": []any{map[string]any{"metadata": map[string]any{"encoding": encode([]byte("json/plain"))}, "data": encode([]byte(typed))}}}
}

// update sends an update and returns the workflow's answer, or the refusal's message.
func (u *webUI) update(id, typed string) (order.DecisionResult, string) {
	u.w.t.Helper()
	raw := u.post(id, "update/"+order.UpdateResolveReview, map[string]any{
		"workflowExecution": map[string]any{"runId": ""},
		"request":           map[string]any{"meta": map[string]any{"updateId": random(9), "identity": ""}, "input": map[string]any{"args": payload(typed)}},
	})
	var out struct {
		Outcome struct {
			Success struct {
				Payloads []json.RawMessage `json:"payloads"`
			} `json:"success"`
			Failure struct {
				Message string `json:"message"`
			} `json:"failure"`
		} `json:"outcome"`
	}
	require.NoError(u.w.t, json.Unmarshal(raw, &out), "%s", raw)
	if out.Outcome.Failure.Message != "" {
		return order.DecisionResult{}, out.Outcome.Failure.Message
	}
	require.Len(u.w.t, out.Outcome.Success.Payloads, 1, "%s", raw)
	return decisionResult(u.w, out.Outcome.Success.Payloads[0]), ""
}

// decisionResult reads a payload as the page gets it: plain JSON in its short form, else wrapped.
func decisionResult(w *world, raw json.RawMessage) order.DecisionResult {
	w.t.Helper()
	var res order.DecisionResult
	var wrapped struct {
		Data []byte `json:"data"`
	}
	if json.Unmarshal(raw, &wrapped) == nil && wrapped.Data != nil {
		raw = wrapped.Data
	}
	require.NoError(w.t, json.Unmarshal(raw, &res), "%s", raw)
	return res
}

func (u *webUI) signal(id, typed string) {
	u.w.t.Helper()
	u.post(id, "signal/"+order.SignalDecision, map[string]any{
		"signalName": order.SignalDecision, "workflowExecution": map[string]any{"workflowId": order.WorkflowID(order.ID(id)), "runId": ""}, "input": payload(typed),
	})
}

// post sends, and sends again where the server asks for it: it took back the task in which the run was about to answer, because
// more had come. The same update id is one update.
func (u *webUI) post(id, what string, body any) []byte {
	u.w.t.Helper()
	b, err := json.Marshal(body)
	require.NoError(u.w.t, err)
	for range 10 {
		status, raw := u.postOnce(id, what, b)
		if status == http.StatusBadRequest && bytes.Contains(raw, []byte("WorkflowNotReadyFailure")) {
			continue
		}
		require.Equal(u.w.t, http.StatusOK, status, "%s", raw)
		return raw
	}
	require.Fail(u.w.t, "the run is never ready", "%s of %s", what, id)
	return nil
}

func (u *webUI) postOnce(id, what string, b []byte) (int, []byte) {
	u.w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		u.base+"/api/v1/namespaces/default/workflows/"+escaped(order.WorkflowID(order.ID(id)))+"/"+what, bytes.NewReader(b))
	require.NoError(u.w.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-CSRF-TOKEN", u.csrf)
	res, err := u.client.Do(req)
	require.NoError(u.w.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(u.w.t, err)
	return res.StatusCode, raw
}

// escaped is the browser's encodeURIComponent for the characters of a workflow id.
func escaped(id string) string { return strings.ReplaceAll(url.QueryEscape(id), "+", "%20") }

func decoded(t require.TestingT, text string) order.Decision {
	var d order.Decision
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}
