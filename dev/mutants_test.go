package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A planted bug whose place has moved plants nothing. `make mutants` runs the suites; this keeps the list true.
func TestEveryMutantStillHasItsPlace(t *testing.T) {
	t.Chdir("..")
	seen := map[string]bool{}
	for _, m := range mutants {
		require.False(t, seen[m.file+m.name], "twice in the list: %s", m.name)
		seen[m.file+m.name] = true
		planted, err := m.plant()
		if !assert.NoError(t, err) {
			continue // say all places that moved
		}
		src, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.NotEqual(t, string(src), string(planted), m.name)
	}
	require.GreaterOrEqual(t, len(mutants), 12, "at least one per guard")
}
