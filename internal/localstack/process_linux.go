package localstack

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// startTied starts the command so that the kernel signals it when our process dies, even by SIGKILL.
func startTied(cmd *exec.Cmd, onDeath syscall.Signal) (untie func(), err error) {
	cmd.SysProcAttr.Pdeathsig = onDeath
	return func() {}, cmd.Start()
}

// borrowName runs a program in a user namespace where our nameless user id is called nobody. Files it makes are ours all the
// same, since a namespace changes only how ids are read.
func borrowName(a *syscall.SysProcAttr) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return
	}
	uid, err1 := strconv.Atoi(nobody.Uid)
	gid, err2 := strconv.Atoi(nobody.Gid)
	if err1 != nil || err2 != nil {
		return
	}
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}}
}
