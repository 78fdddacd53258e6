package activities

// Goal: "not found" is final only when no request can still be on its way (rules 3 and 6).

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/store"
)

func TestASendThatWakesUpLateIsNotSent(t *testing.T) {
	t.Parallel()
	ctx, cancel := sending(context.Background(), time.Now().Add(-underWay(time.Second)), time.Second)
	defer cancel()
	require.Error(t, ctx.Err(), "paused since its claim until others may take it for gone")
	ctx, cancel = sending(context.Background(), time.Now(), time.Minute)
	defer cancel()
	require.NoError(t, ctx.Err())
}

func TestNotFoundIsFinalOnlyAfterTheLastSendCannotArrive(t *testing.T) {
	t.Parallel()
	const lag, timeout = 10 * time.Second, 5 * time.Second
	require.False(t, gone(store.Age{Last: lag + time.Second}, lag, timeout), "the lag has passed, but the request may only now be sent")
	require.False(t, gone(store.Age{Last: lag + underWay(timeout)}, lag, timeout))
	require.True(t, gone(store.Age{Last: lag + underWay(timeout) + time.Second}, lag, timeout))
	require.False(t, gone(store.Age{Last: 1000 * time.Hour}, 0, timeout), "where nobody says so, never")
}
