// Package qclient implements the user commands of execd standalone: qsub, qstat, qdel and the
// others, as execd qsub, or as qsub by a link. A command finds out which files it needs,
// reads them with the rights of its user, and sends the command line and the files to the daemon.
package qclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/standalone/api"
)

// patience is the time for which a command waits for a daemon that does not run, for example
// because it is being restarted.
const patience = 30 * time.Second

// Command is one call of a command.
type Command struct {
	Name           string // qsub, ...
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Directory and Environment are those of the program on whose behalf the command runs. Empty
	// and nil stand for those of this process.
	Directory   string
	Environment []string
}

// Exit statuses of our own; all others are those of Grid Engine's commands.
const (
	exitGood   = 0
	exitFailed = 1
)

// Run carries out the command, prints its output and errors, and returns the exit status.
func (c *Command) Run(ctx context.Context) int {
	status, err := c.run(ctx)
	if err != nil {
		printer.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
	}
	return status
}

// run carries out the command line and returns its exit status. It has the daemon decide, except about help
// texts and qrsh -inherit.
func (c *Command) run(ctx context.Context) (int, error) {
	if text, ok := c.help(); ok {
		_, err := io.WriteString(c.Stdout, text)
		return exitGood, err
	}
	if c.Name == "qrsh" {
		if status, ok := c.inherit(ctx); ok {
			return status, nil
		}
	}
	q, in, err := c.request(ctx)
	if err != nil {
		return exitFailed, err
	}
	d, err := c.Dial(ctx)
	if err != nil {
		return exitFailed, err
	}
	if c.Name == "sge_share_mon" {
		return c.collect(ctx, q, d)
	}
	since := time.Now()
	a, err := c.ask(ctx, d, q, in)
	if e, ok := errors.AsType[*unverifiedError](err); ok {
		return c.unverified(e.error)
	}
	if err != nil {
		return exitFailed, Explain(err)
	}
	for _, o := range []struct {
		to   io.Writer
		text api.Text
	}{{c.Stdout, a.Stdout}, {c.Stderr, a.Stderr}} {
		if len(o.text) == 0 { // to write nothing fails, too, if the output is closed
			continue
		}
		if err := show(o.to, o.text); err != nil {
			return exitFailed, err
		}
	}
	if a.Interactive && a.Exit == 0 {
		return c.attach(ctx, d, a)
	}
	if a.Sync && a.Job != 0 && a.Exit == 0 {
		return c.sync(ctx, d, a, since)
	}
	return a.Exit, nil
}

// Ask reads the files that the command line names, runs verifiers, sends the command to the daemon, and
// returns the answer without printing it. If the call of the daemon fails, it returns the error of package
// agent/api; Explain makes a sentence of it.
func (c *Command) Ask(ctx context.Context, d *api.Client) (*api.CommandAnswer, error) {
	q, in, err := c.request(ctx)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, d, q, in)
}

// unverifiedError is the reason for which a verifier has refused a job.
type unverifiedError struct{ error }

// ask sends a request, and sends it again after each text that the daemon asks to be edited, verified or confirmed.
// in is the command line of the request.
func (c *Command) ask(ctx context.Context, d *api.Client, q *api.CommandRequest, in *command.Input) (*api.CommandAnswer, error) {
	var change *confirmedChange
	for {
		a, err := d.Command(ctx, q)
		if change != nil {
			if err == nil && (a.Edit != nil || a.Verify != nil || a.Confirm != "") {
				err = errors.New("the daemon requests a further step after the confirmation")
			}
			return change.settle(a, err)
		}
		switch {
		case err != nil:
			return nil, err
		case a.Confirm != "" && c.Name == "qconf":
			var answer *api.CommandAnswer
			if change, answer, err = c.configure(ctx, q, in, a); err != nil || answer != nil {
				return answer, err
			}
		case a.Edit != nil:
			if c.Name != "qconf" {
				return nil, errors.New("the daemon requests an editor, which the command does not use")
			}
			text, err := c.edit(ctx, a.Edit)
			if err != nil {
				return nil, err
			}
			q.Key, q.Edited = rand.Text(), append(q.Edited, text)
		case a.Verify != nil:
			if q.Verified {
				return nil, errors.New("the daemon requests that the job is verified again")
			}
			if err := c.checkVerifiers(ctx, d, in, a); err != nil {
				return nil, err
			}
			if q.Corrections, err = c.verify(ctx, a.Verify); err != nil {
				return nil, &unverifiedError{err}
			}
			q.Key, q.Verified = rand.Text(), true
		case a.Confirm != "":
			if err := confirm(ctx, q, in, a); err != nil {
				return nil, err
			}
		default:
			return a, nil
		}
	}
}

// show prints a text of the daemon. It escapes control characters, because another program could
// have taken the place of the daemon and sent commands to the terminal.
func show(to io.Writer, text api.Text) error {
	w := printer.NewWriter(to)
	if _, err := io.WriteString(w, string(text)); err != nil {
		return err
	}
	return w.Flush()
}

