package localstack

import (
	"os/exec"
	"syscall"
)

// startTied starts the command so that the kernel signals it when our process dies, even by SIGKILL.
func startTied(cmd *exec.Cmd, onDeath syscall.Signal) (untie func(), err error) {
	cmd.SysProcAttr.Pdeathsig = onDeath
	return func() {}, cmd.Start()
}
