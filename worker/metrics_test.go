package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/activities"
)

func TestMetricsTellRequestsApartByWhatCameOfThem(t *testing.T) {
	t.Parallel()
	m, err := newMetrics()
	require.NoError(t, err)
	m.called(activities.Call{Party: "gateway", Name: "stripe/default", Operation: "confirm", Result: "ok", Took: 80 * time.Millisecond})
	m.called(activities.Call{Party: "gateway", Name: "stripe/default", Operation: "confirm", Result: "payment_unknown", Took: 20 * time.Second})
	m.sdk.WithTags(map[string]string{"workflow_type": "OrderWorkflow"}).Counter("temporal_workflow_completed").Inc(1)
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	for _, line := range []string{
		`orderflow_outside_request_duration_seconds_count{name="stripe/default",operation="confirm",party="gateway",result="ok"} 1`,
		`orderflow_outside_request_duration_seconds_bucket{name="stripe/default",operation="confirm",party="gateway",result="payment_unknown",le="10"} 0`,
		`orderflow_outside_request_duration_seconds_bucket{name="stripe/default",operation="confirm",party="gateway",result="payment_unknown",le="30"} 1`,
		`temporal_workflow_completed{workflow_type="OrderWorkflow"} 1`,
		`go_goroutines `,
	} {
		require.Contains(t, w.Body.String(), line)
	}
}
