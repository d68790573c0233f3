package serve

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

func TestStart(t *testing.T) {
	r := run(t, nil)
	c := r.client()
	for range 2 { // a repetition is the same job
		j, err := c.Start(t.Context(), aStart(7))
		want := api.Job{
			ID: api.ID{Job: 7}, Number: 2, Key: "7", State: api.Accepted, Owner: "alice", Name: "x", Queue: "all.q", Slots: 2,
			Received: began, Directory: "/var/spool/execd/jobs/7",
		}
		if diff := cmp.Diff(want, j); diff != "" || err != nil {
			t.Errorf("Start: %v\n%s", err, diff)
		}
	}
	s := r.agent.starts[0]
	if got := s.Request; got.Name != "x" || got.MailOptions == 0 || got.Args[0] != "arg" || string(got.Script) != aStart(7).Script {
		t.Errorf("the request is %+v", got)
	}
	if diff := cmp.Diff([]string{"HOME=/home/alice", "PATH=/bin"}, s.SubmitEnv); diff != "" {
		t.Error(diff)
	}
	s.Request, s.SubmitEnv = nil, nil
	want := agent.Start{
		ID: job.ID{Job: 7}, Owner: "alice", Submitted: began, SubmitDir: "/home/alice",
		Grants: []agent.Grant{{Queue: "all.q", Host: "n1", Slots: 2}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

// TestStartTransfersAllFields checks that every field of a start arrives, including bytes that are
// not UTF-8.
func TestStartTransfersAllFields(t *testing.T) {
	r := run(t, nil)
	q := api.Start{
		Job: 8, Task: 3, Key: "k", Owner: "bob", Group: "staff", Department: "d", Command: []string{"-N", "n", "-V", "-cwd", "-t", "1-5:2", "-pe", "smp", "2", "a\xff.sh", "b\xfe"},
		Script: "#!/bin/sh\n: \xfd\n", Environment: map[string]string{"A": "1", "B": "\xfc"}, Directory: "/d\xfb", Submitted: began,
		Restarted: 2, Grants: []api.Grant{{Queue: "a.q", Host: "n1", Slots: 1, Names: map[string][]string{"gpu": {"g0"}}}, {Queue: "b.q", Host: "n2", Slots: 1}},
		PE: "smp", Slave: true, Tickets: 1.5, Reservation: 4,
	}
	j, err := r.client(func(o *api.Options) { o.Epoch = 9 }).Start(t.Context(), q)
	if err != nil || j.Name != "n" {
		t.Fatalf("Start = %+v, %v", j, err)
	}
	s := r.agent.starts[0]
	if got := s.Request; got.WorkingDir != "/d\xfb" || got.Command != "a\xff.sh" || got.Args[0] != "b\xfe" || string(got.Script) != q.Script ||
		!slices.Contains(got.Env, submitVariable("B", "\xfc")) {
		t.Errorf("the request is %+v", got)
	}
	s.Request = nil
	want := agent.Start{
		ID: job.ID{Job: 8, Task: 3}, Key: "k", Epoch: 9, Owner: "bob", Group: "staff", Department: "d", Submitted: began,
		SubmitEnv: []string{"A=1", "B=\xfc"}, SubmitDir: "/d\xfb", Restarted: job.RestartedFromCkpt,
		Grants: []agent.Grant{{Queue: "a.q", Host: "n1", Slots: 1, Names: map[string][]string{"gpu": {"g0"}}}, {Queue: "b.q", Host: "n2", Slots: 1}},
		PE:     "smp", Slave: true, Tickets: 1.5, Reservation: 4,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestStartBatch(t *testing.T) {
	r := run(t, nil)
	c := r.client()
	var starts []api.Start
	for n := range 100 {
		starts = append(starts, aStart(n+1))
	}
	starts[3].Command = []string{"-l", "h_rt=soon", "-soft", "-N"}
	starts[4].Job = 1 // again
	for range 2 {
		results, err := c.StartBatch(t.Context(), starts)
		if err != nil || len(results) != len(starts) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for i, result := range results {
			switch {
			case i == 3:
				wantCode(t, "the fourth", result.Error, api.InvalidArgument, `job 4: command: command line: "-N": a value is missing`)
			case result.Error != nil || result.Job.Job != starts[i].Job:
				t.Errorf("result %d is %+v, %v", i, result.Job, result.Error)
			}
		}
	}
	if n := len(r.agent.jobs); n != 98 {
		t.Errorf("there are %d jobs, want 98", n)
	}
	if results, err := c.StartBatch(t.Context(), nil); len(results) != 0 || err != nil {
		t.Errorf("an empty batch: %v, %v", results, err)
	}
}

// TestStartBatchAtOnce checks that the starts of a batch begin in their order and do not wait for
// each other.
func TestStartBatchAtOnce(t *testing.T) {
	r := run(t, nil)
	r.agent.gate = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := r.client().StartBatch(t.Context(), []api.Start{aStart(1), aStart(2), aStart(3)})
		done <- err
	}()
	for range 3 {
		r.agent.gate <- struct{}{}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPanic checks that a panic in one start does not end the agent.
func TestPanic(t *testing.T) {
	var told string
	r := run(t, func(o *Options) { o.Notify = func(err error) { told += err.Error() } })
	s := aStart(1)
	s.Grants = nil // the fake looks at the first one
	results, err := r.client().StartBatch(t.Context(), []api.Start{s, aStart(2)})
	if err != nil || results[1].Job == nil {
		t.Fatal(results, err)
	}
	wantCode(t, "in a batch", results[0].Error, api.Internal, "internal error")
	_, err = r.client().Start(t.Context(), s)
	wantCode(t, "alone", err, api.Internal, "internal error")
	if !strings.Contains(told, "job 1: internal error: runtime error") || !strings.Contains(told, "Agent/Start: internal error: runtime error") {
		t.Errorf("told: %s", told)
	}
}

func TestMethods(t *testing.T) {
	ctx := context.Background()
	tests := map[string]struct {
		call func(c *api.Client) error
		want string
	}{
		"Admit":         {func(c *api.Client) error { return c.Admit(ctx, aStart(9)) }, "Admit 9"},
		"Signal":        {func(c *api.Client) error { return c.Signal(ctx, api.ID{Job: 7, Task: 2}, api.Suspend) }, "Signal 7.2 suspend"},
		"to a task":     {func(c *api.Client) error { return c.Signal(ctx, api.ID{Job: 7, PETask: "1.n1"}, api.Usr1) }, "Signal 7/1.n1 usr1"},
		"to all tasks":  {func(c *api.Client) error { return c.Signal(ctx, api.ID{Job: 7, Task: -1}, api.Terminate) }, "Signal 7.-1 terminate"},
		"SignalQueue":   {func(c *api.Client) error { return c.SignalQueue(ctx, "all.q", api.SuspendQueue) }, "SignalQueue all.q suspend_queue"},
		"SetTickets":    {func(c *api.Client) error { return c.SetTickets(ctx, []api.Tickets{{ID: api.ID{Job: 7}, Tickets: 2.5}}) }, "SetTickets [{7 2.5}]"},
		"no tickets":    {func(c *api.Client) error { return c.SetTickets(ctx, nil) }, "SetTickets []"},
		"FullReport":    {func(c *api.Client) error { return c.FullReport(ctx) }, "FullReport"},
		"Acknowledge":   {func(c *api.Client) error { return c.Acknowledge(ctx, 12) }, "Acknowledge 12"},
		"one job's end": {func(c *api.Client) error { return c.AcknowledgeJob(ctx, api.ID{Job: 7, Task: 1}, 12) }, "AcknowledgeJob 7.1 12"},
		"Drain":         {func(c *api.Client) error { return c.Drain(ctx, "a disk fails") }, "Drain a disk fails"},
		"Resume":        {func(c *api.Client) error { return c.ResumeHost(ctx) }, "Resume"},
		"Shutdown":      {func(c *api.Client) error { return c.Shutdown(ctx, false) }, "Shutdown false"},
		"with jobs":     {func(c *api.Client) error { return c.Shutdown(ctx, true) }, "Shutdown true"},
		"Configure":     {func(c *api.Client) error { _, err := c.Configure(ctx, nil); return err }, "Configure"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := run(t, nil)
			c := r.client()
			for range 2 { // each repetition calls the agent again
				if err := test.call(c); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff([]string{test.want}, r.agent.said()); diff != "" {
					t.Error(diff)
				}
			}
			if strings.HasPrefix(name, "FullReport") || strings.HasSuffix(name, "ickets") || strings.HasSuffix(test.want, "e") {
				return // these methods return no errors
			}
			for _, code := range []agent.Code{
				agent.InvalidArgument, agent.NotFound, agent.AlreadyExists, agent.PermissionDenied, agent.FailedPrecondition,
				agent.ResourceExhausted, agent.Unavailable, agent.Internal,
			} {
				r.agent.err = &agent.Error{Code: code, Err: errors.New("no room")}
				wantCode(t, string(code), test.call(c), code, "no room")
			}
			r.agent.err = errors.New("no code")
			wantCode(t, "an error without a code", test.call(c), api.Internal, "no code")
			r.agent.err = context.DeadlineExceeded
			wantCode(t, "too late", test.call(c), api.DeadlineExceeded, "")
		})
	}
}

func TestStartTask(t *testing.T) {
	r := run(t, nil)
	c := r.client()
	task := api.TaskStart{Job: 7, Key: "k", Owner: "alice", Command: []string{"/bin/x", "\xff"}, Environment: map[string]string{"A": "\xfe"}, Directory: "/\xfd"}
	_, err := c.StartTask(t.Context(), task)
	wantCode(t, "a task of a job that is not here", err, api.NotFound, "job 7")
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7}, Owner: "alice", State: agent.Running, Queue: "all.q"})
	for range 2 {
		j, err := c.StartTask(t.Context(), task)
		if want := (api.ID{Job: 7, PETask: "1.n1"}); err != nil || j.ID != want {
			t.Errorf("StartTask = %+v, %v", j, err)
		}
	}
	want := []agent.TaskStart{{Job: job.ID{Job: 7}, Key: "k", Owner: "alice", Command: []string{"/bin/x", "\xff"}, Env: []string{"A=\xfe"}, Dir: "/\xfd"}}
	if diff := cmp.Diff(want, r.agent.tasks); diff != "" {
		t.Error(diff)
	}
	task.Key = ""
	for n := range 2 { // without a key, each call starts another task
		if j, err := c.StartTask(t.Context(), task); err != nil || j.PETask != []string{"2.n1", "3.n1"}[n] {
			t.Errorf("without a key: %+v, %v", j, err)
		}
	}
}

// TestJobs checks that all fields of a job report arrive unchanged.
func TestJobs(t *testing.T) {
	r := run(t, nil)
	r.agent.put(agent.JobReport{
		ID: job.ID{Job: 7, Task: 2}, Key: "k", State: agent.Suspended, Slave: true, Owner: "alice", Name: "n", Queue: "q", PE: "smp", Slots: 3,
		SuspendedBy: []agent.Order{agent.Suspend, agent.SuspendQueue}, Submitted: began.Add(-1), QueuePriority: 3, Received: began, Started: began.Add(1), PID: 4,
		Usage: jobdir.Online{At: began, Wallclock: 1, CPU: 2, Mem: 3, IO: 4, IOWait: 5, Vmem: 6, MaxVmem: 7}, Nice: -5, Notes: []string{"a note"},
		Outcome: &job.Outcome{
			ID: job.ID{Job: 7, Task: 2}, Failed: job.FailedLimit, FailedText: "text", Class: job.ClassJob, Effect: job.ErrorState,
			Ran: true, ExitStatus: 137, Signal: 9, CoreDumped: true, Reason: "reason", Limit: &job.LimitExceeded{Name: "h_rt", Value: 1, Measured: 2},
			Start: began, End: began.Add(2),
			Usage: job.Usage{
				Wallclock: 1, UserTime: 2, SystemTime: 3, MaxRSS: 4, IxRSS: 5, IdRSS: 6, IsRSS: 7, MinorFaults: 8, MajorFaults: 9, Swaps: 10,
				BlocksIn: 11, BlocksOut: 12, MessagesSent: 13, MessagesRecvd: 14, Signals: 15, VoluntaryCS: 16, InvoluntaryCS: 17, CPU: 18,
				Mem: 19, IO: 20, IOWait: 21, MaxVmem: 22,
			},
		},
		Dir: "/dir",
	})
	want := api.Job{
		ID: api.ID{Job: 7, Task: 2}, Number: 2, Key: "k", State: api.Suspended, Slave: true, Owner: "alice", Name: "n", Queue: "q", PE: "smp", Slots: 3,
		SuspendedBy: []api.Order{api.Suspend, api.SuspendQueue}, Submitted: began.Add(-1), QueuePriority: 3, Received: began, Started: began.Add(1), PID: 4,
		Usage: &api.Online{At: began, Wallclock: 1, CPU: 2, Mem: 3, IO: 4, IOWait: 5, Vmem: 6, MaxVmem: 7}, Nice: -5, Notes: []string{"a note"},
		Outcome: &api.Outcome{
			Failed: 37, FailedText: "text", Class: job.ClassJob.String(), Effect: "error state",
			Ran: true, ExitStatus: 137, Signal: 9, CoreDumped: true, Reason: "reason", Limit: &api.LimitExceeded{Name: "h_rt", Value: 1, Measured: 2},
			Start: began, End: began.Add(2),
			Usage: api.Usage{
				Wallclock: 1, Utime: 2, Stime: 3, MaxRSS: 4, IxRSS: 5, IdRSS: 6, IsRSS: 7, Minflt: 8, Majflt: 9, Nswap: 10, Inblock: 11,
				Oublock: 12, Msgsnd: 13, Msgrcv: 14, Nsignals: 15, Nvcsw: 16, Nivcsw: 17, CPU: 18, Mem: 19, IO: 20, IOW: 21, MaxVmem: 22,
			},
		},
		Directory: "/dir",
	}
	c := r.client()
	j, err := c.Job(t.Context(), api.ID{Job: 7, Task: 2})
	if diff := cmp.Diff(want, j); diff != "" || err != nil {
		t.Error(err, diff)
	}
	list, err := c.Jobs(t.Context())
	if diff := cmp.Diff([]api.Job{want}, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = c.Job(t.Context(), api.ID{Job: 7})
	wantCode(t, "another job", err, api.NotFound, "job 7 is not")
}

// TestNames checks that the server accepts all orders, and that agent/api and agent have the
// constants of agent/protocol under the same names.
func TestNames(t *testing.T) {
	const shared = "../../protocol"
	var words []string
	for o := range orders {
		words = append(words, string(o))
	}
	slices.Sort(words)
	if got := slices.Sorted(maps.Values(constants(t, shared, "Order"))); !slices.Equal(got, words) {
		t.Errorf("the orders are %q, and the server accepts %q", got, words)
	}
	for dir, kinds := range map[string][]string{"..": {"Order", "Code", "State"}, "../..": {"Order", "State"}} {
		names := renamed(t, dir)
		for name, original := range names {
			if name != original {
				t.Errorf("%s calls %s of agent/protocol %s", dir, original, name)
			}
		}
		for _, kind := range kinds {
			for name := range constants(t, shared, kind) {
				if names[name] == "" && (dir != ".." || name != "Received") { // no message has a job in this state
					t.Errorf("%s does not have %s of agent/protocol", dir, name)
				}
			}
		}
	}
}

// renamed returns the constants of the package in a directory that stand for constants of
// agent/protocol, with their names there.
func renamed(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	inspect(t, dir, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Values) == 1 {
			if x, ok := s.Values[0].(*ast.SelectorExpr); ok && fmt.Sprint(x.X) == "protocol" {
				list[s.Names[0].Name] = x.Sel.Name
			}
		}
		return true
	})
	return list
}

// inspect walks through the files of the package of a directory.
func inspect(t *testing.T, dir string, see func(ast.Node) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, see)
	}
}

