package agentclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/attach"
	"github.com/execd-project/execd/internal/options"
)

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// answers maps methods to the answers of an agent; an *api.Error is a refusal.
type answers map[api.Method]any

// listen starts an agent with these answers, and returns its socket and the calls that it gets.
func listen(t *testing.T, answers answers) (socket string, asked map[api.Method]string) {
	t.Helper()
	t.Setenv("TZ", "UTC")
	socket, asked = filepath.Join(t.TempDir(), "s"), map[api.Method]string{}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := api.Method(strings.TrimPrefix(r.URL.Path, api.Path))
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked[method] = string(body)
		answer := answers[method]
		if answer == nil {
			answer = api.Empty{}
		}
		if e, ok := answer.(*api.Error); ok {
			w.WriteHeader(e.Code.Status())
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return socket, asked
}

// run runs a command, and returns its exit status, its output and its error.
func run(t *testing.T, name string, args ...string) (status int, stdout string, err error) {
	t.Helper()
	var out, errs strings.Builder
	c := Command{Name: name, Args: args, Stdout: &out, Stderr: &errs}
	status, err = c.Run()
	return status, out.String() + errs.String(), err
}

func TestStatus(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // times are shown where the reader is
	t.Cleanup(func() { time.Local = local })
	h := api.Health{
		Host: "n1", Version: "1.0", Started: began, Epoch: 3, Slots: 8, Used: 5,
		Jobs:          map[string]int{"running": 4, "ended": 1, "acknowledged": 2},
		Draining:      "administrator: a disk\x1b[1m fails",
		Troubles:      []string{"accounting: no space left on device"},
		Configuration: "1b2c", ConfigurationError: "queues/a.q:2: slots",
		Sensors: []api.Sensor{
			{Path: "/opt/lic", State: "running", Since: began, Starts: 1, Reports: 9, LastReport: began.Add(time.Hour - 7*time.Second), Values: 3},
			{
				Path: "/opt/gone", State: "waiting", Since: began, Starts: 4, Fault: "it has ended with exit status 3", NextStart: began.Add(time.Hour + 20*time.Second),
				Violations: 2, LastViolation: &api.Violation{Line: 17, Text: "n1:x\t", Problem: "it has 2 parts", Expected: "host:name:value"},
			},
			{Path: "/opt/new", State: "asked", Since: began.Add(time.Hour - 2*time.Second), Starts: 1},
		},
	}
	want := `host           n1
state          takes no jobs: administrator: a disk\x1b[1m fails
slots          5 of 8 in use
jobs           4 running, 1 ended, 2 acknowledged
configuration  1b2c
agent          version 1.0, since 2026-03-04 05:06:07 (1h0m0s)
master         epoch 3
sensor         /opt/lic: running, 3 values 7s ago
sensor         /opt/gone: restarting in 20s, no report yet, started 4 times
                 fault: it has ended with exit status 3
                 2 violations, the last: line 17: "n1:x\t": it has 2 parts; expected host:name:value
sensor         /opt/new: running, asked for 2s, no report yet
trouble        accounting: no space left on device
trouble        a newer configuration is not used: queues/a.q:2: slots
`
	if diff := cmp.Diff(want, statusText(&h, began.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	h.Troubles[0] = "the previous configuration stays in use: queues/a.q:2: slots"
	if got := statusText(&h, began.Add(time.Hour)); strings.Count(got, "queues/a.q:2: slots") != 1 {
		t.Errorf("what is wrong with the configuration is not said once:\n%s", got)
	}
	for name, c := range map[string]struct {
		change func(*api.Health)
		status int
	}{
		"troubles":                              {func(h *api.Health) { h.ConfigurationError = "" }, ExitTrouble},
		"a configuration that cannot be used":   {func(h *api.Health) { h.Troubles, h.Sensors = nil, nil }, ExitTrouble},
		"a load sensor with a fault":            {func(h *api.Health) { h.Troubles, h.ConfigurationError = nil, "" }, ExitTrouble},
		"no jobs by order are no trouble":       {func(h *api.Health) { h.Troubles, h.ConfigurationError, h.Sensors = nil, "", h.Sensors[:1] }, ExitGood},
		"a host that takes jobs and is healthy": {func(h *api.Health) { *h = api.Health{Host: "n1"} }, ExitGood},
	} {
		t.Run(name, func(t *testing.T) {
			there := h
			c.change(&there)
			socket, _ := listen(t, answers{api.MethodHealth: there})
			status, out, err := run(t, "status", "--socket", socket, "--json")
			var got api.Health
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if err != nil || status != c.status || !cmp.Equal(got, there) {
				t.Errorf("exit status %d, %v, %s", status, err, cmp.Diff(there, got))
			}
		})
	}
}

func TestJobs(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // times are shown where the reader is
	t.Cleanup(func() { time.Local = local })
	socket, _ := listen(t, answers{api.MethodJobs: api.JobsAnswer{Jobs: []api.Job{
		{ID: api.ID{Job: 7}, State: api.Running, Owner: "alice", Name: "x\ty", Queue: "all.q", Slots: 2, Started: began, Usage: &api.Online{CPU: 3725.9, MaxVmem: 1536 << 20}},
		{ID: api.ID{Job: 7, PETask: "1.n1"}, State: api.Starting, Owner: "alice", Name: "petask", Queue: "all.q", Slots: 1},
		{ID: api.ID{Job: 9, Task: 3}, State: api.Suspended, Owner: "bob", Name: "array", Queue: "b.q", Slots: 1, Started: began, SuspendedBy: []api.Order{api.Suspend, api.SuspendQueue}},
		{ID: api.ID{Job: 10}, State: api.Reported, Owner: "bob", Name: "z", Queue: "b.q", Slots: 1, Started: began, Outcome: &api.Outcome{Ran: true, ExitStatus: 7, Usage: api.Usage{CPU: 90061, MaxVmem: 512}}},
		{ID: api.ID{Job: 11}, State: api.Ended, Owner: "bob", Name: "z", Queue: "b.q", Slots: 1, Outcome: &api.Outcome{Failed: 8, FailedText: "in prolog"}},
	}}})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all": {nil, `JOB  TASK  NAME    OWNER  STATE      QUEUE  SLOTS  STARTED              CPU         MAXVMEM  NOTE
7    -     x\x09y  alice  running    all.q  2      2026-03-04 05:06:07  01:02:05    1.5G
7    1.n1  petask  alice  starting   all.q  1      -                    -           -
9    3     array   bob    suspended  b.q    1      2026-03-04 05:06:07  -           -        suspended by user, queue
10   -     z       bob    reported   b.q    1      2026-03-04 05:06:07  1:01:01:01  512      exit status 7
11   -     z       bob    ended      b.q    1      -                    -           -        failed 8 in prolog
`},
		"of a user in a state": {[]string{"--user", "bob", "--state", "suspended", "--state", "running"}, `JOB  TASK  NAME   OWNER  STATE      QUEUE  SLOTS  STARTED              CPU  MAXVMEM  NOTE
9    3     array  bob    suspended  b.q    1      2026-03-04 05:06:07  -    -        suspended by user, queue
`},
		"none is nothing": {[]string{"--user", "carol"}, ""},
		"none as JSON":    {[]string{"--user", "carol", "--json"}, "{\n  \"jobs\": []\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, err := run(t, "jobs", append([]string{"--socket", socket}, c.args...)...)
			if diff := cmp.Diff(c.want, out); diff != "" || status != ExitGood || err != nil {
				t.Errorf("exit status %d, %v, %s", status, err, diff)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	socket, asked := listen(t, answers{api.MethodHealth: api.Health{Draining: "health check: /home is away"}})
	if status, out, err := run(t, "drain", "--socket", socket, "--reason", "a disk fails"); status != ExitGood || out != "" || err != nil {
		t.Errorf("exit status %d, %q, %v", status, out, err)
	}
	if got, want := asked[api.MethodDrain], `{"reason":"a disk fails"}`; got != want {
		t.Errorf("asked for %s, expected %s", got, want)
	}
	status, out, err := run(t, "resume", "--socket", socket)
	if want := "execd resume: the host still takes no jobs: health check: /home is away\n"; status != ExitGood || out != want || err != nil {
		t.Errorf("exit status %d, %q, %v", status, out, err)
	}
}

// TestErrors compares the messages of failing commands.
func TestErrors(t *testing.T) {
	refusing, _ := listen(t, answers{
		api.MethodDrain: &api.Error{Code: api.PermissionDenied, Message: "Drain is for managers"},
		api.MethodJobs:  &api.Error{Code: api.Unavailable, Message: "it ends"},
	})
	dead := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for name, c := range map[string]struct {
		words  string
		status int
		want   string
	}{
		"no socket":           {"status --socket " + nowhere, ExitRefused, "^no agent is running here: .*nowhere\"\nstart it with: execd standalone, or execd agent; "},
		"a socket of old":     {"jobs --socket " + dead, ExitRefused, "^no agent answers at .*\nstart it with: execd standalone, or execd agent$"},
		"not for this caller": {"drain --socket " + refusing, ExitRefused, "^the agent refuses: Drain is for managers$"},
		"another refusal":     {"jobs --socket " + refusing, ExitRefused, "^it ends$"},
		"a mistyped option":   {"jobs --sokcet x", options.ExitUsage, `^unknown option --sokcet \(did you mean --socket\?\)$`},
		"an unknown option":   {"status --frobnicate", options.ExitUsage, `^unknown option --frobnicate$`},
		"no option of it":     {"status --reason x", options.ExitUsage, `^unknown option --reason$`},
		"a mistyped state":    {"jobs --state runnig", options.ExitUsage, `^--state "runnig" is not a state of a job \(did you mean running\?\), expected one of accepted, .*reported$`},
		"a word too many":     {"resume now", options.ExitUsage, `^unexpected argument "now"$`},
		"no job":              {"attach", ExitNoStatus, `^expected the number of one job, and there are 0 arguments$`},
		"two jobs":            {"attach 7 8", ExitNoStatus, `^expected the number of one job, and there are 2 arguments$`},
		"no number":           {"attach seven", ExitNoStatus, `^"seven" is not a number of a job$`},
		"no escape":           {"attach --escape ab 7", ExitNoStatus, `^--escape "ab", expected one character, \^X for Ctrl-X, or none$`},
		"a word as escape":    {"attach --escape . 7", ExitNoStatus, `^--escape "." has another meaning$`},
		"Enter as escape":     {"attach --escape ^M 7", ExitNoStatus, `^--escape "\^M" has another meaning$`},
		"nobody to attach to": {"attach --socket " + nowhere + " 7", ExitNoStatus, "^no agent is running here"},
		"an option's value":   {"drain --reason", options.ExitUsage, `^--reason needs a value: --reason TEXT$`},
	} {
		t.Run(name, func(t *testing.T) {
			words := strings.Fields(c.words)
			status, out, err := run(t, words[0], words[1:]...)
			if status != c.status || out != "" || err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("exit status %d, %q, error:\n%v\nexpected %d and:\n%s", status, out, err, c.status, c.want)
			}
		})
	}
}

// TestStatusWaitsForSocket creates the agent's socket after the command has started.
func TestStatusWaitsForSocket(t *testing.T) {
	socket, _ := listen(t, answers{api.MethodHealth: api.Health{Host: "n1"}})
	late := socket + ".late"
	time.AfterFunc(200*time.Millisecond, func() {
		if err := os.Rename(socket, late); err != nil {
			t.Error(err)
		}
	})
	if status, _, err := run(t, "status", "--socket", late); status != ExitGood || err != nil {
		t.Errorf("exit status %d, error: %v", status, err)
	}
}

// TestJobsAcrossAgentRestart ends an agent while a call is in its queue, and starts the next one.
// The next one answers the call.
func TestJobsAcrossAgentRestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	former, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	former.SetUnlinkOnClose(false)
	next, _ := listen(t, answers{api.MethodJobs: api.JobsAnswer{Jobs: []api.Job{{ID: api.ID{Job: 7}, Name: "survivor"}}}})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c, err := former.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(former.Close(), os.Rename(next, socket), c.Close()); err != nil {
			t.Error(err)
		}
	}()
	status, out, err := run(t, "jobs", "--socket", socket)
	<-answered
	if status != ExitGood || err != nil || !strings.Contains(out, "survivor") {
		t.Errorf("exit status %d, %q, %v", status, out, err)
	}
	gone := &api.Error{Code: api.Unavailable, Err: fmt.Errorf("read: %w", syscall.ECONNRESET)}
	if err := advise(socket, gone); !strings.Contains(err.Error(), "is stopping or restarting") {
		t.Error(err)
	}
}

// TestHungUp checks that a client recognises an agent that closes the connection before it answers,
// at whatever moment.
func TestHungUp(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	client, err := api.Dial(api.Options{Socket: l.Addr().String(), RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := client.Jobs(t.Context()); !attach.Away(err) || !hungUp(err) {
			t.Fatal(err)
		}
	}
}