// help returns the list of options if the first argument asks for it. This needs no daemon.
func (c *Command) help() (text string, ok bool) {
	if len(c.Args) == 0 || c.Args[0] != "-help" && c.Args[0] != "--help" {
		return "", false
	}
	return command.Help(c.Name)
}

// Explain adds advice to an error of a call if the daemon cannot be reached.
func Explain(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Addr != nil && errors.Is(err, fs.ErrPermission) {
		return paths.Forbidden(e.Addr.String())
	}
	if e, ok := errors.AsType[*agentapi.Error](err); ok && e.Code == agentapi.Unavailable && e.Err != nil {
		return errors.Join(fmt.Errorf("cannot reach the daemon: %w", e.Err),
			fmt.Errorf("is execd standalone running? %s names another socket", paths.SocketVariable))
	}
	if e, ok := errors.AsType[*agentapi.Error](err); ok {
		return errors.New(e.Message)
	}
	return err
}

// request makes the request to the daemon: the command line, the files that it names, and the values
// of this process that it depends on.
func (c *Command) request(ctx context.Context) (*api.CommandRequest, *command.Input, error) {
	dir, home, zone, environment := c.Directory, variable(c.Environment, "HOME"), variable(c.Environment, "TZ"), c.Environment
	if environment == nil {
		home, _ = os.UserHomeDir() // a user without a home has no request files there
		zone, environment = os.Getenv("TZ"), os.Environ()
	}
	if dir == "" {
		var err error
		switch dir, err = workingDirectory(); {
		case err != nil && needDirectory[c.Name]:
			return nil, nil, err
		case err != nil:
			dir = "/" // like the original, the others also work in a directory that has been removed
		}
	}
	in := &command.Input{
		Name: c.Name, Args: c.Args, Dir: dir, Home: home, Environment: environment,
		Files: map[string][]byte{}, Unreadable: map[string]string{},
	}
	q := &api.CommandRequest{
		Key: rand.Text(), Name: c.Name, Args: api.Texts(c.Args), Directory: api.Text(dir), Home: api.Text(home),
		Environment: api.Texts(in.Environment), Zone: zone, Terminal: onTerminal(c.Stderr), TerminalOut: onTerminal(c.Stdout),
	}
	if c.Name == "qrsh" || c.Name == "qlogin" {
		q.Interactive = window()
	}
	for {
		names, stdin := command.Needs(in)
		if stdin && in.Stdin == nil {
			var err error
			if in.Stdin, err = interruptible(ctx, func() ([]byte, error) { return textfile.ReadAll(c.Stdin, textfile.MaxScript) }); err != nil {
				return nil, nil, fmt.Errorf("cannot read standard input: %w", err)
			}
			if in.Stdin == nil {
				in.Stdin = []byte{}
			}
			q.Stdin = in.Stdin
		}
		if len(names) == 0 {
			return q, in, nil
		}
		for _, needed := range names {
			name := needed.Name
			f := api.File{Name: api.Text(name)}
			text, err := c.read(ctx, needed, dir, home)
			switch {
			case ctx.Err() != nil:
				return nil, nil, errInterrupted
			case errors.As(err, new(*defaultsError)):
				return nil, nil, err
			case err != nil:
				f.Error = reason(err)
				in.Unreadable[name] = f.Error
			default:
				f.Text = text
				in.Files[name] = text
			}
			q.Files = append(q.Files, f)
		}
	}
}

