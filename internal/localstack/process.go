package localstack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Spec says how one supervised program is started and ended.
type Spec struct {
	Name string   // for people: "PostgreSQL"
	Path string   // the program itself, never a wrapper: a killed wrapper would orphan the server
	Args []string // without the program's name
	Dir  string   // working folder; empty is ours
	Env  []string // the whole environment; nil is ours
	Log  string   // file that takes stdout and stderr, begun anew at each start

	// Signals are sent one after the other, each given Grace to work; SIGKILL comes last. Empty means SIGTERM.
	Signals []syscall.Signal
	Grace   time.Duration // 0 means ten seconds
	// OnDeath is what the program gets when our process dies without stopping it. 0 means SIGTERM.
	OnDeath syscall.Signal

	credential *syscall.Credential // the unprivileged user to run as; nil is ours
}

// Process is a running program that this process started, and the only kind of thing this package ever ends.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start starts the program in a process group of its own, so that Ctrl-C in a terminal reaches only us and parts stop in
// order. The program dies with this process, however this one ends (see startTied).
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("the log of %s cannot be written: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	if len(spec.Signals) == 0 {
		spec.Signals = []syscall.Signal{syscall.SIGTERM}
	}
	if spec.Grace == 0 {
		spec.Grace = 10 * time.Second
	}
	if spec.OnDeath == 0 {
		spec.OnDeath = syscall.SIGTERM
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = spec.Dir, spec.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.credential}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}

	started := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the *thread* that started the child ends. The goroutine therefore keeps its
		// thread for as long as the child lives, and the thread ends with it.
		runtime.LockOSThread()
		untie, err := startTied(cmd, spec.OnDeath)
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		untie()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s could not be started: %w", spec.Name, err)
	}
	return p, nil
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the file that holds what the program printed.
func (p *Process) Log() string { return p.spec.Log }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended; it is meaningful after Done.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// ending is Err for a message: a program that ended well too early is an error as well.
func (p *Process) ending() error {
	if err := p.Err(); err != nil {
		return err
	}
	return errors.New("without an error")
}

// Stop ends the program with its signals, each within its grace, and returns when it is gone. Stopping twice is fine.
func (p *Process) Stop() error {
	for _, s := range append(p.spec.Signals[:len(p.spec.Signals):len(p.spec.Signals)], syscall.SIGKILL) {
		if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("%s (pid %d) could not be stopped: %w", p.spec.Name, p.PID(), err)
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(p.spec.Grace):
		}
	}
	return fmt.Errorf("%s (pid %d) is still there after SIGKILL", p.spec.Name, p.PID())
}

// Kill ends the program at once, as a crash would, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// LogTail is the end of the log, for an error message.
func (p *Process) LogTail() string {
	const most = 1500
	text, err := os.ReadFile(p.spec.Log)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}
