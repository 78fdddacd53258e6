package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Goal: tests share a dev server without meeting each other, and a test may crash one of its own.

func start(t *testing.T, c client.Client) {
	t.Helper()
	status := temporal.NewSearchAttributeKeyKeyword("OrderStatus")
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "order/1", TaskQueue: "nobody", TypedSearchAttributes: temporal.NewSearchAttributes(status.ValueSet("review")),
	}, "NeverRuns")
	require.NoError(t, err)
}

func TestNamespacesKeepTestsApart(t *testing.T) {
	t.Parallel()
	a, b := Temporal(t), Temporal(t)
	require.Equal(t, a.Address, b.Address)
	start(t, a.Client)
	_, err := b.Client.DescribeWorkflow(t.Context(), "order/1", "")
	var missing *serviceerror.NotFound
	require.ErrorAs(t, err, &missing)
	start(t, b.Client)
}

func TestKeptServerRemembersAfterACrash(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"WithAFileTheWorkflowIsThere": true, "WithoutItIsLost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := PrivateTemporal(t, keep)
			start(t, Dial(t, p.Address, "default"))
			address := p.Address
			p.Restart()
			require.Equal(t, address, p.Address)
			c := Dial(t, p.Address, "default")
			require.Eventually(t, func() bool {
				_, err := c.DescribeWorkflow(t.Context(), "order/1", "")
				return (err == nil) == keep
			}, 10*time.Second, 50*time.Millisecond)
		})
	}
}