// variable returns the value of a variable of an environment.
func variable(environment []string, name string) string {
	for _, e := range environment {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// needDirectory has the commands whose requests depend on the working directory.
var needDirectory = map[string]bool{
	"qsub": true, "qrsh": true, "qlogin": true, "qalter": true, "qhold": true, "qrls": true, "qresub": true, "qrsub": true,
}

// workingDirectory returns the working directory under the kernel's name, which contains no symbolic
// links, as the original does. If PWD is a link that leads elsewhere when the job starts, a job with
// -cwd must still run, and write its files, where it was submitted.
func workingDirectory() (string, error) {
	dir, err := unix.Getwd() // os.Getwd would return PWD
	if err != nil {
		return "", fmt.Errorf("cannot determine the working directory: %w", err)
	}
	return dir, nil
}

// Dial connects to the daemon that the environment names, otherwise to that of the user or of the host.
func (c *Command) Dial(ctx context.Context) (*api.Client, error) {
	path, err := socket(ctx, func() { c.tell("no daemon is running yet, waiting for it") })
	if err != nil {
		return nil, err
	}
	var said atomic.Bool // calls may be made at the same time
	return api.Dial(path, patience, func(err error) {
		if first := !said.Swap(true); first && !errors.Is(err, os.ErrNotExist) {
			c.tell("the daemon does not answer on " + path + ", trying again")
		}
	})
}

// tell prints a notice, on a terminal only: scripts take any text on standard error for a failure.
func (c *Command) tell(text string) {
	if onTerminal(c.Stderr) {
		printer.Fprintf(c.Stderr, "%s: %s\n", c.Name, text)
	}
}

// edit runs the user's editor on a text and returns the changed text.
func (c *Command) edit(ctx context.Context, f *api.File) (text []byte, err error) {
	dir, err := os.MkdirTemp("", "execd-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:forbidigo // a new directory of this user, removed with the same rights
	path := filepath.Join(dir, filepath.Base(string(f.Name)))
	if err := os.WriteFile(path, f.Text, 0o600); err != nil {
		return nil, err
	}
	// EDITOR precedes VISUAL, because scripts set it (qconf(1)).
	editor := cmp.Or(os.Getenv("EDITOR"), os.Getenv("VISUAL"), "vi")
	// EDITOR may have options.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s: %w", editor, err)
	}
	return userfile.Read(path, textfile.MaxScript)
}

// sync waits for the end of a job (qsub(1), -sync y), and prints how its tasks ended. It ignores
// accounting records from before since: they belong to an earlier job with the same number.
//
// The exit status is that of the first task that exited with another status than 0. It is 1 if a
// signal or a failure has ended a task.
func (c *Command) sync(ctx context.Context, d *api.Client, a *api.CommandAnswer, since time.Time) (int, error) {
	job := a.Job
	done := c.watch(ctx, d, job)
	defer done()
	status, failed, told, ran := 0, false, map[uint32]bool{}, 0
	q, restarted := api.WaitRequest{Job: job, Boot: a.Boot}, false
	for {
		w, err := d.Wait(ctx, q)
		if unknown(err) { // the daemon was started after the job had left
			w, err, restarted = &api.WaitAnswer{Gone: true, Boot: q.Boot}, nil, true
		}
		if err == nil && w.Boot != q.Boot {
			restarted = restarted || q.Boot != ""
			q.After, q.Boot = 0, w.Boot
		}
		if err == nil && w.Gone && restarted {
			var ends []api.End
			ends, err = recordedEnds(ctx, d, job, since)
			w.Ends = append(w.Ends, ends...)
		}
		if err != nil {
			done()
			if ctx.Err() != nil {
				return c.shutDown(d, job)
			}
			return exitFailed, Explain(err)
		}
		q.After += len(w.Ends)
		if w.Gone {
			done()
		}
		slices.SortStableFunc(w.Ends, func(a, b api.End) int { return cmp.Compare(a.Task, b.Task) })
		for _, e := range w.Ends {
			if told[e.Task] {
				continue
			}
			told[e.Task] = true
			if e.Ran {
				ran++
			}
			to := c.Stdout
			switch {
			case e.ExitStatus != 0 || e.Signal != 0 || e.Failed != 0:
				to = c.Stderr // as in the original (tested)
			case a.Terse:
				to = io.Discard
			}
			printer.Fprintf(to, "%s", printer.Trusted(ended(job, e)))
			failed = failed || e.Signal != 0 || e.Failed != 0 && e.ExitStatus == 0
			status = cmp.Or(status, e.ExitStatus)
		}
		if w.Gone {
			if len(told) == 0 {
				printer.Fprintf(c.Stderr, "Unable to run job %d\nit was deleted before it ran\n", job)
				failed = true
			}
			c.tellUsage(ctx, d, job, ran)
			if failed {
				return exitFailed, nil
			}
			return status, nil
		}
	}
}

// ended returns the message of qsub -sync y about the end of a task.
func ended(job uint32, e api.End) string {
	label := fmt.Sprint(job)
	if e.Task > 0 {
		label = fmt.Sprintf("%d.%d", job, e.Task)
	}
	text := fmt.Sprintf("Job %s exited with exit code %d.", label, e.ExitStatus)
	if e.Signal != 0 {
		text = fmt.Sprintf("Job %s exited because of signal %s", label, unix.SignalName(syscall.Signal(e.Signal)))
	}
	if e.Reason != "" && !strings.HasPrefix(e.Reason, "died through signal ") { // the text names the signal already
		text += "\n" + printable.String(strings.TrimSuffix(e.Reason, "."))
	}
	return text + "\n"
}

// shutDown deletes the job that qsub waits for when a signal ends qsub. It prints what the
// original prints (tested), before the deletion, which can take long if the daemon is not running.
// A deletion that succeeds prints nothing.
func (c *Command) shutDown(d *api.Client, job uint32) (int, error) {
	printer.Fprintf(c.Stderr, "\nInterrupted!\nPlease wait while %s shuts down.\n", c.Name)
	a, err := remove(d, job)
	if err != nil {
		return exitFailed, Explain(err)
	}
	if a.Exit == exitGood {
		return exitFailed, nil
	}
	return exitFailed, show(c.Stderr, a.Stdout+a.Stderr)
}

// interrupted deletes the job of an interactive command that is interrupted, and prints what
// qdel prints.
func (c *Command) interrupted(d *api.Client, job uint32) (int, error) {
	a, err := remove(d, job)
	if err != nil {
		return exitFailed, Explain(err)
	}
	return exitFailed, show(c.Stderr, a.Stdout+a.Stderr)
}

// remove deletes a job as qdel does. It makes a context of its own, because that of the command is
// canceled already.
func remove(d *api.Client, job uint32) (*api.CommandAnswer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return d.Command(ctx, &api.CommandRequest{Key: rand.Text(), Name: "qdel", Args: api.Texts([]string{fmt.Sprint(job)}), Directory: "/"})
}
