package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/cmd/execd/internal/agentclient"
	"github.com/execd-project/execd/cmd/execd/internal/completion"
	"github.com/execd-project/execd/cmd/execd/internal/config"
	"github.com/execd-project/execd/cmd/execd/internal/doctor"
	"github.com/execd-project/execd/cmd/execd/internal/importer"
	"github.com/execd-project/execd/cmd/execd/internal/messages"
	"github.com/execd-project/execd/cmd/execd/internal/ps"
	"github.com/execd-project/execd/cmd/execd/internal/qacct"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/report"
	"github.com/execd-project/execd/cmd/execd/internal/run"
	"github.com/execd-project/execd/cmd/execd/internal/seff"
	"github.com/execd-project/execd/cmd/execd/internal/sensor"
	"github.com/execd-project/execd/cmd/execd/internal/simulate"
	"github.com/execd-project/execd/cmd/execd/internal/tail"
	"github.com/execd-project/execd/cmd/execd/internal/top"
	"github.com/execd-project/execd/cmd/execd/internal/wait"
	"github.com/execd-project/execd/cmd/execd/internal/web"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/internal/version"
	"github.com/execd-project/execd/standalone"
)

// row is a command in the table of commands.
type row struct {
	name    string
	summary string        // for the list of commands
	help    func() string // the help text; for our own commands it describes the options (package options)
	// run carries out the command and returns the exit status. The error, if there is one, has not
	// been printed yet.
	run func(args []string) (int, error)
	// gridengine says that the command is one of Grid Engine's: execd is the command if it is
	// called by its name, and the command prints errors as the original does.
	gridengine bool
}

// table returns all commands, in the order of the list that execd help prints.
func table() []row {
	rows := []row{{name: "standalone", summary: "run a batch system on this machine", help: text(daemon.StandaloneUsage), run: runStandalone}}
	for _, name := range command.Names() {
		rows = append(rows, row{
			name: name, gridengine: true,
			help: func() string { text, _ := command.Help(name); return text },
			run:  func(args []string) (int, error) { return userCommand(name, args), nil },
		})
	}
	rows = append(rows,
		row{name: "run", summary: "run one job on this host, in the foreground", help: run.Help, run: runJob},
		row{name: "agent", summary: "run the jobs of a master on this host", help: text(daemon.Usage), run: runAgent},
	)
	for _, r := range []row{
		{name: "status", summary: "show the agent's status"},
		{name: "jobs", summary: "list the jobs of this host"},
		{name: "attach", summary: "connect the terminal to an interactive job"},
		{name: "drain", summary: "stop taking jobs on this host"},
		{name: "resume", summary: "take jobs again"},
	} {
		r.help = text(agentclient.Usages[r.name])
		r.run = func(args []string) (int, error) { return askAgent(r.name, args) }
		rows = append(rows, r)
	}
	return append(rows,
		row{name: "config", summary: "check a configuration directory", help: text(config.Usage), run: checkConfig},
		row{name: "import", summary: "import a Grid Engine cell's configuration", help: text(importer.Usage), run: importCell},
		row{name: "simulate", summary: "predict when and where jobs would run", help: text(simulate.Usage), run: runSimulation},
		row{name: "sensor", summary: "check a load sensor", help: text(sensor.Usage), run: checkSensor},
		row{name: "qacct", summary: "report resource usage of finished jobs", help: text(qacct.Usage), run: account, gridengine: true},
		row{name: "ps", summary: "list jobs for people: progress, and why they are pending", help: text(ps.Usage), run: listJobs},
		row{name: "top", summary: "watch jobs, slots, memory and GPUs, and act on jobs", help: text(top.Usage), run: watchJobs},
		row{name: "seff", summary: "show what finished jobs used of what they requested", help: text(seff.Usage), run: efficiency},
		row{name: "report", summary: "add up what finished jobs used, by user, project and queue", help: text(report.Usage), run: addUp},
		row{name: "wait", summary: "wait until jobs have finished, and exit with their status", help: text(wait.Usage), run: waitForJobs},
		row{name: "tail", summary: "show the output of a job, and follow it to its end", help: text(tail.Usage), run: showOutput},
		row{name: "messages", summary: "show and test who gets messages about your jobs", help: text(messages.Usage), run: showReceivers},
		row{name: "web", summary: "show hosts, queue and jobs in a browser on this machine", help: text(web.Usage), run: serveWeb},
		row{name: "doctor", summary: "show which limits this host can enforce, and how to improve it", help: text(doctor.Usage), run: examine},
		row{name: "completion", summary: "print a script that completes command lines in a shell", help: text(completion.Usage), run: printCompletion},
		row{name: "version", summary: "print the version", help: text(versionUsage), run: printVersion},
		row{name: "help", summary: "print this list, or the help text of a command", help: text(helpUsage), run: printHelp},
	)
}

