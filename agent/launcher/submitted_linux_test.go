package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// newStrictWorld returns a world whose launcher starts only what users have submitted. configure changes the launcher
// before it serves.
func newStrictWorld(t *testing.T, configure ...func(*Server)) (*world, *Server) {
	t.Helper()
	w, s := makeWorld(t)
	var err error
	if s.Rules.Submissions, err = OpenSubmissions(w.spool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Rules.Submissions.Close)
	s.Rules.Site = Site{
		Host: "host", Config: s.Config, Objects: Objects{Shells: []string{"/bin/sh"}, Commands: []string{"/site/prolog $job_id"}},
		BinaryPath: "/usr/sbin", Arch: job.Arch(runtime.GOARCH),
	}
	for _, f := range configure {
		f(s)
	}
	w.serve(s)
	return w, s
}

// order is a job as a user has typed it, and as an honest front makes it.
type order struct {
	plan   *launch.Plan
	claim  submission.Submission
	key    string
	script []byte
}

// order submits a job as a user, and returns the order to prepare it. The job's limit h_rt is 100
// s.
func (w *world) order(s *Server, key string, id job.ID, options ...string) *order {
	w.Helper()
	args := append([]string{"-N", "n", "-wd", "/", "-v", "A=1,B=\xff", "-l", "h_rt=100", "-o", "/dev/null"}, options...)
	r, err := submit.Parse(submit.Input{Args: append(args, "-b", "y", "true", "an argument"), Cwd: "/", Env: []string{"PATH=/bin"}})
	if err != nil {
		w.Fatal(err)
	}
	r.Binary, r.Command, r.Script = false, "true", []byte("true\n")
	origin := submit.Origin([]string{"HOME=/home", "PATH=/bin"})
	claim := submission.Of(r, "/", origin)
	if err := s.Rules.Submissions.Add(w.owner.UID, key, claim.Digest(key)); err != nil {
		w.Fatal(err)
	}
	o, err := launch.Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		w.Fatal(err)
	}
	o.Owner, o.Privileged, o.Queue.Tmpdir, o.Lookup = w.owner, true, w.tmp, userdb.System().User
	o.SubmitEnv, o.SubmitDir, o.BinaryPath, o.Arch = origin, "/", "/usr/sbin", s.Rules.Site.Arch
	p, err := o.Plan(id, jobdir.Area(w.spool.Path()), false)
	if err != nil {
		w.Fatal(err)
	}
	p.GroupIDs = nil
	if q := s.Rules.Site.queue(p.Description.Queue); q != nil {
		p.Description.Prolog, p.Description.Epilog, p.Description.StarterMethod = q.Prolog, q.Epilog, q.StarterMethod
	}
	return &order{plan: p, claim: *claim, key: key, script: r.Script}
}

