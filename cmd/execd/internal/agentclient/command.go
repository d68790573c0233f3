package agentclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/cmd/execd/internal/attach"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
)

// patience is the timeout for an answer of the agent, which has all requested data in memory.
const patience = 10 * time.Second

// restartPatience is the time to wait for an agent that does not answer although its socket exists:
// it may be restarting.
const restartPatience = 2 * time.Second

// beginning is the time to wait for a socket that does not exist: the previous command may have started
// the daemon.
const beginning = 3 * time.Second

// restartPause is the pause between two attempts.
const restartPause = 50 * time.Millisecond

// Command is one call of execd status, jobs, attach, drain or resume. The zero value of a
// field is not a default.
type Command struct {
	Name           string   // "status", "jobs", "attach", "drain" or "resume"
	Args           []string // words after the name
	Stdout, Stderr io.Writer
	// Stdin and Terminal are the input and the output of the job's terminal; only for attach.
	Stdin, Terminal *os.File
}

// Run carries out the command and returns the exit status. The caller prints the error.
func (c *Command) Run() (int, error) {
	s, err := parse(c.Name, c.Args)
	switch {
	case errors.Is(err, options.ErrHelp):
		_, err := io.WriteString(c.Stdout, Usages[c.Name])
		return ExitGood, err
	case err != nil && c.Name == "attach":
		return ExitNoStatus, err
	case err != nil:
		return options.ExitUsage, err
	}
	s.socket = c.awaitSocket(s.socket)
	client, err := api.Dial(api.Options{Socket: s.socket, Timeout: patience, RetryFor: -1})
	if err != nil {
		return ExitRefused, err
	}
	defer client.Close()
	if c.Name == "attach" {
		status, err := c.attach(client, s)
		if err != nil {
			err = advise(s.socket, err)
		}
		return status, err
	}
	status, err := c.ask(context.Background(), client, s)
	for end := time.Now().Add(restartPatience); attach.Away(err) && hungUp(err) && time.Now().Before(end); {
		time.Sleep(restartPause)
		status, err = c.ask(context.Background(), client, s)
	}
	if err != nil {
		return ExitRefused, advise(s.socket, err)
	}
	return status, nil
}

// awaitSocket waits a few seconds until the socket of an agent exists, and returns its path. Without
// a chosen path it is the default one.
func (c *Command) awaitSocket(chosen string) string {
	for end := time.Now().Add(beginning); ; time.Sleep(restartPause) {
		path := cmp.Or(chosen, DefaultSocket()) // again: a daemon of the user may start meanwhile
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			return path
		}
	}
}

// hungUp reports whether a call failed because the agent had ended or ended before its answer. The
// socket of an ended agent refuses the connection. An agent that ends resets connections, or closes
// them during the answer. This side may also have closed a connection after it noticed the end. A
// repetition of the calls in ask does no harm.
func hungUp(err error) bool {
	if e, ok := errors.AsType[*url.Error](err); ok && e.Err.Error() == closedIdle {
		return true
	}
	return slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// closedIdle is the text of net/http's error, which has no other name, if the connection ends just
// before the call is written.
const closedIdle = "http: server closed idle connection"

func (c *Command) ask(ctx context.Context, client *api.Client, s *settings) (int, error) {
	switch c.Name {
	case "drain":
		return ExitGood, client.Drain(ctx, s.reason)
	case "resume":
		return c.resume(ctx, client)
	case "jobs":
		return ExitGood, c.jobs(ctx, client, s)
	}
	h, err := client.Health(ctx)
	if err != nil {
		return 0, err
	}
	status := ExitGood
	faulty := slices.ContainsFunc(h.Sensors, func(s api.Sensor) bool { return s.Fault != "" })
	if len(h.Troubles) > 0 || h.ConfigurationError != "" || faulty {
		status = ExitTrouble
	}
	if s.json {
		return status, c.printJSON(h)
	}
	return status, c.print(statusText(&h, time.Now()))
}

// resume ends the drain and prints the reason if the host still takes no jobs.
func (c *Command) resume(ctx context.Context, client *api.Client) (int, error) {
	if err := client.ResumeHost(ctx); err != nil {
		return 0, err
	}
	h, err := client.Health(ctx)
	if err == nil && h.Draining != "" {
		printer.Fprintf(c.Stderr, "execd resume: the host still takes no jobs: %s\n", h.Draining)
	}
	return ExitGood, err
}

func (c *Command) jobs(ctx context.Context, client *api.Client, s *settings) error {
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		return len(s.users) > 0 && !slices.Contains(s.users, j.Owner) ||
			len(s.states) > 0 && !slices.Contains(s.states, string(j.State))
	})
	if s.json {
		if jobs == nil {
			jobs = []api.Job{}
		}
		return c.printJSON(api.JobsAnswer{Jobs: jobs})
	}
	if len(jobs) == 0 {
		return nil
	}
	return c.print(jobsText(jobs))
}

func (c *Command) printJSON(v any) error {
	text, err := printer.JSON(v)
	if err != nil {
		return err
	}
	return c.print(string(text))
}

func (c *Command) print(text string) error {
	if _, err := io.WriteString(printer.NewWriter(c.Stdout), text); err != nil {
		return fmt.Errorf("cannot write to standard output: %w", err)
	}
	return nil
}

// advise says what to do about an agent that does not answer.
func advise(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.Join(fmt.Errorf("no agent is running here: there is no socket %q", socket), errors.New(start(socket)+"; or say with --socket where it listens"))
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.Join(fmt.Errorf("no agent answers at %q: it has stopped; jobs continue without it", socket), errors.New(start(socket)))
	case attach.Away(err) && hungUp(err):
		return errors.Join(fmt.Errorf("the agent at %q closed the connection before it answered: it is stopping or restarting; jobs continue without it", socket), errors.New("try again; "+log(socket)))
	case errors.Is(err, fs.ErrPermission):
		return paths.Forbidden(socket)
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		switch {
		case e.Code == api.PermissionDenied:
			return fmt.Errorf("the agent refuses: %s", e.Message)
		case e.Err != nil && errors.Is(e.Err, context.DeadlineExceeded):
			return errors.Join(fmt.Errorf("the agent at %q has not answered within %s", socket, patience), errors.New(log(socket)))
		}
		return errors.New(e.Message)
	}
	return err
}

// start describes how to start the daemon of a socket: through the service manager if that runs the
// host's daemon, otherwise by the user.
func start(socket string) string {
	if socket == api.DefaultSocket {
		return "start it with: systemctl start execd; or start a daemon of your own with: execd standalone; why it has ended, says: journalctl -u execd"
	}
	return "start it with: execd standalone, or execd agent"
}

// log describes where to find the log of the daemon of a socket.
func log(socket string) string {
	if socket == api.DefaultSocket {
		return "its log says more: journalctl -u execd"
	}
	return "its log says more: it is standard error of the daemon"
}
