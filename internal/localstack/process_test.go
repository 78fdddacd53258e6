package localstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Goal: what this package starts ends with it, in the polite way when it is asked to and in any case when its parent
// dies. Method: the test program runs itself as a parent that starts a child and is then killed.

const childEnv = "ORDERFLOW_LOCALSTACK_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		parent(dir)
	}
	os.Exit(m.Run())
}

// parent starts a sleeper, writes its pid and waits to be killed.
func parent(dir string) {
	p, err := Start(Spec{Name: "sleeper", Path: "/bin/sleep", Args: []string{"300"}, Log: filepath.Join(dir, "log"), OnDeath: syscall.SIGTERM})
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pid.new"), []byte(strconv.Itoa(p.PID())), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(filepath.Join(dir, "pid.new"), filepath.Join(dir, "pid")); err != nil {
		panic(err)
	}
	<-p.Done()
	os.Exit(1)
}

func alive(pid int) bool {
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "stat=").Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func TestChildDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	require.NoError(t, cmd.Start())
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(string(text))
		return err == nil && alive(pid)
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 20*time.Millisecond)
}

func TestStopAsksFirstAndInsistsLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct{ script, says string }{
		"APoliteProgramEndsByItself":    {"trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done", "asked"},
		"AStubbornProgramIsEndedAnyhow": {"trap 'echo refused' TERM; echo up; while :; do sleep 0.05; done", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Start(Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", c.script}, Log: filepath.Join(dir, name), Grace: 500 * time.Millisecond})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return strings.Contains(p.LogTail(), "up") }, 10*time.Second, 10*time.Millisecond)
			require.NoError(t, p.Stop())
			require.Contains(t, p.LogTail(), c.says)
			require.False(t, alive(p.PID()))
			require.NoError(t, p.Stop(), "stopping twice is fine")
		})
	}
}

func TestWatchmanSignalsOnlyWhenNotDismissed(t *testing.T) {
	t.Parallel()
	sleeper := exec.Command("/bin/sleep", "300")
	require.NoError(t, sleeper.Start())
	dismiss, err := watchman(sleeper.Process.Pid, syscall.SIGTERM)
	require.NoError(t, err)
	dismiss()
	require.True(t, alive(sleeper.Process.Pid))

	// A watchman whose pipe ends without a word, as when its master dies.
	blind := exec.Command("/bin/sh", "-c", watchmanScript(sleeper.Process.Pid, syscall.SIGTERM))
	require.NoError(t, blind.Run())
	require.ErrorContains(t, sleeper.Wait(), "terminated")
}

func TestLongWorkReportsThatItGoesOn(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	say := Progress(func(line string) {
		select {
		case said <- line:
		default:
		}
	})
	err := say.duringEvery(time.Millisecond, "building", func() error {
		assert.Contains(t, <-said, "building: still going on")
		return nil
	})
	require.NoError(t, err)
}