// constants returns the constants of a type in the package of a directory, by name.
func constants(t *testing.T, dir, kind string) map[string]string {
	t.Helper()
	list := map[string]string{}
	inspect(t, dir, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok || len(s.Values) != 1 {
			return true
		}
		if name, ok := s.Type.(*ast.Ident); ok && name.Name == kind {
			if text, ok := s.Values[0].(*ast.BasicLit); ok {
				value, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatalf("%s: %v", s.Names[0].Name, err)
				}
				list[s.Names[0].Name] = value
			}
		}
		return true
	})
	if len(list) == 0 {
		t.Fatalf("%s has no constants of type %s", dir, kind)
	}
	return list
}

// TestMethodsAreComplete checks that each method of the agent has one method of the interface and
// one of the client with the same name, and that there are no others.
func TestMethodsAreComplete(t *testing.T) {
	elsewhere := map[string]string{ // methods of agent.Commands that are no methods of the interface, and what represents them
		"SawEpoch": "EpochHeader", "InTurn": "SequenceHeader", "AcknowledgeJob": "Acknowledge",
	}
	besides := []string{"StartBatch", "Version"} // StartBatch calls Start; Version needs no agent
	want := map[string]bool{}
	for m := range reflect.TypeFor[agent.Commands]().Methods() {
		want[m.Name] = elsewhere[m.Name] == ""
	}
	for _, name := range besides {
		want[name] = true
	}
	client := reflect.TypeFor[*api.Client]()
	callers := map[string]string{"Resume": "ResumeHost"} // methods that have another name in the client
	for name, has := range want {
		if _, ok := table()[api.Method(name)]; ok != has {
			t.Errorf("the interface has %s: %v, expected %v", name, ok, has)
		}
		caller := name
		if other, ok := callers[name]; ok {
			caller = other
		}
		if _, ok := client.MethodByName(caller); has && !ok {
			t.Errorf("the client has no %s", caller)
		}
	}
	for name := range table() {
		if !want[string(name)] {
			t.Errorf("the interface has %s, and the agent has not", name)
		}
	}
	names := constants(t, "..", "Method")
	for name, text := range names {
		if name != "Method"+text || !want[text] {
			t.Errorf("agent/api has the method %s: %q", name, text)
		}
	}
	if len(names) != len(table()) {
		t.Errorf("agent/api has %d names of methods for %d", len(names), len(table()))
	}
}

