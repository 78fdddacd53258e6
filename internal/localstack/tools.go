package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Tool builds one of the pinned tools (internal/tools/go.mod) if Go's build cache does not have it, and returns the path
// of the program itself. The first build of a large one takes minutes; say hears of it every ten seconds.
func Tool(ctx context.Context, name string, say Progress) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("%s has to be built, and the go command is not on PATH", name)
	}
	var out, complaints bytes.Buffer
	// -n prints the path instead of running the tool: the server is then started by that path, since a killed `go tool`
	// would leave it running.
	cmd := exec.CommandContext(ctx, goTool, "tool", "-n", name)
	cmd.Dir = filepath.Join(root, "internal", "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := say.during("building "+name, cmd.Run); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("building %s was interrupted: run it again, finished packages are kept: %w", name, ctx.Err())
		}
		return "", fmt.Errorf("building %s failed (%w): %s", name, err, lastLine(complaints.Bytes()))
	}
	path := strings.TrimSpace(lastLine(out.Bytes()))
	if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
		return "", errors.New("building " + name + " left no program: clear Go's build cache (go clean -cache) and try again")
	}
	return path, nil
}