// submitted returns the submission of an order as a front sends it.
func (w *world) submitted(o *order) *submitted {
	w.Helper()
	s, err := newSubmitted(o.key, &o.claim)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// prepare orders a job.
func (w *world) prepare(o *order) *Error {
	w.Helper()
	fd, err := memory("script", o.script)
	if err != nil {
		w.Fatal(err)
	}
	defer unix.Close(fd)
	return w.ask(kindPrepare, &prepareBody{Plan: o.plan, Script: true, Submitted: w.submitted(o)}, fd)
}

// TestForgedSubmissions checks that a captured front can start only jobs that their owners have submitted.
func TestForgedSubmissions(t *testing.T) {
	w, s := newStrictWorld(t)
	environment := func(d *job.Description, v string) {
		name, _, _ := strings.Cut(v, "=")
		for i, old := range d.Environment {
			if strings.HasPrefix(old, name+"=") {
				d.Environment[i] = v
				return
			}
		}
		d.Environment = append(d.Environment, v)
	}
	n := 0
	for name, c := range map[string]struct {
		forge func(o *order)
		want  string
	}{
		"another script":                      {func(o *order) { o.script = []byte("rm -rf ~\n") }, "is not the one"},
		"a script that the front says it is":  {func(o *order) { o.script, o.claim.Script = []byte("x\n"), submission.ScriptSum([]byte("x\n")) }, "something other than"},
		"a job that nobody has submitted":     {func(o *order) { o.key = "nosuchkey" }, "has not submitted"},
		"no key":                              {func(o *order) { o.key = "" }, "no submission"},
		"a key that leads up":                 {func(o *order) { o.key = "../65534.k" }, "no submission"},
		"a job of another user":               {func(o *order) { w.stranger(o) }, "has not submitted"},
		"another command":                     {func(o *order) { o.plan.Description.Command.Args = []string{"-c", "id"} }, "the command of job"},
		"another command in both places":      {func(o *order) { o.plan.Description.Command.Args, o.claim.Args = []string{"x"}, []submission.Text{"x"} }, "something other than"},
		"no shell":                            {func(o *order) { o.plan.Description.Command.NoShell = true }, "the command of job"},
		"another shell":                       {func(o *order) { o.plan.Description.Command.Shell = "/tmp/shell" }, "the shell"},
		"a shell of the user":                 {func(o *order) { o.plan.Description.Command.OwnShell = true }, "the command of job"},
		"raw_exec":                            {func(o *order) { o.plan.Description.Command.StartMode = job.RawExec }, "raw_exec"},
		"another working directory":           {func(o *order) { o.plan.Description.Cwd = "/tmp" }, "working directory"},
		"another output file":                 {func(o *order) { o.plan.Description.Streams[1].Path = "/home/user/.bashrc" }, "input and output"},
		"another input file":                  {func(o *order) { o.plan.Description.Streams[0].Path = "/home/user/.ssh/id_rsa" }, "input and output"},
		"another error file":                  {func(o *order) { o.plan.Description.Streams[2].Path = "/home/user/.ssh/authorized_keys" }, "input and output"},
		"a merged error":                      {func(o *order) { o.plan.Description.MergeError = true }, "merged error"},
		"a file to be staged":                 {func(o *order) { o.plan.Description.Streams[1].Staging.Enabled = true }, "input and output"},
		"a variable that is loaded":           {func(o *order) { environment(o.plan.Description, "LD_PRELOAD=/tmp/x.so") }, "LD_PRELOAD"},
		"a variable that the shell executes":  {func(o *order) { environment(o.plan.Description, "BASH_ENV=/tmp/x") }, "BASH_ENV"},
		"another PATH":                        {func(o *order) { environment(o.plan.Description, "PATH=/tmp/x") }, "/tmp/x"},
		"another HOME":                        {func(o *order) { environment(o.plan.Description, "HOME=/tmp/x") }, "/tmp/x"},
		"another value of a variable":         {func(o *order) { environment(o.plan.Description, "A=2") }, "A=2"},
		"a variable less":                     {func(o *order) { o.plan.Description.Environment = o.plan.Description.Environment[1:] }, "environment"},
		"another SGE_ROOT":                    {func(o *order) { environment(o.plan.Description, "SGE_ROOT=/tmp/x") }, "SGE_ROOT"},
		"another SGE_BINARY_PATH":             {func(o *order) { environment(o.plan.Description, "SGE_BINARY_PATH=/tmp/x") }, "SGE_BINARY_PATH"},
		"another directory of the submission": {func(o *order) { environment(o.plan.Description, "SGE_O_WORKDIR=/tmp/x") }, "SGE_O_WORKDIR"},
		"another name":                        {func(o *order) { o.plan.Description.Name = "m" }, "name"},
		"another account":                     {func(o *order) { o.plan.Description.Account = "m" }, "account"},
		"another host":                        {func(o *order) { o.plan.Description.Host = "other" }, "is not this host"},
		"a variable of a GPU":                 {func(o *order) { o.plan.UnfilteredEnv = []string{"LD_PRELOAD=/tmp/x.so"} }, "variables of GPUs"},
		"another host of a parallel job":      {func(o *order) { o.plan.Hosts[0].Host = "other" }, "is not this host"},
		"no host of a parallel job":           {func(o *order) { o.plan.Hosts = nil }, "no host"},
		"a prolog":                            {func(o *order) { o.plan.Description.Prolog = "/tmp/x" }, "prolog"},
		"a prolog with other arguments":       {func(o *order) { o.plan.Description.Prolog = "/site/prolog -c id" }, "prolog"},
		"an epilog":                           {func(o *order) { o.plan.Description.Epilog = "/tmp/x" }, "epilog"},
		"a starter_method":                    {func(o *order) { o.plan.Description.StarterMethod = "/tmp/x" }, "starter_method"},
		"a suspend_method":                    {func(o *order) { o.plan.Description.SuspendMethod = "/tmp/x" }, "suspend_method"},
		"a resume_method":                     {func(o *order) { o.plan.Description.ResumeMethod = "/tmp/x" }, "resume_method"},
		"a terminate_method":                  {func(o *order) { o.plan.Description.TerminateMethod = "/tmp/x" }, "terminate_method"},
		"a checkpointing command": {func(o *order) {
			w.says(o, "SGE_CKPT_ENV=c")
			o.plan.Description.Ckpt = &job.Checkpoint{Name: "c", Interface: "userdefined", Command: "/tmp/x"}
		}, "ckpt_command"},
		"a terminal of a batch job":     {func(o *order) { o.plan.Description.Terminal = &job.Terminal{Pipes: true} }, "only qrsh and qlogin"},
		"a terminal in both places":     {func(o *order) { o.plan.Description.Terminal, o.claim.Interactive = &job.Terminal{}, true }, "something other than"},
		"a higher limit":                {func(o *order) { o.plan.Description.Limits[job.RT].Hard = 1000 }, "h_rt"},
		"a task of a job without tasks": {func(o *order) { w.task(o, 3) }, "not an array job"},
		"start_proc_args":               {func(o *order) { w.parallel(o, func(p *job.ParallelEnvironment) { p.Start = "/tmp/x" }) }, "start_proc_args"},
		"output of start_proc_args":     {func(o *order) { w.parallel(o, func(p *job.ParallelEnvironment) { p.StdoutPath = "/tmp/x" }) }, "parallel environment"},
	} {
		n++
		o := w.order(s, fmt.Sprintf("key%d", n), job.ID{Job: 7})
		c.forge(o)
		w.refusedWith(name, w.prepare(o), c.want)
	}
	for _, private := range []func(*order){
		func(o *order) { o.plan.Description.PrivateTmp = false },
		func(o *order) { o.plan.Description.PrivateTmp, o.claim.PrivateTmp = false, false },
	} {
		n++
		o := w.order(s, fmt.Sprintf("key%d", n), job.ID{Job: 7}, "-l", "private_tmp")
		private(o)
		want := "lacks the private files"
		if !o.claim.PrivateTmp {
			want = "something other than"
		}
		w.refusedWith("no private files", w.prepare(o), want)
	}
	w.nothingIsHere()
}

// session submits an interactive job as a user, with a command or without one, and returns the
// order to prepare it.
func (w *world) session(s *Server, key string, id job.ID, command ...string) *order {
	w.Helper()
	r, err := submit.Parse(submit.Input{Args: append([]string{"-N", "n", "-wd", "/"}, command...), Cwd: "/", Command: submit.Qrsh})
	if err != nil {
		w.Fatal(err)
	}
	claim := submission.OfInteractive(r, "/", nil)
	if err := s.Rules.Submissions.Add(w.owner.UID, key, claim.Digest(key)); err != nil {
		w.Fatal(err)
	}
	r.Binary = true
	o, err := launch.Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		w.Fatal(err)
	}
	o.Owner, o.Privileged, o.Queue.Tmpdir, o.Lookup = w.owner, true, w.tmp, userdb.System().User
	o.SubmitDir, o.BinaryPath, o.Arch = "/", "/usr/sbin", s.Rules.Site.Arch
	o.Interactive = &launch.Interactive{Rows: 24, Cols: 80, Term: "xterm-256color", Login: r.Login}
	p, err := o.Plan(id, jobdir.Area(w.spool.Path()), false)
	if err != nil {
		w.Fatal(err)
	}
	p.GroupIDs = nil
	return &order{plan: p, claim: *claim, key: key}
}

