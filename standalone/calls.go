package standalone

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/celldir"
	"github.com/execd-project/execd/submit"
)

// serveCommand carries out a command line.
func (m *Master) serveCommand(ctx context.Context, c *serve.Call) (any, *agentapi.Error) {
	q := &api.CommandRequest{}
	if err := decode(c.Body, q); err != nil {
		return nil, err
	}
	return m.commandOf(ctx, callerOf(c), q, c.After)
}

// commandOf carries out a command line of a user. It calls after with functions to be called once the
// answer was sent.
func (m *Master) commandOf(ctx context.Context, c *caller, q *api.CommandRequest, after func(func())) (any, *agentapi.Error) {
	if q.Name == "" || !validKey(q.Key) {
		return nil, refuse(agentapi.InvalidArgument, "the message needs the name of a command and a key of 1 to 64 letters and digits")
	}
	confirmations, failed := amended(q.Amended)
	if failed != nil {
		return nil, failed
	}
	in := m.input(c.user, q)
	in.Amended = confirmations
	key := strconv.FormatUint(uint64(c.user.UID), 10) + " " + q.Key
	turns := m.changing
	if onlyShows(q) {
		turns = m.showing
	}
	if turns.take(ctx, c.user.UID) != nil {
		return nil, ending()
	}
	after(func() { turns.give(c.user.UID) })
	found := make(chan *answer, 1)
	err := m.do(ctx, func() {
		x, first := newAnswer(key, m.clock.Now()), true
		if !onlyShows(q) {
			x, first = m.seen.enter(x)
		}
		if first {
			m.command(q, in, x, c.from)
		}
		found <- x
	})
	if err != nil {
		return nil, ending()
	}
	select {
	case x := <-found:
		select {
		case <-x.ready:
			return x.given()
		case <-m.stopped:
			select { // an answer takes precedence
			case <-x.ready:
				return x.given()
			default:
			}
		case <-ctx.Done():
		}
	case <-m.stopped:
	}
	return nil, ending()
}

// mostWords is the maximum number of words and files in a message. It is lower than Linux's limit
// for command lines, and bounds the memory for a message.
const mostWords = 1 << 20

// decode reads a message. It counts its values by their commas.
func decode(body []byte, q any) *agentapi.Error {
	if bytes.Count(body, []byte(",")) > mostWords {
		return refuse(agentapi.InvalidArgument, fmt.Sprintf("the message has more than %d words", mostWords))
	}
	if err := json.Unmarshal(body, q); err != nil {
		return refuse(agentapi.InvalidArgument, "cannot read the message: "+err.Error())
	}
	return nil
}

// ending returns the answer to calls while the daemon is stopping.
func ending() *agentapi.Error { return refuse(agentapi.Unavailable, api.Ending) }

// input converts a request of a user into the input of package command. It trusts only fields whose values
// affect the user alone.
func (m *Master) input(u *userdb.User, q *api.CommandRequest) *command.Input {
	environment := api.Strings(q.Environment)
	in := &command.Input{
		Name: q.Name, Args: api.Strings(q.Args), Dir: string(q.Directory), Home: string(q.Home), Environment: environment,
		Restricted: m.host.Users && u.UID != 0,
		Host:       m.host.Name, Stdin: q.Stdin, Files: map[string][]byte{}, Unreadable: map[string]string{}, Zone: zone(q.Zone), Judging: true, Terminal: q.Terminal, TerminalOut: q.TerminalOut,
		By: cell.Caller{
			User: u.Name, Group: userdb.System().GroupName(u.GID), Host: m.host.Name,
			Origin: &cell.Origin{
				UID: int(u.UID), GID: int(u.GID), Directory: string(q.Directory), Environment: submit.Origin(environment),
			},
		},
	}
	for _, f := range q.Files {
		if f.Error != "" {
			in.Unreadable[string(f.Name)] = f.Error
		} else {
			in.Files[string(f.Name)] = f.Text
		}
	}
	if in.Confirming = m.host.Submissions != ""; in.Confirming && q.Confirmed != "" && q.Name != "qconf" {
		in.Confirmation = &command.Confirmation{Key: q.Confirmed, Digest: q.Digest}
	}
	in.IsSession = func(job uint32) bool { return m.terminals[job] != nil }
	in.Edited, in.Defaults = q.Edited, m.defaults(q.Name)
	if q.Verified {
		in.Corrections = []submit.Correction{}
		for _, c := range q.Corrections {
			in.Corrections = append(in.Corrections, submit.Correction{
				Parameter: submit.Parameter{Name: string(c.Name), Value: string(c.Value)}, Variable: c.Variable, Remove: c.Remove,
			})
		}
	}
	return in
}

