package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exportedLines requires a whole export and returns its rows by kind.
func exportedLines(t *testing.T, out string) map[string][]map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	rows := map[string][]map[string]any{}
	for i, l := range lines {
		var one struct {
			Kind string         `json:"kind"`
			Row  map[string]any `json:"row"`
		}
		require.NoError(t, json.Unmarshal([]byte(l), &one), l)
		require.Equal(t, i == 0, one.Kind == "export", l)
		require.Equal(t, i == len(lines)-1, one.Kind == "end", l)
		rows[one.Kind] = append(rows[one.Kind], one.Row)
	}
	require.EqualValues(t, len(lines)-2, rows["end"][0]["rows"])
	require.EqualValues(t, 1, rows["export"][0]["version"])
	return rows
}

// full takes no more than some bytes, as a disk does.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

// An export that cannot be written says so, and has no last line.
func TestExportThatIsCutOff(t *testing.T) {
	b := setup(t)
	err := exportCommand{}.Run(t.Context(), &streams{out: &full{}, err: &full{1 << 20}, environ: b.environ})
	require.ErrorContains(t, err, "no last line of kind end")
	require.ErrorContains(t, err, "no space left")
}