// startSession orders a job without a script.
func (w *world) startSession(o *order) *Error {
	w.Helper()
	return w.ask(kindPrepare, &prepareBody{Plan: o.plan, Submitted: w.submitted(o)})
}

// TestForgedSessions checks that a captured front cannot turn an interactive job into a batch job, change its
// command or shell, or get a terminal that does not exist.
func TestForgedSessions(t *testing.T) {
	w, s := newStrictWorld(t)
	n := 0
	for name, c := range map[string]struct {
		forge func(o *order)
		want  string
	}{
		"a batch job":                {func(o *order) { o.plan.Description.Terminal = nil }, "only qrsh and qlogin"},
		"a batch job twice":          {func(o *order) { o.plan.Description.Terminal, o.claim.Interactive = nil, false }, "something other than"},
		"another command":            {func(o *order) { o.plan.Description.Command.Args = []string{"x"} }, "the command of job"},
		"another shell":              {func(o *order) { o.plan.Description.Command.Shell = "/bin/sh" }, "the command of job"},
		"a login shell or a command": {func(o *order) { o.plan.Description.Terminal.Login = !o.plan.Description.Terminal.Login }, "the terminal of job"},
		"a terminal without end":     {func(o *order) { o.plan.Description.Terminal.Rows = 1 << 20 }, "the terminal of job"},
		"output to a file":           {func(o *order) { o.plan.Description.Streams[1].Path = "/home/user/.bashrc" }, "input and output"},
		"a terminal type that is a path": {func(o *order) {
			for i, v := range o.plan.Description.Environment {
				if strings.HasPrefix(v, "TERM=") {
					o.plan.Description.Environment[i] = "TERM=../../tmp/x"
				}
			}
		}, "is not a terminal type"},
		"the way of the original": {func(o *order) { o.plan.Description.Interactive = &job.Interactive{} }, "a terminal of another kind"},
	} {
		for _, command := range [][]string{{"sleep", "1"}, nil} {
			n++
			o := w.session(s, fmt.Sprintf("key%d", n), job.ID{Job: 7}, command...)
			c.forge(o)
			w.refusedWith(name, w.startSession(o), c.want)
		}
	}
	w.nothingIsHere()
	id := job.ID{Job: 7}
	w.refusedWith("a terminal of no job", w.ask(kindTerminal, &ofJob{id}), "neither prepared nor opened")
	for i, command := range [][]string{{"sleep", "1"}, nil} {
		id := job.ID{Job: 7 + i}
		if err := w.startSession(w.session(s, fmt.Sprintf("good%d", i), id, command...)); err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		if err := w.ask(kindTerminal, &ofJob{id}); err == nil || err.Code != "no-terminal" {
			t.Errorf("the terminal of a job that was not started: %v", err)
		}
	}
	if err := w.prepare(w.order(s, "batch", job.ID{Job: 10})); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindTerminal, &ofJob{job.ID{Job: 10}}); err == nil || err.Code != "no-terminal" {
		t.Errorf("the terminal of a batch job: %v", err)
	}
}

