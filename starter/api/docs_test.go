package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/starter/api"
)

// The page that documents the API lists exactly the problems the code has.
func TestDocumentedProblems(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| Name | Status | Meaning |\n|---|---|---|\n")
	require.True(t, found)
	want := ""
	for _, p := range api.ProblemTypes() {
		want += fmt.Sprintf("| `%s` | %d | %s |\n", p.Name, p.Status, p.Meaning)
	}
	require.Equal(t, want, table, "docs/api.md must end with this table")
}
