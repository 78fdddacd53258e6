package localstack

import (
	"fmt"
	"os/exec"
	"syscall"
)

// watchman starts a shell that reads a pipe whose other end only we hold: when we die, however, it reads the end of the
// file and signals the process. dismiss ends the watchman without that signal.
func watchman(pid int, signal syscall.Signal) (dismiss func(), err error) {
	sh := exec.Command("/bin/sh", "-c", watchmanScript(pid, signal))
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := sh.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := sh.Start(); err != nil {
		return nil, fmt.Errorf("the watchman could not be started: %w", err)
	}
	return func() {
		_, _ = pipe.Write([]byte("dismissed\n"))
		_ = pipe.Close()
		_ = sh.Wait()
	}, nil
}

func watchmanScript(pid int, signal syscall.Signal) string {
	return fmt.Sprintf("read -r word; [ \"$word\" = dismissed ] || kill -%d %d", signal, pid)
}