// stranger makes a job one of another user, who has submitted nothing.
func (w *world) stranger(o *order) {
	for uid := uint32(1000); uid < 70000; uid++ {
		u, err := userdb.System().UserID(uid)
		if err == nil && uid != w.owner.UID && u.GID >= 1000 {
			o.plan.Description.Owner, o.plan.UID, o.plan.GID = u.Name, int(u.UID), int(u.GID)
			return
		}
	}
	o.key = "nosuchkey" // this host has no other user
}

// task makes a job a task of one.
func (w *world) task(o *order, number int) {
	d := o.plan.Description
	d.ID.Task = number
	d.Tmpdir = d.QueueTmpdir + "/" + jobdir.TmpdirName(d.ID, d.Queue)
}

// parallel makes a job a parallel one.
func (w *world) parallel(o *order, f func(*job.ParallelEnvironment)) {
	d := o.plan.Description
	hosts := jobdir.Area(w.spool.Path()).JobPath(d.ID) + "/" + jobdir.FilePEHosts
	d.PE = &job.ParallelEnvironment{Name: "p", Slots: 1, HostFile: hosts, StdoutPath: d.Streams[1].Path, StderrPath: d.Streams[2].Path}
	w.says(o, "PE=p", "PE_HOSTFILE="+hosts)
	f(d.PE)
}

