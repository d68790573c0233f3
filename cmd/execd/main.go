// Execd is the execution-host agent: it runs jobs as Grid Engine does. See
// execd(8).
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/execd-project/execd/agent/config"
	"github.com/execd-project/execd/agent/doctor"
	"github.com/execd-project/execd/agent/foreground"
	"github.com/execd-project/execd/agent/sensor"
	"github.com/execd-project/execd/simulate"
)

// version is set by the build.
var version = "unknown"

const usage = `Usage: execd COMMAND [options]

Commands:
  run       run one job on this host, in the foreground (execd run --help)
  config    check a configuration directory (execd config --help)
  simulate  say what a cluster would do with jobs (execd simulate --help)
  sensor    check a load sensor (execd sensor --help)
  doctor    say what this host can enforce, and what it would take to do better
  version   print the version
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return foreground.ExitUsage
	}
	switch args[0] {
	case "run":
		return runJob(args[1:])
	case "config":
		return checkConfig(args[1:])
	case "simulate":
		return runSimulation(args[1:])
	case "sensor":
		return checkSensor(args[1:])
	case "doctor":
		return examine(args[1:])
	case "version", "--version", "-version":
		fmt.Println("execd", version)
		return 0
	case "help", "--help", "-help", "-h":
		fmt.Print(usage)
		return 0
	}
	fmt.Fprintf(os.Stderr, "execd: unknown command %q\n%s", args[0], usage)
	return foreground.ExitUsage
}

func examine(args []string) int {
	status, err := doctor.Run(args, os.Stdout)
	if err == nil {
		return status
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "execd doctor:", strings.TrimSuffix(line, "\n"))
	}
	if errors.Is(err, doctor.ErrUsage) {
		return foreground.ExitUsage
	}
	return foreground.ExitCannotRun
}

func runJob(args []string) int {
	executable, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "execd:", err)
		return foreground.ExitCannotRun
	}
	c := foreground.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable}
	status, err := c.Run()
	if err != nil {
		// One line for each of several errors, such as those of a directory.
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, "execd run:", strings.TrimSuffix(line, "\n"))
		}
	}
	if _, ok := errors.AsType[*foreground.UsageError](err); ok {
		fmt.Fprintln(os.Stderr, "execd run: see execd run --help")
	}
	return status
}

func checkConfig(args []string) int {
	c := config.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr}
	status, err := c.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "execd config:", err)
	}
	if _, ok := errors.AsType[*config.UsageError](err); ok {
		fmt.Fprintln(os.Stderr, "execd config: see execd config --help")
	}
	return status
}

func runSimulation(args []string) int {
	c := simulate.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if info, err := os.Stderr.Stat(); err == nil {
		c.Terminal = info.Mode()&os.ModeCharDevice != 0
	}
	status, err := c.Run()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, "execd simulate:", strings.TrimSuffix(line, "\n"))
		}
	}
	if _, ok := errors.AsType[*simulate.UsageError](err); ok {
		fmt.Fprintln(os.Stderr, "execd simulate: see execd simulate --help")
	}
	return status
}

func checkSensor(args []string) int {
	c := sensor.Command{Args: args, Stdout: os.Stdout}
	status, err := c.Run()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, "execd sensor:", strings.TrimSuffix(line, "\n"))
		}
	}
	if _, ok := errors.AsType[*sensor.UsageError](err); ok {
		fmt.Fprintln(os.Stderr, "execd sensor: see execd sensor --help")
	}
	return status
}