func text(s string) func() string { return func() string { return s } }

// find returns the row of a command; nil if execd does not have it.
func find(name string) *row {
	rows := table()
	if i := slices.IndexFunc(rows, func(r row) bool { return r.name == name }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// names returns the names of all commands.
func names() []string {
	var all []string
	for _, r := range table() {
		all = append(all, r.name)
	}
	return all
}

// call carries out the command, prints its error, and returns the exit status.
func (r *row) call(args []string) int {
	status, err := r.run(args)
	if err == nil {
		return status
	}
	as := "execd " + r.name
	if r.gridengine {
		as = r.name
	}
	complain(as+":", err)
	if _, ok := errors.AsType[*options.UsageError](err); ok {
		printer.Fprintf(os.Stderr, "%s: see %s --help\n", as, as)
	}
	return status
}

// overview returns the list of commands.
func overview() string {
	var b strings.Builder
	b.WriteString("Usage: execd COMMAND [options]\n\nCommands:\n")
	var original []string // commands of Grid Engine
	for _, r := range table() {
		switch {
		case r.summary == "":
			original = append(original, r.name)
			continue
		case original != nil:
			line := ""
			for i, name := range original {
				if i < len(original)-1 {
					name += ","
				}
				if len(line)+1+len(name) > 88 {
					b.WriteString(" " + line + "\n")
					line = ""
				}
				line += " " + name
			}
			b.WriteString(" " + line + "\n            Grid Engine's commands for it; links with these names work, too\n")
			original = nil
		}
		if len(r.name) > 9 {
			printer.Fprintf(&b, "  %s\n            %s\n", r.name, r.summary)
			continue
		}
		printer.Fprintf(&b, "  %-9s %s\n", r.name, r.summary)
	}
	b.WriteString("\nexecd help COMMAND prints the options of a command, and so does execd COMMAND --help.\n")
	return b.String()
}

const helpUsage = `Usage: execd help [COMMAND]

Prints the help text of a command, or the list of commands.

  --help  print this text
`

func printHelp(args []string) (int, error) {
	line, err := options.Parse(helpUsage, args, nil)
	if err != nil {
		return options.Exit(os.Stdout, helpUsage, err)
	}
	switch {
	case len(line.Operands) > 1:
		return options.ExitUsage, options.Usagef("expected one command, and there are %d arguments", len(line.Operands))
	case len(line.Operands) == 0:
		_, err := io.WriteString(os.Stdout, overview())
		return 0, err
	}
	c := find(line.Operands[0])
	if c == nil {
		return unknown(line.Operands[0]), nil
	}
	_, err = io.WriteString(os.Stdout, c.help())
	return 0, err
}

const versionUsage = `Usage: execd version

Prints the version.

  --help  print this text
`

func printVersion(args []string) (int, error) {
	line, err := options.Parse(versionUsage, args, nil)
	if err != nil {
		return options.Exit(os.Stdout, versionUsage, err)
	}
	if len(line.Operands) > 0 {
		return options.ExitUsage, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	_, err = fmt.Println("execd", version.String())
	return 0, err
}

func examine(args []string) (int, error) {
	status, err := doctor.Run(args, printer.NewWriter(os.Stdout))
	if _, usage := errors.AsType[*options.UsageError](err); err != nil && !usage {
		status = run.ExitCannotRun
	}
	return status, err
}

func runJob(args []string) (int, error) {
	executable, err := os.Executable()
	if err != nil {
		return run.ExitCannotRun, err
	}
	c := run.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable}
	return c.Run()
}

func runAgent(args []string) (int, error) {
	executable, err := os.Executable()
	if err != nil {
		return daemon.ExitCannotRun, err
	}
	c := daemon.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable, Version: version.String(), Web: newPages}
	return c.Run()
}

// userCommand runs one of Grid Engine's commands, which prints its errors itself.
func userCommand(name string, args []string) int {
	ctx := context.Background()
	// A shell without job control ignores SIGINT for what it starts with &, and so does the original then.
	if heeded := slices.DeleteFunc([]os.Signal{os.Interrupt, unix.SIGTERM}, signal.Ignored); len(heeded) > 0 {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, heeded...)
		defer stop()
		context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	}
	c := qclient.Command{Name: name, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return c.Run(ctx)
}

func runStandalone(args []string) (int, error) {
	executable, err := os.Executable()
	if err != nil {
		return daemon.ExitCannotRun, err
	}
	c := daemon.Command{
		Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Executable: executable, Version: version.String(), Name: "standalone", CellDir: standalone.MakeCellDir, Web: newPages,
		Confirm: func(h *daemon.Host, add func([]daemon.Confirmed) error) error {
			return standalone.Confirm(h, clock.System(), add)
		},
		Master: func(h *daemon.Host) (daemon.Master, error) {
			m, err := standalone.New(h, clock.System())
			if err != nil {
				return nil, err // and no *Master that is nil
			}
			return m, nil
		},
	}
	return c.Run()
}

func askAgent(name string, args []string) (int, error) {
	c := agentclient.Command{Name: name, Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Stdin: os.Stdin, Terminal: os.Stdout}
	return c.Run()
}

func checkConfig(args []string) (int, error) {
	c := config.Command{Args: args, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr)}
	return c.Run()
}

