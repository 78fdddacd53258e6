//go:build unix && !linux

package localstack

import (
	"os/exec"
	"syscall"
)

// startTied starts the command and a watchman beside it: only Linux has a death signal.
func startTied(cmd *exec.Cmd, onDeath syscall.Signal) (untie func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	untie, err = watchman(cmd.Process.Pid, onDeath)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return untie, err
}

// borrowName has no way here: initdb says itself that the user id has no name.
func borrowName(*syscall.SysProcAttr) {}
