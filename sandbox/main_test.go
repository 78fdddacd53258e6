package main

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("StopsWhenAsked", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.NoError(t, run(ctx, flags{Addr: "127.0.0.1:0", LogLevel: "info"}, io.Discard))
	})
	t.Run("TakenPortIsOneClearSentence", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		err = run(t.Context(), flags{Addr: l.Addr().String(), LogLevel: "info"}, io.Discard)
		require.ErrorContains(t, err, "is taken by another program")
	})
}

func TestSecretsComeFromTheEnvironment(t *testing.T) {
	t.Setenv("SANDBOX_STRIPE_KEYS", "sk_test_one,sk_live_two")
	s, err := readSecrets()
	require.NoError(t, err)
	require.Len(t, s.StripeKeys, 2)
	require.True(t, s.StripeKeys[1].Equal("sk_live_two"))
	require.False(t, s.IssuerToken.IsZero())
}
