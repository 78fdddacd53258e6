package all

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRegistrationIsUsableAndUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Registrations() {
		require.Regexp(t, regexp.MustCompile(`^[a-z][a-z0-9]*$`), r.Name, "it stands in URLs and rows")
		require.Regexp(t, regexp.MustCompile(`^[A-Z][A-Z0-9]*$`), r.EnvPrefix)
		require.NotNil(t, r.Open)
		require.False(t, seen[r.Name] || seen[r.EnvPrefix], r.Name)
		seen[r.Name], seen[r.EnvPrefix] = true, true
		found, ok := Find(r.Name)
		require.True(t, ok)
		require.Equal(t, r.EnvPrefix, found.EnvPrefix)
	}
	_, ok := Find("nobody")
	require.False(t, ok)
}