func importCell(args []string) (int, error) {
	c := importer.Command{Args: args, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr)}
	return c.Run()
}

func runSimulation(args []string) (int, error) {
	c := simulate.Command{Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: os.Stderr}
	if info, err := os.Stderr.Stat(); err == nil {
		c.Terminal = info.Mode()&os.ModeCharDevice != 0
	}
	return c.Run()
}

func account(args []string) (int, error) {
	var file, advice string
	if !slices.Contains(args, "-f") && !slices.Contains(args, "-help") { // which need no daemon
		file, advice = qclient.AccountingFile(context.Background())
	}
	c := qacct.Command{
		Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr),
		File: file, Advice: advice, Now: time.Now(), Group: userdb.System().GroupName, Select: selectQueues,
	}
	status, err := c.Run()
	if err != nil {
		return qacct.ExitFailed, err
	}
	return status, nil
}

func efficiency(args []string) (int, error) {
	c := seff.Command{
		Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr),
		File: func() string { file, _ := qclient.AccountingFile(context.Background()); return file },
	}
	return c.Run()
}

func addUp(args []string) (int, error) {
	c := report.Command{
		Args: args, Stdin: os.Stdin, Stdout: printer.NewWriter(os.Stdout), Stderr: printer.NewWriter(os.Stderr), Now: time.Now(),
		File: func() string { file, _ := qclient.AccountingFile(context.Background()); return file },
	}
	return c.Run()
}

func waitForJobs(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	user := qclient.Command{Name: "execd wait", Stderr: os.Stderr}
	c := wait.Command{
		Args: args, Stdout: os.Stdout, Stderr: os.Stderr, AwaitEnd: user.AwaitEnd,
		File: func() string { file, _ := qclient.AccountingFile(ctx); return file },
	}
	return c.Run(ctx)
}

func listJobs(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	c := ps.Command{
		Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: terminal.Is(os.Stdout), NoColor: os.Getenv("NO_COLOR") != "", Now: time.Now(),
	}
	if c.Terminal {
		if _, cols, err := terminal.Size(os.Stdout); err == nil {
			c.Width = int(cols)
		}
	}
	return c.Run(ctx)
}

func watchJobs(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	c := top.Command{
		Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: terminal.Is(os.Stdin) && terminal.Is(os.Stdout), Term: os.Getenv("TERM"), NoColor: os.Getenv("NO_COLOR") != "",
	}
	if _, cols, err := terminal.Size(os.Stdout); err == nil {
		c.Width = int(cols)
	}
	return c.Run(ctx)
}

func showOutput(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	c := tail.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: terminal.Is(os.Stderr)}
	return c.Run(ctx)
}

func showReceivers(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	c := messages.Command{Args: args, Stdout: os.Stdout, Version: version.String()}
	return c.Run(ctx)
}

func serveWeb(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	c := web.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr}
	return c.Run(ctx)
}

// selectQueues returns the queue instances that qselect prints.
func selectQueues(options ...string) ([]string, error) {
	var out, errs bytes.Buffer
	c := qclient.Command{Name: "qselect", Args: options, Stdin: os.Stdin, Stdout: &out, Stderr: &errs}
	status := c.Run(context.Background())
	if status != 0 && errs.Len() == 0 { // no queue, or an unknown resource, which qhost names
		if options[0] != "-l" {
			return []string{}, nil
		}
		c.Name = "qhost"
		if status = c.Run(context.Background()); status == 0 && errs.Len() == 0 {
			return []string{}, nil
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		return nil, errors.New(strings.TrimPrefix(lines[len(lines)-1], "error: "))
	}
	if status != 0 || errs.Len() > 0 {
		return nil, errors.New(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(errs.String()), "qselect: "), "error: "))
	}
	return strings.Fields(out.String()), nil
}

func checkSensor(args []string) (int, error) {
	c := sensor.Command{Args: args, Stdout: printer.NewWriter(os.Stdout)}
	if terminal.Is(os.Stderr) {
		c.Progress = os.Stderr
	}
	return c.Run()
}