// defaultFiles are the files of options of all users, in the directory of the configuration
// (sge_request(5), sge_qstat(5), qrstat(1)).
var defaultFiles = map[string]string{
	"qsub": "sge_request", "qrsh": "sge_request", "qlogin": "sge_request", "qrsub": "sge_ar_request",
	"qstat": "sge_qstat", "qhost": "sge_qhost", "qselect": "sge_qselect", "qquota": "sge_qquota",
	"qrstat": "sge_qrstat",
}

func (m *Master) defaults(name string) map[string][]byte {
	file, ok := defaultFiles[name]
	if !ok {
		return nil
	}
	text, err := m.host.File(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = celldir.ReadRequest(m.cellDir(), file)
	}
	switch {
	case err == nil:
		return map[string][]byte{file: text}
	case !errors.Is(err, fs.ErrNotExist):
		m.log.Warn("default options cannot be read", "file", file, "error", err)
	}
	return nil
}

// verification returns a verification in the form of the API.
func verification(v *command.Verify) *api.Verify {
	if v == nil {
		return nil
	}
	a := &api.Verify{Programs: api.Texts(v.Programs)}
	for _, p := range v.Parameters {
		a.Parameters = append(a.Parameters, api.Correction{Name: api.Text(p.Name), Value: api.Text(p.Value)})
	}
	for _, x := range v.Environment {
		a.Environment = append(a.Environment, api.Correction{Name: api.Text(x.Name), Value: api.Text(x.Value), Variable: true})
	}
	return a
}

// command carries out a command line. The answer is sent after the next commit.
func (m *Master) command(q *api.CommandRequest, in *command.Input, x *answer, caller audit.Caller) {
	if !onlyShows(q) {
		err := m.writable()
		if err == nil {
			err = m.host.Audit.Check()
		}
		if err != nil {
			m.seen.forget(x)
			x.finish(err)
			return
		}
	}
	m.cell.SetRoom(m.room())
	if text := m.noRoom(in); text != "" {
		m.seen.forget(x)
		x.result = &api.CommandAnswer{Stderr: api.Text(text), Exit: 1, Command: q.Name}
		x.finish(nil)
		return
	}
	a := m.audit(caller, q, in)
	m.collect()
	before := len(m.batch.changes)
	r, err := m.carryOut(in)
	if err != nil {
		a.failed(err)
		m.seen.forget(x)
		m.spoiled = err
		x.finish(err)
		return
	}
	if len(r.Judge) > 0 {
		m.follow(r.Actions)
		m.verify(r.Judge, in, func() { m.command(q, in, x, caller) })
		return
	}
	if m.byRoot(q, in, r) {
		r = &command.Result{Confirm: true, Actions: r.Actions}
	}
	x.result = commandAnswer(q.Name, r)
	if r.Sync {
		x.result.Boot = m.boot
	}
	changed := len(r.Writes) > 0 && m.change(r, x, a, q.Confirmed)
	if r.Verify != nil { // the command asks the launcher for the default options of all users
		x.result.Confirm = api.Text(m.host.Submissions)
	}
	if r.Confirm {
		x.result.Confirm = api.Text(m.host.Submissions)
		x.result.Amend = amendments(r.Amend)
	}
	if r.Edit == nil && r.Verify == nil && !r.Confirm {
		a.done(x.result, len(r.Writes) > 0, changed)
	}
	m.collect()
	idle := len(r.Writes) == 0 && len(r.Actions) == 0 && r.Job == 0 && !concern(m.batch.changes[before:])
	switch {
	case onlyShows(q):
	case r.Edit != nil || r.Verify != nil || r.Confirm || idle: // nothing has been done that must not be done twice
		m.seen.forget(x)
	default:
		m.batch.answered = append(m.batch.answered, x)
		m.pace.demand()
	}
	if r.Interactive {
		t := cmp.Or(q.Interactive, &api.Interactive{})
		request := m.cell.Job(r.Job).Request()
		m.keepTerminal(r.Job, &launch.Interactive{
			Rows: t.Rows, Cols: t.Cols, Term: t.Term, Login: request.Login,
			// qrsh(1), -pty: only a session without a command has a pseudo terminal by itself.
			Pipes:   request.PTY == job.No || request.PTY == job.Default && !request.Login,
			Awaited: true,
		})
	}
	if r.Sync || r.Immediate || r.Interactive {
		m.ends.watch(r.Job, in.By.User)
	}
	m.eventsOf(q.Name, r)
	m.follow(r.Actions)
	if r.Immediate {
		x.immediate = r.Job
		m.batch.await(x)
		return
	}
	m.batch.answers = append(m.batch.answers, func(err error) {
		if changed {
			err = nil // the configuration has changed, even if the commit failed
		}
		x.finish(err)
	})
}

