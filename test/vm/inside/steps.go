package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/vm/plan"
)

// systemPath is the search path for programs, as on Debian.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of a step. EXECD_VM tells a test that it may change the whole
// machine.
func environment(s plan.Step) []string {
	name, home := "root", "/root"
	if s.User != "" {
		name, home = s.User, "/home/"+s.User
	}
	return append([]string{
		"EXECD_VM=1", "PATH=" + systemPath, "HOME=" + home, "USER=" + name, "LOGNAME=" + name, "SHELL=/bin/sh",
	}, s.Env...)
}

// runSteps runs one step after the other.
func runSteps(p *plan.Plan) error {
	line, err := openLine()
	if err != nil {
		return err
	}
	defer line.Close()
	for n, s := range p.Steps {
		begin := time.Now()
		cmd := exec.Command(plan.Inside, "step", strconv.Itoa(n))
		if p.Systemd {
			cmd = unitCommand(n, s)
		}
		status, err := runStep(line, n, cmd)
		if err != nil {
			return fmt.Errorf("cannot run %s: %w", s.Argv[0], err)
		}
		if p.Systemd {
			if status, err = unitStatus(n, status); err != nil {
				return err
			}
		} else if err := killAll(); err != nil {
			return err
		}
		f, err := plan.EndFrame(n, plan.End{Status: status, Milliseconds: time.Since(begin).Milliseconds()})
		if err != nil {
			return err
		}
		if err := f.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// runStep runs one command, and sends its output.
func runStep(line *os.File, n int, cmd *exec.Cmd) (status int, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer out.Close()
	over, ended, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer over.Close()
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	in.Close()
	if err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- send(line, n, out, over) }()
	// Not a question of what it returns: that is in the state.
	_ = cmd.Wait()
	ended.Close()
	if err := <-sent; err != nil {
		return 0, err
	}
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, errors.New("it has no exit status")
	}
	return shellStatus(ws), nil
}

func shellStatus(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// pipeSize is the capacity of a pipe, and so the maximum of output
// when the step has ended.
const pipeSize = 64 << 10

// send makes frames of what comes out of a pipe until it ends, or until over says
// that the step has ended and what it has written is sent: processes that it leaves
// behind may keep the pipe open, and go on writing.
func send(line *os.File, n int, out, over *os.File) error {
	buffer := make([]byte, 4096) // more would delay what is there already
	fds := []unix.PollFd{{Fd: int32(out.Fd()), Events: unix.POLLIN}, {Fd: int32(over.Fd()), Events: unix.POLLIN}}
	for late := 0; late < pipeSize; {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot wait for output: %w", err)
		}
		isOver := fds[1].Revents != 0
		if fds[0].Revents == 0 {
			if isOver {
				return nil
			}
			continue
		}
		size, err := unix.Read(int(out.Fd()), buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read output: %w", err)
		}
		if size == 0 {
			return nil
		}
		if err := (plan.Frame{Kind: plan.Output, Step: n, Payload: buffer[:size]}).Write(line); err != nil {
			return err
		}
		if isOver {
			late += size
		}
	}
	return nil
}

// unitName returns the name of the service for step n.
func unitName(n int) string { return "step" + strconv.Itoa(n) + ".service" }

// unitCommand runs a step as a service of its own: with a control group that is
// delegated to it, and nothing in it but the program.
func unitCommand(n int, s plan.Step) *exec.Cmd {
	args := []string{
		"--quiet", "--pipe", "--wait", "--unit=" + unitName(n), "--service-type=exec", "--working-directory=" + s.Dir,
		// The tests may end processes for want of memory, and start many.
		"-pDelegate=yes", "-pOOMPolicy=continue", "-pTasksMax=infinity", "-pLimitCORE=0", "-pIgnoreSIGPIPE=no",
	}
	if s.User != "" {
		args = append(args, "-pUser="+s.User)
	}
	for _, e := range append(environment(s), busTimeout) {
		args = append(args, "--setenv="+e)
	}
	for _, p := range s.Properties {
		args = append(args, "--property="+p)
	}
	args = append(args, "--")
	for _, a := range s.Argv {
		args = append(args, strings.ReplaceAll(a, "$", "$$")) // systemd expands variables
	}
	cmd := exec.Command("systemd-run", args...)
	cmd.Env = append(os.Environ(), busTimeout)
	return cmd
}

// busTimeout is for the clients of systemd: in a guest without processors for half a minute the 25 s
// of sd-bus pass without an answer.
const busTimeout = "SYSTEMD_BUS_TIMEOUT=600"

// unitStatus returns the exit status of a step's program. systemd-run reports it only for programs
// that were not killed.
func unitStatus(n, status int) (int, error) {
	if status == 0 {
		return 0, nil
	}
	show := exec.Command("systemctl", "show", "--property=ExecMainCode,ExecMainStatus", unitName(n))
	show.Env = append(os.Environ(), busTimeout)
	out, err := show.Output()
	if err != nil {
		return 0, fmt.Errorf("cannot tell how %s has ended: %w", unitName(n), err)
	}
	values := map[string]int{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name], _ = strconv.Atoi(value)
	}
	const exited, killed, dumped = 1, 2, 3 // CLD_... of waitid(2)
	switch values["ExecMainCode"] {
	case exited:
		return values["ExecMainStatus"], nil
	case killed, dumped:
		return 128 + values["ExecMainStatus"], nil
	default:
		return 0, fmt.Errorf("cannot tell how %s has ended: systemd-run has returned %d, and systemctl says %q", unitName(n), status, out)
	}
}
