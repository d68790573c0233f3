// Vm runs a program in a temporary virtual machine, for tests that need another machine: control
// groups of either version, several NUMA nodes, a real systemd, or a machine that may be disturbed.
//
//	go run ./test/vm [OPTIONS] BINARY [ARGUMENTS]
//	go test -exec 'go run github.com/execd-project/execd/test/vm' ./limits/cgroup
//
// The program runs as root or as the user of -user, in the working directory /guest, which contains
// a copy of testdata if this directory has one. Its output is printed on standard output, and its
// exit status is returned; 128+N if signal N killed it. The environment variable EXECD_VM is set in
// the guest.
//
// Exit status 124: out of time. 125: the guest itself has failed, or could not be
// started. "go run" turns each into 1; go build -o vm ./test/vm does not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/test/vm/guest"
	"github.com/execd-project/execd/test/vm/plan"
)

const (
	statusTimeout = 124
	statusFailed  = 125
	statusUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	status, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string) (int, error) {
	m, s, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return statusUsage, err
	}
	s.Output = os.Stdout
	results, err := m.Run(ctx, s)
	switch {
	case errors.Is(err, guest.ErrTimeout):
		return statusTimeout, err
	case err != nil:
		return statusFailed, err
	default:
		return results[0].Status, nil
	}
}

// parse turns the command line into a machine and the step that runs in it.
func parse(args []string) (guest.Machine, guest.Step, error) {
	m := guest.Machine{Files: map[string]string{}}
	var s guest.Step
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	cpus := f.String("cpus", "1x2x1", "`SOCKETSxCORESxTHREADS`: cores of each socket, threads of each core")
	f.IntVar(&m.Nodes, "nodes", 1, "`number` of NUMA nodes")
	f.IntVar(&m.Memory, "memory", 0, "`MiB` of memory; 1024 if 0, with systemd 2048")
	f.IntVar(&m.Swap, "swap", 0, "`MiB` of the memory that are swap space")
	f.StringVar(&m.Cgroup, "cgroup", guest.V2, "`version` of the control groups: v2, v1, or hybrid")
	f.BoolVar(&m.Systemd, "systemd", false, "a minimal Debian with its systemd as process 1")
	f.StringVar(&s.User, "user", "root", "run it as this `user`: root, tester, alice, bob or nobody")
	f.DurationVar(&m.Timeout, "timeout", 3*time.Minute, "give up after this `time`")
	verbose := f.Bool("verbose", false, "show what the guest's kernel says")
	f.Func("file", "also copy `HOST:GUEST`, a file or a folder; may be repeated", func(v string) error {
		from, to, found := strings.Cut(v, ":")
		if !found {
			return errors.New("it is no HOST:GUEST")
		}
		m.Files[to] = from
		return nil
	})
	f.Func("env", "set `NAME=VALUE` in the environment of the program; may be repeated", func(v string) error {
		s.Env = append(s.Env, v)
		return nil
	})
	f.Func("module", "load this kernel module; may be repeated", func(v string) error {
		m.Modules = append(m.Modules, v)
		return nil
	})
	f.Func("property", "set a property of the `NAME=VALUE` of the program's unit, with -systemd; may be repeated", func(v string) error {
		s.Properties = append(s.Properties, v)
		return nil
	})
	f.Usage = func() {
		fmt.Fprint(f.Output(), "usage: vm [OPTIONS] BINARY [ARGUMENTS]\n\nRuns BINARY in a throw-away virtual machine.\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return m, s, err
	}
	if f.NArg() == 0 {
		f.Usage()
		return m, s, errors.New("cannot run a program: there is none among the arguments")
	}
	if err := parseCPUs(*cpus, &m); err != nil {
		return m, s, err
	}
	if *verbose {
		m.Console = os.Stderr
	}
	const dir = "/guest"
	binary := f.Arg(0)
	name := dir + "/" + filepath.Base(binary)
	m.Files[name] = binary
	if _, err := os.Stat("testdata"); err == nil {
		m.Files[dir+"/testdata"] = "testdata"
	}
	s.Step = plan.Step{Argv: append([]string{name}, f.Args()[1:]...), Dir: dir, User: s.User, Env: s.Env, Properties: s.Properties}
	return m, s, nil
}

func parseCPUs(text string, m *guest.Machine) error {
	var rest string
	n, _ := fmt.Sscanf(text, "%dx%dx%d%s", &m.Sockets, &m.Cores, &m.Threads, &rest)
	if n != 3 || m.Sockets < 1 || m.Cores < 1 || m.Threads < 1 {
		return fmt.Errorf("cannot use -cpus %q: it is no SOCKETSxCORESxTHREADS", text)
	}
	return nil
}