// says puts variables into the environment of a job where package launch does.
func (w *world) says(o *order, variables ...string) {
	d := o.plan.Description
	for i, v := range d.Environment {
		if strings.HasPrefix(v, "SGE_TASK_STEPSIZE=") {
			d.Environment = slices.Insert(d.Environment, i+1, variables...)
			return
		}
	}
}

// TestSubmitted checks that a job starts with exactly the bytes that its user has submitted, and that its submission
// is good for one job.
func TestSubmitted(t *testing.T) {
	w, s := newStrictWorld(t, func(s *Server) {
		s.Rules.Site.Queues = []Queue{{Name: "all.q", Prolog: "/site/prolog $job_id"}}
	})
	o := w.order(s, "one", job.ID{Job: 7})
	o.plan.Description.AddGroupKill, o.plan.Description.SkipGroupLimit, o.plan.Processes = false, true, 0
	if err := w.prepare(o); err != nil {
		t.Fatal(err)
	}
	dir, err := w.spool.Open(job.ID{Job: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d, err := dir.Description()
	if err != nil || !strings.Contains(strings.Join(d.Environment, "\n")+"\n", "\nB=\xff\n") {
		t.Errorf("%q (%v)", d.Environment, err)
	}
	if err == nil && (!d.AddGroupKill || d.SkipGroupLimit) {
		t.Error("the front has chosen that the processes of the job are not marked")
	}
	if err == nil && d.UserProcesses != launch.MostProcesses(s.Config, 1) {
		t.Errorf("the job may have %d processes, expected %d", d.UserProcesses, launch.MostProcesses(s.Config, 1))
	}
	again := w.order(s, "one", job.ID{Job: 8})
	w.refusedWith("a second job", w.prepare(again), "belongs to another job")
	if err := w.ask(kindRemove, &removeBody{ID: job.ID{Job: 7}}); err != nil {
		t.Error(err)
	}
	if err := w.prepare(w.order(s, "one", job.ID{Job: 7})); err != nil { // it is run again
		t.Error(err)
	}
	for _, task := range []int{1, 3} {
		o := w.order(s, "array", job.ID{Job: 9, Task: task}, "-t", "1-3:2")
		if err := w.prepare(o); err != nil {
			t.Errorf("task %d: %v", task, err)
		}
	}
	w.refusedWith("a task between", w.prepare(w.order(s, "array", job.ID{Job: 9, Task: 2}, "-t", "1-3:2")), "no task 2")
}

// TestSubmissions checks that submissions stay until no job needs them, and that a key belongs to one user.
func TestSubmissions(t *testing.T) {
	testenv.Require(t, testenv.Root)
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	digest := (&submission.Submission{}).Digest("a")
	open := func() *Submissions {
		s, err := OpenSubmissions(spool)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for _, key := range []string{"a", "b"} {
		if err := errors.Join(s.Add(1000, key, digest), s.Bind(1000, key, 3)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open()
	defer s.Close()
	if s.count[1000] != 2 {
		t.Errorf("user 1000 has %d submissions, expected 2", s.count[1000])
	}
	other := (&submission.Submission{Name: "x"}).Digest("a")
	if err := s.Add(1000, "a", other); err == nil {
		t.Error("another submission has the key")
	}
	if err := s.Add(1000, "../a", digest); err == nil {
		t.Error("a key that leads up")
	}
	if err := s.Add(1000, "c", "/etc/passwd"); err == nil {
		t.Error("a digest that is none")
	}
	if _, err := s.Find(1001, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another user: %v", err)
	}
	if err := s.Bind(1000, "a", 4); !errors.Is(err, errBound) {
		t.Errorf("a second job: %v", err)
	}
	if err := s.Keep([]string{"b"}, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(1000, "a"); err != nil {
		t.Errorf("a new one: %v", err)
	}
	if err := s.Keep([]string{"b"}, time.Now().Add(2*forgettable)); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(1000, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that nobody needs: %v", err)
	}
	if got, err := s.Find(1000, "b"); err != nil || got != digest {
		t.Errorf("one that is needed: %q, %v", got, err)
	}
	if err := s.Bind(1000, "a", 5); err != nil { // of one that was removed meanwhile
		t.Error(err)
	}
	if err := s.Keep([]string{"b"}, time.Now()); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Join(spool.Path(), dirSubmissions))
	if err != nil || len(left) != 2 {
		t.Errorf("there is %v (%v)", left, err)
	}
	if s.count[1000] != 1 || s.all != 1 {
		t.Errorf("user 1000 has %d of %d submissions, expected 1 of 1", s.count[1000], s.all)
	}
	s.all = mostSubmissions
	if err := s.Add(1001, "a", digest); err == nil || !strings.Contains(err.Error(), "all users") {
		t.Errorf("one too many of all users: %v", err)
	}
}

// TestAmendedAndCopiedJobs checks that a changed job remains one job and that a copy is another
// one. A captured front can start neither if the owner has not submitted it.
func TestAmendedAndCopiedJobs(t *testing.T) {
	w, s := newStrictWorld(t)
	of := func(o *order) *claim.Source {
		return &claim.Source{UID: w.owner.UID, Key: o.key, Digest: o.claim.Digest(o.key)}
	}
	was := w.order(s, "was", job.ID{Job: 7})
	id := was.plan.Description.ID
	altered := was.claim
	altered.Name = "other"
	digest := altered.Digest("is")
	lie := was.claim
	lie.Args = []submission.Text{"-c", "id"}
	for name, c := range map[string]struct {
		uid    uint32
		key    string
		of     *claim.Source
		number int
		want   string
	}{
		"something that was not submitted": {w.owner.UID, "is", &claim.Source{UID: w.owner.UID, Key: "was", Digest: lie.Digest("was")}, 7, "describes the job differently"},
		"a key that there is not":          {w.owner.UID, "is", &claim.Source{UID: w.owner.UID, Key: "x", Digest: digest}, 7, "cannot find"},
		"a key that leads up":              {w.owner.UID, "is", &claim.Source{UID: w.owner.UID, Key: "../x", Digest: digest}, 7, "invalid claim"},
		"a new key that leads up":          {w.owner.UID, "../is", of(was), 7, "invalid claim"},
		"a job of another user":            {w.owner.UID - 1, "is", of(was), 7, "cannot change"},
		"a copy of another user's job":     {w.owner.UID - 1, "is", of(was), 0, "cannot change or copy"},
		"a number that there is not":       {w.owner.UID, "is", of(was), -1, "there is no job"},
	} {
		if err := s.Rules.Submissions.Amend(c.uid, c.key, digest, c.of, c.number); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
	waiting := of(was) // the launcher does not know its number yet
	waiting.Job = 9
	if err := s.Rules.Submissions.Amend(w.owner.UID, "copy", digest, waiting, 0); err != nil {
		t.Error(err)
	}
	if err := s.Rules.Submissions.Amend(w.owner.UID, "is", digest, of(was), 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Rules.Submissions.Amend(w.owner.UID, "again", digest, of(was), 8); err == nil {
		t.Error("the front has made two jobs of one")
	}
	is := w.order(s, "is0", job.ID{Job: 8}, "-N", "other")
	is.key = "is"
	w.refusedWith("the changed job under another number", w.prepare(is), "belongs to another job")
	w.refusedWith("the job as it was under another number", w.prepare(w.order(s, "was", job.ID{Job: 8})), "belongs to another job")
	is = w.order(s, "is1", id, "-N", "other")
	is.key = "is"
	if err := w.prepare(is); err != nil {
		t.Error(err)
	}
	for number, want := range map[int]string{-1: "there is no job", 7: "", 8: "belongs to another job"} { // a copy of a job that has started
		source := &claim.Source{UID: w.owner.UID, Key: "is", Digest: digest, Job: number}
		if err := s.Rules.Submissions.Amend(w.owner.UID, fmt.Sprint("copy", number+1), digest, source, 0); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a copy of job %d: %v, expected %q", number, err, want)
		}
	}
	for _, number := range []int{0, 7} { // before and after the start
		if err := s.Rules.Submissions.Amend(w.owner.UID, fmt.Sprint("next", number), digest, &claim.Source{UID: w.owner.UID, Key: "is", Digest: digest}, number); err != nil {
			t.Error(err)
		}
	}
}

// TestOldSubmissionsAreForgotten checks that the search for old submissions delays no user, and
// that a submission that is claimed again is not old.
func TestOldSubmissionsAreForgotten(t *testing.T) {
	testenv.Require(t, testenv.Root)
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	s, err := OpenSubmissions(spool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	digest := (&submission.Submission{}).Digest("a")
	long := time.Now().Add(-2 * forgettable)
	for _, key := range []string{"a", "b", "c"} {
		if err := s.Add(1000, key, digest); err != nil {
			t.Fatal(err)
		}
		at := []unix.Timespec{unix.NsecToTimespec(long.UnixNano()), unix.NsecToTimespec(long.UnixNano())}
		if err := unix.UtimesNanoAt(s.fd(), entryName(1000, key), at, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(1000, "a", digest); err != nil {
		t.Fatal(err)
	}
	func() {
		s.mu.Lock() // as a claim that lasts
		defer s.mu.Unlock()
		if err := s.Keep([]string{"b", "c"}, time.Now()); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Keep([]string{"b"}, time.Now()); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if _, err := s.Find(1000, key); (err == nil) != want {
			t.Errorf("submission %s: %v", key, err)
		}
	}
}

// TestSubmissionSocketTakesClaimsOfAnyUser checks that the launcher takes claims of any user, also over a
// socket with a long path, and nothing but claims.
func TestSubmissionSocketTakesClaimsOfAnyUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	spool, err := jobdir.OpenSpool(filepath.Join(t.TempDir(), strings.Repeat("a", 100)))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	s, err := OpenSubmissions(spool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	requests := filepath.Join(spool.Path(), "sge_request")
	testenv.WriteFile(t, requests, "-j y\n")
	passwd := filepath.Join(t.TempDir(), "passwd")
	testenv.WriteFile(t, passwd, "root:x:0:0::/:/bin/sh\n")
	users := userdb.Database{Passwd: passwd}
	d, err := OpenSubmissionSocket(spool, &Rules{Submissions: s, Users: users}, []string{"/nonexistent/sge_request", requests})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- d.Serve(context.Background()) }()
	defer func() {
		d.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	dial := func() *claim.Conn {
		c, err := claim.Dial(t.Context(), filepath.Join(spool.Path(), claim.SocketName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := dial()
	if string(c.Greeting.Requests) != "-j y\n" {
		t.Errorf("the default options are %q", c.Greeting.Requests)
	}
	digest := (&submission.Submission{}).Digest("a")
	if err := c.Claim(&claim.Claim{Key: "a", Digest: digest}); err != nil {
		t.Error(err)
	}
	if got, err := s.Find(0, "a"); err != nil || got != digest {
		t.Errorf("%q, %v", got, err)
	}
	if err := dial().Claim(&claim.Claim{Key: "a/b", Digest: digest}); err == nil || !strings.Contains(err.Error(), "invalid claim") {
		t.Errorf("a key that is none: %v", err)
	}
	alice, bob := uint32(1000), uint32(1001)
	of := &claim.Source{UID: alice, Key: "a", Digest: digest}
	if err := s.Add(alice, "a", digest); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		claim claim.Claim
		want  string
	}{
		"a change of root":                {claim.Claim{Key: "c", Digest: digest, Of: of, Job: 5, For: &alice}, ""},
		"a copy of root":                  {claim.Claim{Key: "d", Digest: digest, Of: of}, "cannot change or copy a job of user ID 1000"},
		"a new job for somebody":          {claim.Claim{Key: "e", Digest: digest, For: &alice}, "only root"},
		"a copy for somebody":             {claim.Claim{Key: "e", Digest: digest, Of: of, For: &alice}, "only root"},
		"a change of one for another one": {claim.Claim{Key: "e", Digest: digest, Of: of, Job: 5, For: &bob}, "only root"},
		"a change of another user":        {claim.Claim{Key: "e", Digest: digest, Of: of, Job: 5}, "cannot change or copy a job of user ID 1000"},
		"a new job with a number":         {claim.Claim{Key: "e", Digest: digest, Job: 5}, "has a job number"},
	} {
		if err := dial().Claim(&c.claim); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
	if err := dial().Claim(&claim.Claim{Key: "b", Digest: strings.Repeat("x", 2000)}); err == nil {
		t.Error("a claim that is too long was accepted")
	}
}

// TestSubmissionSocketRefusesUserIDsWithoutUser checks that the submission socket takes no claims of user IDs without a
// user, and keeps connections free for users. Each user may have thousands of such IDs
// (newuidmap(1)).
func TestSubmissionSocketRefusesUserIDsWithoutUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for _, c := range []struct {
		passwd string
		minUID int
		want   string
	}{
		{"alice:x:1000:1000::/:/bin/sh\n", 0, "no user of this host has user ID 0"},
		{"root:x:0:0::/:/bin/sh\n", 1, "below min_uid 1"},
	} {
		spool, err := jobdir.OpenSpool(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer spool.Close()
		passwd := filepath.Join(t.TempDir(), "passwd")
		testenv.WriteFile(t, passwd, c.passwd)
		d, err := OpenSubmissionSocket(spool, &Rules{Users: userdb.Database{Passwd: passwd}, MinUID: c.minUID}, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- d.Serve(context.Background()) }()
		conn, err := claim.Dial(t.Context(), filepath.Join(spool.Path(), claim.SocketName))
		if err == nil { // root may change jobs of others
			err = conn.Claim(&claim.Claim{Key: "a", Digest: (&submission.Submission{}).Digest("a")})
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
		d.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}

	d := &SubmissionSocket{each: map[uint32]int{}, known: map[uint32]bool{1000: true}}
	var entered int
	for uid := range uint32(mostClaims) {
		if _, ok := d.enter(100_000 + uid); ok {
			entered++
		}
	}
	if entered != mostStrangers {
		t.Errorf("%d strangers have places, expected %d", entered, mostStrangers)
	}
	if stranger, ok := d.enter(1000); !ok || stranger {
		t.Error("there is no room for a user")
	}
}
