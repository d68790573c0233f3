// Execd is the execution-host agent: it runs jobs as Grid Engine does. See
// execd(8).
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/cmd/execd/internal/agentclient"
	"github.com/execd-project/execd/cmd/execd/internal/config"
	"github.com/execd-project/execd/cmd/execd/internal/doctor"
	"github.com/execd-project/execd/cmd/execd/internal/importer"
	"github.com/execd-project/execd/cmd/execd/internal/qacct"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/run"
	"github.com/execd-project/execd/cmd/execd/internal/sensor"
	"github.com/execd-project/execd/cmd/execd/internal/simulate"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/internal/version"
	"github.com/execd-project/execd/standalone"
)

const usage = `Usage: execd COMMAND [options]

Commands:
  standalone
            run a batch system on this machine (execd standalone --help)
  qsub, qstat, qdel, qhold, qrls, qalter, qmod, qhost, qquota, qselect, qresub, qrsub,
  qrstat, qrdel, qconf, sge_share_mon
            Grid Engine's commands for it; links with these names work, too
  run       run one job on this host, in the foreground (execd run --help)
  agent     run the jobs of a master on this host (execd agent --help)
  status    show the agent's status (execd status --help)
  jobs      list the jobs of this host (execd jobs --help)
  attach    connect the terminal to an interactive job (execd attach --help)
  drain     stop taking jobs on this host (execd drain --help)
  resume    take jobs again (execd resume --help)
  config    check a configuration directory (execd config --help)
  import    import a Grid Engine cell's configuration (execd import --help)
  simulate  predict when and where jobs would run (execd simulate --help)
  sensor    check a load sensor (execd sensor --help)
  qacct     report resource usage of finished jobs (execd qacct -help)
  doctor    show which limits this host can enforce, and how to improve it
  version   print the version
`

func main() { os.Exit(dispatch(os.Args[1:])) }

func dispatch(args []string) int {
	switch name := program(); {
	case name == "qacct":
		return account(args)
	case slices.Contains(command.Names(), name):
		return userCommand(name, args)
	case command.Absent[name] != "":
		return absent(name)
	}
	if len(args) == 0 {
		printer.Fprintf(os.Stderr, "%s", printer.Trusted(usage))
		return run.ExitUsage
	}
	if c := find(args[0]); c != nil {
		return c(args[1:])
	}
	if command.Absent[args[0]] != "" {
		return absent(args[0])
	}
	printer.Fprintf(os.Stderr, "execd: unknown command %q%s\n%s", args[0], nearest.Hint("", args[0], names()), printer.Trusted(usage))
	return run.ExitUsage
}

// commands returns all commands of execd by their names.
func commands() map[string]func(args []string) int {
	all := map[string]func([]string) int{
		"standalone": runStandalone, "run": runJob, "agent": runAgent, "config": checkConfig, "import": importCell,
		"simulate": runSimulation, "sensor": checkSensor, "qacct": account, "doctor": examine,
		"version": printVersion, "help": printUsage,
	}
	for _, name := range []string{"status", "jobs", "attach", "drain", "resume"} {
		all[name] = func(args []string) int { return askAgent(name, args) }
	}
	for _, name := range command.Names() {
		all[name] = func(args []string) int { return userCommand(name, args) }
	}
	return all
}

// find returns what runs a command; nil if there is no such command.
func find(name string) func(args []string) int {
	switch name {
	case interactive.Word: // for the agent alone
		return interactiveJob
	case "--version", "-version":
		return printVersion
	case "--help", "-help", "-h":
		return printUsage
	}
	return commands()[name]
}

// names returns the names of all commands.
func names() []string { return slices.Sorted(maps.Keys(commands())) }

func printVersion([]string) int {
	fmt.Println("execd", version.String())
	return 0
}

func printUsage([]string) int {
	fmt.Print(usage)
	return 0
}

// complain says what went wrong: a line for each of several errors, such as those of a directory.
func complain(prefix string, err error) {
	for _, line := range printer.ErrorLines(err) {
		printer.Fprintf(os.Stderr, "%s %s\n", prefix, printer.Trusted(line))
	}
}

// interactiveJob is an interactive job of Grid Engine.
func interactiveJob(args []string) int {
	status, err := interactive.Main(args)
	if err != nil {
		complain("execd:", err)
	}
	return status
}