func TestHealthAndVersion(t *testing.T) {
	r := run(t, nil)
	c := r.client(func(o *api.Options) { o.Epoch = 5 })
	if _, err := c.Start(t.Context(), aStart(7)); err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(t.Context(), "a reason"); err != nil {
		t.Fatal(err)
	}
	h, err := c.Health(t.Context())
	want := api.Health{
		Host: "n1", Version: "1.0", Started: began, Epoch: 5, Slots: 4, Used: 2, Jobs: map[string]int{"accepted": 1}, Draining: "a reason",
		Troubles: []string{}, Configuration: "1",
	}
	if diff := cmp.Diff(want, h); diff != "" || err != nil {
		t.Error(err, diff)
	}
	v, err := c.Version(t.Context())
	wantVersion := api.VersionAnswer{
		API: "execd.v1", Revision: 4, Version: "1.0",
		Methods: []api.Method{
			"Acknowledge", "Admit", "Attach", "Configure", "Drain", "FullReport", "Health", "Job", "Jobs", "Reports", "Resume", "SetTickets",
			"Shutdown", "Signal", "SignalQueue", "Start", "StartBatch", "StartTask", "Version",
		},
		Capabilities: []string{},
	}
	if diff := cmp.Diff(wantVersion, v); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestConfigureWithFiles(t *testing.T) {
	var got map[string]string
	var wrong error
	r := run(t, func(o *Options) {
		o.Install = func(_ context.Context, files map[string]string) error {
			got = files
			return wrong
		}
	})
	c := r.client()
	files := map[string]string{"queues/all.q": "qname all.q\n", "conf/global": ""}
	version, err := c.Configure(t.Context(), files)
	if diff := cmp.Diff(files, got); version != "1" || diff != "" || err != nil {
		t.Error(version, err, diff)
	}
	wrong = errors.New("queues/all.q:1: no")
	_, err = c.Configure(t.Context(), files)
	wantCode(t, "files with a mistake", err, api.InvalidArgument, "queues/all.q:1: no")
	wrong = &agent.Error{Code: agent.ResourceExhausted, Err: errors.New("no space")}
	_, err = c.Configure(t.Context(), files)
	wantCode(t, "a full disk", err, api.ResourceExhausted, "no space")
	got = nil
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "queues/../../x", "a//b", "queues/.hidden", ".git/x", "a\x00b", "a/"} {
		_, err := c.Configure(t.Context(), map[string]string{"queues/all.q": "", name: ""})
		wantCode(t, name, err, api.InvalidArgument, "expected a path")
	}
	if got != nil {
		t.Errorf("installed: %v", got)
	}
	if v, err := c.Version(t.Context()); err != nil || !slices.Contains(v.Capabilities, api.CanTakeFiles) {
		t.Error(v, err)
	}
	_, err = run(t, nil).client().Configure(t.Context(), files)
	wantCode(t, "an agent with files of its own", err, api.Unimplemented, "master")
}
