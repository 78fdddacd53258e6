package localstack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: the dev server comes up with its attributes, and is gone after Stop; a program that will not do is named in one
// sentence. The pinned program is built when the tests run for the first time.

func TestDevServerIsReadyWhenStartReturns(t *testing.T) {
	stateFolder(t)
	s, err := StartTemporal(t.Context(), TemporalOptions{Namespaces: []string{"second"}, UI: true}, func(line string) { t.Log(line) })
	require.NoError(t, err)
	require.NoError(t, temporalReady(t.Context(), s.Address, []string{TemporalNamespace, "second"}))
	require.NotEmpty(t, s.UIURL)
	require.NoError(t, s.Stop())
	require.Error(t, temporalReady(t.Context(), s.Address, []string{TemporalNamespace}))
}

func TestTemporalProgramThatWillNotDoIsNamed(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ script, says string }{
		"OldServer":   {"#!/bin/sh\necho 'temporal version 0.9.0 (Server 1.20.1, UI 2.0.0)'\n", "1.29 is the oldest"},
		"NoServer":    {"#!/bin/sh\necho 'temporal version 9'\n", "does not say which server"},
		"NotAProgram": {"", "does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, []byte(c.script), 0o600))
			if c.script != "" {
				require.NoError(t, os.Chmod(path, 0o700))
			}
			t.Setenv(TemporalCLIEnv, path)
			_, err := TemporalCLI(t.Context(), nil)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, TemporalCLIEnv)
		})
	}
}

func TestServerOnPathIsPreferredOverABuild(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "temporal")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho 'temporal version 1.9.1 (Server 1.32.0, UI 2.53.0)'\n"), 0o600))
	require.NoError(t, os.Chmod(path, 0o700))
	t.Setenv("PATH", dir)
	t.Setenv(TemporalCLIEnv, "")
	found, err := TemporalCLI(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, path, found)
}