// commandAnswer returns the result of a command in the form of the API.
func commandAnswer(name string, r *command.Result) *api.CommandAnswer {
	a := &api.CommandAnswer{
		Stdout: api.Text(r.Stdout), Stderr: api.Text(r.Stderr + r.Hint), Exit: r.Exit, Job: r.Job, Sync: r.Sync, Terse: r.Terse,
		Interactive: r.Interactive, Verbose: r.Verbose, NoStdin: r.NoStdin, Command: name, Verify: verification(r.Verify),
	}
	if r.Edit != nil {
		a.Edit = &api.File{Name: api.Text(r.Edit.Name), Text: r.Edit.Text}
	}
	return a
}

// carryOut calls command.Run. A panic in it does not end the daemon: the cell is then loaded from
// the store again.
func (m *Master) carryOut(in *command.Input) (r *command.Result, err error) {
	defer func() {
		if what := recover(); what != nil {
			m.log.Error("internal error", "command", in.Name, "user", in.By.User, "what", what, "stack", string(debug.Stack()))
			err = errors.New("internal error of the daemon: see its log")
		}
	}()
	return command.Run(m.cell, m.now(), in), nil
}

// validKey bounds the keys that users give their commands: they become keys of records.
func validKey(key string) bool {
	const most = 64
	return key != "" && len(key) <= most && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// onlyShows reports whether a command line changes nothing. Its answer is not stored, and it works
// even if the store cannot be written.
func onlyShows(q *api.CommandRequest) bool {
	if q.Name != "qconf" {
		return harmless[q.Name]
	}
	// Options that show something begin with s. A command line may have several options.
	return !slices.ContainsFunc(q.Args, func(a api.Text) bool {
		return strings.HasPrefix(string(a), "-") && !strings.HasPrefix(string(a), "-s")
	})
}

// harmless are commands that only show.
var harmless = map[string]bool{
	"qstat": true, "qhost": true, "qquota": true, "qselect": true, "qrstat": true, "sge_share_mon": true,
}

// change makes changes of the configuration durable and applies them. If that fails, the answer
// contains the reason.
func (m *Master) change(r *command.Result, x *answer, a *audited, key string) (done bool) {
	files := map[string][]byte{}
	list, change := r.Writes, m.host.Change
	if m.host.Configure != nil {
		list = r.Changed() // qconf of root finds the same changes by itself
		change = func(files map[string][]byte) error { return m.host.Configure(key, files) }
	}
	for _, w := range list {
		if files[w.Path] = w.Text; w.Remove {
			files[w.Path] = nil
		}
	}
	err := a.writes(r.Writes)
	if err == nil {
		err = change(files)
	}
	if err != nil {
		x.result = &api.CommandAnswer{Stderr: api.Text(err.Error() + "\n"), Exit: 1}
		return false
	}
	m.version = m.commands.Health().Configuration
	m.reconfigure()
	return true
}

// byRoot reports whether a command of root would change root's configuration, so that root has to confirm the change to the
// launcher first. Its client then edits texts by itself.
func (m *Master) byRoot(q *api.CommandRequest, in *command.Input, r *command.Result) bool {
	return m.host.Configure != nil && q.Name == "qconf" && in.By.Origin.UID == 0 && q.Confirmed == "" && (r.Edit != nil || len(r.Writes) > 0)
}

// serveWait returns how tasks of a job have ended: see api.WaitRequest.
func (m *Master) serveWait(ctx context.Context, c *serve.Call) (any, *agentapi.Error) {
	q := &api.WaitRequest{}
	if err := decode(c.Body, q); err != nil {
		return nil, err
	}
	var a *api.WaitAnswer
	later, err := m.awaitNews(ctx, c.User.UID, func(ctx context.Context) (<-chan struct{}, *agentapi.Error) {
		var changed chan struct{}
		var err *agentapi.Error
		a, changed, err = m.waited(ctx, c, q)
		if err != nil || len(a.Ends) > 0 || a.Gone || q.Start && a.Running {
			return nil, err
		}
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	a.Later = later
	return a, nil
}

// pollPause is the number of seconds after which a client asks again if the daemon does not hold
// its connection.
const pollPause = 3

// awaitNews calls look, and again whenever the channel that look has returned is closed, until look returns
// no channel or an error, or for api.Patience. If too many calls of the user wait already, it calls look
// only once, and returns the number of seconds after which the client is to ask again; otherwise later is 0.
func (m *Master) awaitNews(ctx context.Context, user uint32, look func(context.Context) (<-chan struct{}, *agentapi.Error)) (later int, err *agentapi.Error) {
	stays := m.waiting.try(user)
	if stays {
		defer m.waiting.give(user)
	}
	ctx, cancel := context.WithTimeout(ctx, api.Patience)
	defer cancel()
	for {
		changed, err := look(ctx)
		switch {
		case err != nil || changed == nil:
			return 0, err
		case !stays:
			return pollPause, nil
		}
		select {
		case <-changed:
		case <-m.stopped:
			return 0, ending()
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// waited returns the current answer, and a channel that is closed when there is news.
func (m *Master) waited(ctx context.Context, c *serve.Call, q *api.WaitRequest) (*api.WaitAnswer, chan struct{}, *agentapi.Error) {
	type told struct {
		answer  *api.WaitAnswer
		changed chan struct{}
		err     *agentapi.Error
	}
	result := make(chan told, 1)
	err := m.do(ctx, func() {
		j := m.cell.Job(q.Job)
		switch {
		case j != nil && j.Owner() != c.User.Name && !c.Manager:
			result <- told{err: refuse(agentapi.PermissionDenied, "the job belongs to another user")}
			return
		case j == nil && m.ends.jobs[q.Job] == nil:
			result <- told{err: refuse(agentapi.NotFound, errUnknownJob.Error())}
			return
		case j == nil && m.ends.jobs[q.Job].owner != c.User.Name && !c.Manager:
			result <- told{err: refuse(agentapi.PermissionDenied, "the job belonged to another user")}
			return
		}
		owner := c.User.Name
		if j != nil {
			owner = j.Owner()
		}
		e := m.ends.watch(q.Job, owner)
		a := &api.WaitAnswer{Gone: e.gone, Boot: m.boot}
		after := q.After
		if q.Boot != m.boot {
			after = 0 // it counts the ends that another daemon has reported
		}
		a.Ends = slices.Clone(e.list[min(max(after, 0), len(e.list)):])
		if j != nil {
			a.Running = slices.ContainsFunc(j.Tasks(), func(t *cell.Task) bool { return t.Phase == cell.Running })
		}
		result <- told{answer: a, changed: e.changed}
	})
	if err != nil {
		return nil, nil, ending()
	}
	select {
	case r := <-result:
		return r.answer, r.changed, r.err
	case <-m.stopped:
		return nil, nil, ending()
	}
}

func refuse(code agentapi.Code, text string) *agentapi.Error {
	return &agentapi.Error{Code: code, Message: text}
}

// servePlaces returns the paths of the daemon's files that users read themselves.
func (m *Master) servePlaces(context.Context, *serve.Call) (any, *agentapi.Error) {
	return &api.PlacesAnswer{Accounting: api.Text(m.host.Accounting)}, nil
}
