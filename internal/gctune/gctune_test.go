package gctune

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGOGCWins(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "100")
	Set()
	require.Equal(t, 100, debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	Set()
	require.Equal(t, Percent, debug.SetGCPercent(100))
}
