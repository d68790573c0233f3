// Inside is the program that runs in a guest of test/vm and starts the programs under test. It is
// one executable with several parts:
//
//	process 1   of a guest without systemd: it mounts what a Linux system has, and
//	            reaps processes. With systemd it prepares what the kernel has not
//	            and executes systemd, which starts "inside steps" as a service.
//	steps       runs the steps of the plan, tells the host what they print and how
//	            they end, and ends the guest.
//	step N      becomes the program of step N, as its user and in its control group.
//
// It reports errors to the host, and the guest ends. On a machine that is not a guest it refuses to
// do anything.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/execd-project/execd/test/vm/plan"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if os.Getpid() == 1 {
			tell(err)
			end()
		}
		fmt.Fprintln(os.Stderr, "inside:", err)
		os.Exit(125)
	}
}

func run(args []string) error {
	p, err := readPlan()
	if err != nil {
		return err
	}
	switch {
	case os.Getpid() == 1:
		return beProcess1(p)
	case len(args) == 1 && args[0] == "steps":
		if err := runSteps(p); err != nil {
			tell(err)
		}
		end()
		return nil
	case len(args) == 2 && args[0] == "step":
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 || n >= len(p.Steps) {
			return fmt.Errorf("cannot run step %q: there is none", args[1])
		}
		return become(p, n)
	default:
		return errors.New("usage: inside steps | step N, in a guest of test/vm")
	}
}

func readPlan() (*plan.Plan, error) {
	text, err := os.ReadFile(plan.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the plan, which only a guest of test/vm has: %w", err)
	}
	p := new(plan.Plan)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("cannot read the plan: %w", err)
	}
	return p, nil
}

// tell reports to the host that the guest has failed.
func tell(cause error) {
	line, err := openLine()
	if err == nil {
		err = plan.Frame{Kind: plan.Failed, Payload: []byte(cause.Error())}.Write(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inside:", cause, "and", err)
	}
}

// end ends the guest. Restarting is what QEMU takes for its end, as it takes a
// panic of the kernel.
func end() {
	if line, err := openLine(); err == nil {
		_ = drain(line)
	}
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
}
