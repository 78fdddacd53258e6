package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: whatever came up goes down, last first, also when a later part fails to start or an earlier one to stop.
func TestStackStopsWhatCameUpInReverse(t *testing.T) {
	t.Parallel()
	var stopped []string
	s := &stack{}
	add := func(name string, startErr, stopErr error) error {
		return s.up(t.Context(), name, func(context.Context) (func() error, error) {
			return func() error { stopped = append(stopped, name); return stopErr }, startErr
		})
	}
	stuck := errors.New("it is stuck")
	require.NoError(t, add("database", nil, nil))
	require.NoError(t, add("engine", nil, stuck))
	require.NoError(t, add("worker", nil, nil))
	require.ErrorContains(t, add("starter", errors.New("no port"), nil), "starter: no port")
	err := s.down()
	require.ErrorIs(t, err, stuck)
	require.ErrorContains(t, err, "stopping engine")
	require.Equal(t, []string{"worker", "engine", "database"}, stopped)
	require.NoError(t, s.down(), "each part is stopped once")
}

func TestStackStartsNothingAfterCtrlC(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := (&stack{}).up(ctx, "late", func(context.Context) (func() error, error) {
		t.Error("it was started")
		return nil, nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestEnvironmentHasEachVariableOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"KEPT=1", "A=new", "B=added"}, replaceEnv([]string{"A=old", "KEPT=1", "A=older"}, "A", "new", "B", "added"))
}
