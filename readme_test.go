package orderflow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/config"
)

const (
	tableBegin = "<!-- configuration:begin -->\n"
	tableEnd   = "<!-- configuration:end -->"
)

// TestREADMEListsEverySetting compares the README's table with the configuration's own. UPDATE=1 writes it.
func TestREADMEListsEverySetting(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(b), tableBegin)
	require.True(t, found)
	have, after, found := strings.Cut(rest, tableEnd)
	require.True(t, found)
	var w strings.Builder
	w.WriteString("| Variable | Default | Means |\n|---|---|---|\n")
	for _, r := range config.Table() {
		def := r.Default
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s |\n", r.Name, def, r.Meaning)
	}
	if os.Getenv("UPDATE") == "1" {
		require.NoError(t, os.WriteFile("README.md", []byte(before+tableBegin+w.String()+tableEnd+after), 0o644))
		return
	}
	require.Equal(t, w.String(), have, "run UPDATE=1 go test -run README .")
}