func examine(args []string) int {
	status, err := doctor.Run(args, printer.NewWriter(os.Stdout))
	if err == nil {
		return status
	}
	complain("execd doctor:", err)
	if errors.Is(err, doctor.ErrUsage) {
		return run.ExitUsage
	}
	return run.ExitCannotRun
}

func runJob(args []string) int {
	executable, err := os.Executable()
	if err != nil {
		complain("execd:", err)
		return run.ExitCannotRun
	}
	c := run.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable}
	status, err := c.Run()
	if err != nil {
		complain("execd run:", err)
	}
	if _, ok := errors.AsType[*run.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd run: see execd run --help\n")
	}
	return status
}

func runAgent(args []string) int {
	executable, err := os.Executable()
	if err != nil {
		complain("execd agent:", err)
		return daemon.ExitCannotRun
	}
	c := daemon.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable, Version: version.String()}
	status, err := c.Run()
	if err != nil {
		complain("execd agent:", err)
	}
	if _, ok := errors.AsType[*daemon.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd agent: see execd agent --help\n")
	}
	return status
}

// program is the name under which this was called.
func program() string { return filepath.Base(os.Args[0]) }

// userCommand is one of Grid Engine's commands.
func userCommand(name string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	c := qclient.Command{Name: name, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return c.Run(ctx)
}

func runStandalone(args []string) int {
	executable, err := os.Executable()
	if err != nil {
		complain("execd standalone:", err)
		return daemon.ExitCannotRun
	}
	c := standalone.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable, Version: version.String()}
	status, err := c.Run()
	if err != nil {
		complain("execd standalone:", err)
	}
	if _, ok := errors.AsType[*daemon.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd standalone: see execd standalone --help\n")
	}
	return status
}

func askAgent(name string, args []string) int {
	c := agentclient.Command{Name: name, Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Stdin: os.Stdin, Terminal: os.Stdout}
	status, err := c.Run()
	if err != nil {
		complain("execd "+name+":", err)
	}
	if _, ok := errors.AsType[*agentclient.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd %s: see execd %s --help\n", name, name)
	}
	return status
}

func checkConfig(args []string) int {
	c := config.Command{Args: args, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr)}
	status, err := c.Run()
	if err != nil {
		complain("execd config:", err)
	}
	if _, ok := errors.AsType[*config.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd config: see execd config --help\n")
	}
	return status
}

func importCell(args []string) int {
	c := importer.Command{Args: args, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr)}
	status, err := c.Run()
	if err != nil {
		complain("execd import:", err)
	}
	if _, ok := errors.AsType[*importer.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd import: see execd import --help\n")
	}
	return status
}

func runSimulation(args []string) int {
	c := simulate.Command{Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: os.Stderr}
	if info, err := os.Stderr.Stat(); err == nil {
		c.Terminal = info.Mode()&os.ModeCharDevice != 0
	}
	status, err := c.Run()
	if err != nil {
		complain("execd simulate:", err)
	}
	if _, ok := errors.AsType[*simulate.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd simulate: see execd simulate --help\n")
	}
	return status
}

func account(args []string) int {
	file, advice := qclient.AccountingFile(context.Background())
	c := qacct.Command{
		Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr),
		File: file, Advice: advice, Now: time.Now(), Group: userdb.System().GroupName, Select: selectQueues,
	}
	status, err := c.Run()
	if err != nil {
		complain("qacct:", err)
		return qacct.ExitFailed
	}
	return status
}

// absent says what to type instead of a command of Grid Engine that there is not.
func absent(name string) int {
	printer.Fprintf(os.Stderr, "%s: execd does not have this command: %s\n", name, command.Absent[name])
	return run.ExitUsage
}

// selectQueues are the queue instances that qselect prints.
func selectQueues(options ...string) ([]string, error) {
	var out, errs bytes.Buffer
	c := qclient.Command{Name: "qselect", Args: options, Stdin: os.Stdin, Stdout: &out, Stderr: &errs}
	if status := c.Run(context.Background()); status != 0 || errs.Len() > 0 {
		return nil, errors.New(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(errs.String()), "qselect: "), "error: "))
	}
	return strings.Fields(out.String()), nil
}

func checkSensor(args []string) int {
	c := sensor.Command{Args: args, Stdout: printer.NewWriter(os.Stdout)}
	if terminal.Is(os.Stderr) {
		c.Progress = os.Stderr
	}
	status, err := c.Run()
	if err != nil {
		complain("execd sensor:", err)
	}
	if _, ok := errors.AsType[*sensor.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "execd sensor: see execd sensor --help\n")
	}
	return status
}
