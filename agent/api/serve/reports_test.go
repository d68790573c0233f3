package serve

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
)

var errEnough = errors.New("enough")

// some takes n reports that are no heartbeats.
func some(t *testing.T, c *api.Client, after uint64, n int) []api.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var list []api.Report
	err := c.Reports(ctx, after, func(r api.Report) error {
		if r.Heartbeat == nil {
			list = append(list, r)
		}
		if len(list) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%d of %d reports: %v", len(list), n, err)
	}
	return list
}

func TestReports(t *testing.T) {
	r := run(t, nil)
	c := r.client()
	f := r.agent
	f.put(agent.JobReport{ID: job.ID{Job: 9}, Owner: "alice", State: agent.Running}) // 2
	f.put(agent.JobReport{ID: job.ID{Job: 8}, Owner: "bob", State: agent.Accepted})  // 3
	f.mu.Lock()
	f.load = &agent.LoadReport{
		Number: f.next(), Full: true, Time: began,
		Values: []loadsensor.Value{
			{Key: loadsensor.Key{Host: "n1", Name: "load_avg"}, Text: "0.5", At: began},
			{Key: loadsensor.Key{Host: "global", Name: "licenses"}, Text: "3", Static: true, At: began, Source: "/s"},
		},
		Removed: []loadsensor.Key{{Host: "n1", Name: "gone"}},
	}
	f.mu.Unlock()
	f.change(job.ID{Job: 9}, agent.Ended, &job.Outcome{Ran: true, ExitStatus: 3}) // 5
	f.mu.Lock()
	f.service = &agent.ServiceReport{Number: f.next(), Draining: "a disk fails"} // 6
	f.mu.Unlock()

	want := []api.Report{
		{Number: 1, Configuration: &api.Configuration{Version: "1"}},
		{Number: 3, Job: &api.Job{ID: api.ID{Job: 8}, Number: 3, State: api.Accepted, Owner: "bob"}},
		{Number: 4, Load: &api.Load{
			Full: true, Time: began,
			Values: []api.Value{
				{ValueID: api.ValueID{Host: "n1", Name: "load_avg"}, Text: "0.5", At: began},
				{ValueID: api.ValueID{Host: "global", Name: "licenses"}, Text: "3", Static: true, At: began, Source: "/s"},
			},
			Removed: []api.ValueID{{Host: "n1", Name: "gone"}},
		}},
		{Number: 5, Job: &api.Job{
			ID: api.ID{Job: 9}, Number: 5, State: api.Ended, Owner: "alice",
			Outcome: &api.Outcome{Class: job.ClassNone.String(), Effect: "finished", Ran: true, ExitStatus: 3},
		}},
		{Number: 6, Service: &api.Service{Draining: "a disk fails"}},
	}
	if diff := cmp.Diff(want, some(t, c, 0, 5)); diff != "" {
		t.Error(diff)
	}
	for after := range uint64(6) { // from wherever one goes on
		i := slices.IndexFunc(want, func(r api.Report) bool { return r.Number > after })
		if diff := cmp.Diff(want[i:], some(t, c, after, len(want)-i)); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
	}
}

// TestReportsAcknowledge checks that a stream acknowledges earlier reports before it sends new
// ones.
func TestReportsAcknowledge(t *testing.T) {
	r := run(t, nil)
	r.agent.put(agent.JobReport{ID: job.ID{Job: 9}, State: agent.Ended}) // 2
	r.agent.put(agent.JobReport{ID: job.ID{Job: 8}, State: agent.Ended}) // 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := r.stream(ctx, `{"after":0,"acknowledge":2}`)
	if got := read(t, lines, 2); !strings.Contains(got, `{"number":1,"configuration"`) || !strings.Contains(got, `{"number":3,"job":{"job":8`) {
		t.Errorf("got %s", got)
	}
	if said := r.agent.said(); !slices.Equal(said, []string{"Acknowledge 2"}) {
		t.Errorf("said %v", said)
	}
	r.agent.err = errors.New("cannot")
	if a := r.post("/execd.v1.Agent/Reports", `{"acknowledge":2}`); a.Code != api.Internal || a.status != 500 {
		t.Errorf("status %d, %s", a.status, a.text)
	}
}

// stream opens a stream by hand.
func (r *running) stream(ctx context.Context, body string, header ...string) io.Reader {
	r.t.Helper()
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.socket)
	}}
	r.t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/execd.v1.Agent/Reports", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { response.Body.Close() })
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "application/x-ndjson" {
		r.t.Fatalf("status %s, %s", response.Status, kind)
	}
	return response.Body
}

// read reads lines.
func read(t *testing.T, from io.Reader, lines int) string {
	t.Helper()
	var text strings.Builder
	b := make([]byte, 1)
	for lines > 0 {
		if _, err := io.ReadFull(from, b); err != nil {
			t.Fatalf("after %q: %v", text.String(), err)
		}
		text.Write(b)
		if b[0] == '\n' {
			lines--
		}
	}
	return text.String()
}

// TestDefaultHeartbeat checks that a client that requests no interval gets a heartbeat every 10
// seconds.
func TestDefaultHeartbeat(t *testing.T) {
	c := clock.NewManual(began)
	r := run(t, func(o *Options) { o.Clock = c })
	lines := r.stream(t.Context(), `{"after":1}`)
	if err := c.WaitFor(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	c.Advance(10 * time.Second)
	if got := read(t, lines, 1); !strings.HasPrefix(got, `{"number":1,"heartbeat":`) {
		t.Errorf("got %s", got)
	}
}

func TestHeartbeat(t *testing.T) {
	c := clock.NewManual(began)
	r := run(t, func(o *Options) { o.Clock = c })
	lines := r.stream(t.Context(), `{"after":1,"heartbeat":7}`)
	for i := range 3 {
		if err := c.WaitFor(t.Context(), 7*time.Second); err != nil {
			t.Fatal(err)
		}
		c.Advance(7 * time.Second)
		want := `{"number":1,"heartbeat":{"time":"` + began.Add(time.Duration(i+1)*7*time.Second).Format(time.RFC3339) + "\"}}\n"
		if got := read(t, lines, 1); got != want {
			t.Errorf("got %s want %s", got, want)
		}
	}
	r.agent.put(agent.JobReport{ID: job.ID{Job: 9}})
	if got := read(t, lines, 1); !strings.Contains(got, `"job":{"job":9`) {
		t.Errorf("got %s", got)
	}
	r.stop()
	if got := read(t, lines, 1); got != `{"number":2,"error":{"code":"unavailable","message":"the agent is being shut down"}}`+"\n" {
		t.Errorf("got %s", got)
	}
}

// TestStreamWriteDeadlineIsRenewed checks that each write to a stream starts the timeout for its
// reader again.
func TestStreamWriteDeadlineIsRenewed(t *testing.T) {
	r := run(t, func(o *Options) { o.Limits.Write = time.Second })
	lines := r.stream(t.Context(), `{"after":1,"heartbeat":0.4}`)
	if got := read(t, lines, 3); strings.Count(got, `"heartbeat"`) != 3 {
		t.Errorf("got %s", got)
	}
}

// TestReplacedMaster checks that the open stream of a replaced master ends with an error, and gets
// no further reports.
func TestReplacedMaster(t *testing.T) {
	r := run(t, nil)
	former := r.stream(t.Context(), `{"after":1}`, api.EpochHeader, "3")
	successor := r.client(func(o *api.Options) { o.Epoch = 4 })
	if _, err := successor.Start(t.Context(), aStart(7)); err != nil {
		t.Fatal(err)
	}
	const want = `{"number":1,"error":{"code":"failed_precondition","message":"the epoch of this master is 3, and a master with epoch 4 has taken over"}}` + "\n"
	if got := read(t, former, 1); got != want {
		t.Errorf("got %s", got)
	}
	if rest, err := io.ReadAll(former); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	c := r.client(func(o *api.Options) { o.Epoch = 3 })
	err := c.Reports(t.Context(), 1, func(api.Report) error { return nil })
	wantCode(t, "a stream of a former master", err, api.FailedPrecondition, "4 has taken over")
}

// TestEpochs checks that all methods that change something refuse a previous master, that methods
// that only read do not, and that calls without an epoch are not refused here.
func TestEpochs(t *testing.T) {
	r := run(t, nil)
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7}, Owner: "alice"})
	if a := r.post("/execd.v1.Agent/FullReport", `{}`, api.EpochHeader, "12"); a.status != http.StatusOK {
		t.Fatal(a.text)
	}
	r.agent.said()
	for name, m := range r.methods {
		a := r.post(api.Path+string(name), `{}`, api.EpochHeader, "11")
		refused := a.Code == api.FailedPrecondition && strings.Contains(a.Message, "is 11, and a master with epoch 12 has")
		looks := slices.Contains([]api.Method{api.MethodJobs, api.MethodJob, api.MethodHealth, api.MethodVersion}, name)
		if refused == looks || m.orders == looks {
			t.Errorf("%s: status %d, %s", name, a.status, a.text)
		}
	}
	if said := r.agent.said(); len(said) > 0 {
		t.Errorf("the agent was asked: %v", said)
	}
	if a := r.post("/execd.v1.Agent/FullReport", `{}`); a.status != http.StatusOK {
		t.Errorf("without an epoch: %s", a.text)
	}
	if a := r.post("/execd.v1.Agent/FullReport", `{}`, api.EpochHeader, "12"); a.status != http.StatusOK {
		t.Errorf("with the same epoch: %s", a.text)
	}
}

// TestEpochSeenByPreviousAgent checks that the epochs that previous agents have seen count, too.
func TestEpochSeenByPreviousAgent(t *testing.T) {
	r := run(t, nil)
	r.stop()
	s, err := New(Options{Socket: r.socket})
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.epoch = 8
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, f) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c := r.client(func(o *api.Options) { o.Epoch = 7 })
	wantCode(t, "an old epoch", c.FullReport(t.Context()), api.FailedPrecondition, "8")
}

// TestStop checks that a server that stops ends streams at once, and lets calls finish.
func TestStop(t *testing.T) {
	r := run(t, nil)
	r.agent.gate = make(chan struct{})
	lines := r.stream(t.Context(), `{"after":1}`)
	done := make(chan error, 1)
	go func() {
		_, err := r.client().Start(t.Context(), aStart(1))
		done <- err
	}()
	if !soon(func() bool { r.calls.mu.Lock(); defer r.calls.mu.Unlock(); return r.calls.total == 2 }) {
		t.Fatal("the call does not begin")
	}
	stopped := make(chan bool)
	go func() { r.stop(); close(stopped) }()
	read(t, lines, 1)
	r.agent.gate <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-stopped
	if _, err := net.Dial("unix", r.socket); err == nil {
		t.Error("somebody listens")
	}
}

// TestStopInTime checks that the server cancels calls that do not finish in time, and the requests
// that wait for them.
func TestStopInTime(t *testing.T) {
	r := run(t, func(o *Options) { o.Limits.Grace = time.Millisecond })
	r.agent.gate = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := r.client().Start(t.Context(), aStart(1))
		done <- err
	}()
	if !soon(func() bool { r.calls.mu.Lock(); defer r.calls.mu.Unlock(); return r.calls.total == 1 }) {
		t.Fatal("the call does not begin")
	}
	r.stop()
	wantCode(t, "a call that was given up", <-done, api.Unavailable, "cannot reach")
}

// TestStreamOfStalledReaderIsClosed checks that a client that does not read loses its stream, and
// that other clients are not affected.
func TestStreamOfStalledReaderIsClosed(t *testing.T) {
	for _, coding := range []string{"identity", "gzip"} {
		t.Run(coding, func(t *testing.T) {
			r := run(t, func(o *Options) { o.Limits.Write = time.Second })
			lines := r.stream(t.Context(), `{"after":1}`, "Accept-Encoding", coding)
			noise := make([]byte, 1<<20)
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // it does not fail
			long := hex.EncodeToString(noise)
			for n := range 8 { // more than sockets hold
				r.agent.put(agent.JobReport{ID: job.ID{Job: n + 1}, Name: long})
			}
			if !soon(func() bool { r.calls.mu.Lock(); defer r.calls.mu.Unlock(); return r.calls.total == 0 }) {
				t.Fatal("the stream goes on")
			}
			if _, err := io.Copy(io.Discard, lines); err == nil {
				t.Error("the stream has a good end")
			}
			if list := some(t, r.client(), 1, 8); len(list[7].Job.Name) != len(long) {
				t.Error("the next stream has not all")
			}
		})
	}
}

// proxy is a way to a socket that breaks again and again.
type proxy struct {
	address  string
	listener net.Listener
	wait     sync.WaitGroup
}

// newProxy passes on, of each connection, as many bytes of answers as cut says; -1 is
// for all.
func newProxy(t *testing.T, socket string, cut func() int64) *proxy {
	t.Helper()
	p := &proxy{address: filepath.Join(directory(t), "proxy")}
	var err error
	if p.listener, err = net.Listen("unix", p.address); err != nil {
		t.Fatal(err)
	}
	p.wait.Go(func() {
		for {
			down, err := p.listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("unix", socket)
			if err != nil {
				down.Close()
				continue
			}
			n := cut()
			p.wait.Go(func() { pass(up, down, -1) })
			p.wait.Go(func() {
				pass(down, up, n)
				up.Close()
			})
		}
	})
	t.Cleanup(func() {
		p.listener.Close()
		p.wait.Wait()
	})
	return p
}

// pass passes on n bytes, or with -1 all, and hangs up.
func pass(to, from net.Conn, n int64) {
	var source io.Reader = from
	if n >= 0 {
		source = io.LimitReader(from, n)
	}
	_, _ = io.Copy(to, source) // it ends one way or the other
	to.Close()
}

// use adds a second to the CPU usage of the jobs that which selects, as one report.
func (f *fake) use(which func(job.ID) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []job.ID
	for id, j := range f.jobs {
		if which(id) {
			j.Usage.CPU++
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	n := f.next()
	for _, id := range ids {
		f.used[id] = n
	}
}

// TestUsageLine checks that the usage of all jobs that were measured together is one line, without
// values that are 0.
func TestUsageLine(t *testing.T) {
	c := clock.NewManual(began)
	r := run(t, func(o *Options) { o.Clock = c })
	f := r.agent
	f.put(agent.JobReport{ID: job.ID{Job: 9, Task: 2}, State: agent.Running})                                                             // 2
	f.put(agent.JobReport{ID: job.ID{Job: 8}, State: agent.Running, Usage: jobdir.Online{CPU: 1.23456, Mem: 1. / 3, IOWait: 1, Vmem: 5}}) // 3
	lines := r.stream(t.Context(), `{"after":0}`)
	read(t, lines, 3)
	f.use(func(job.ID) bool { return true }) // 4
	want := `{"number":4,"usage":{"time":"2026-03-04T05:06:07Z","jobs":[{"job":8,"cpu":2.235,"mem":0.333333,"iow":1,"vmem":5},{"job":9,"task":2,"cpu":1}]}}` + "\n"
	if got := read(t, lines, 1); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	f.change(job.ID{Job: 9, Task: 2}, agent.Ending, nil) // 5: what it has used is in that
	f.use(func(id job.ID) bool { return id.Job == 9 })   // 6: likewise
	list := some(t, r.client(), 3, 2)
	if list[0].Usage == nil || len(list[0].Usage.Jobs) != 1 || list[0].Usage.Jobs[0].ID() != (api.ID{Job: 8}) || list[1].Job == nil || list[1].Job.Usage == nil || list[1].Job.Usage.CPU != 2 {
		t.Errorf("got %+v", list)
	}
}

// TestReportsResume cuts the stream repeatedly, at any place, while jobs change: each final state
// of a job arrives once, and in order.
func TestReportsResume(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := run(t, nil)
		cuts := rapid.SliceOfN(rapid.Int64Range(0, 3000), 0, 12).Draw(rt, "cuts")
		var mu sync.Mutex
		p := newProxy(t, r.socket, func() int64 {
			mu.Lock()
			defer mu.Unlock()
			if len(cuts) == 0 {
				return -1
			}
			n := cuts[0]
			cuts = cuts[1:]
			return n
		})
		c := dial(t, api.Options{Socket: p.address, PauseMin: time.Microsecond, PauseMax: time.Millisecond})
		f := r.agent
		steps := rapid.SliceOfN(rapid.IntRange(0, 7), 1, 60).Draw(rt, "jobs")
		const last = 1000
		go func() {
			for _, n := range steps {
				switch n {
				case 6, 7:
					f.use(func(id job.ID) bool { return id.Job >= n-4 })
				case 5:
					f.mu.Lock()
					f.versionN = f.next()
					f.version += "."
					f.mu.Unlock()
				case 4:
					f.mu.Lock()
					f.load = &agent.LoadReport{Number: f.next()}
					f.mu.Unlock()
				default:
					f.put(agent.JobReport{ID: job.ID{Job: n + 1}, State: agent.Running, Name: strings.Repeat("n", 100)})
				}
			}
			f.put(agent.JobReport{ID: job.ID{Job: last}})
		}()
		var number uint64
		got := map[int]uint64{}
		used := map[int]float64{}
		var load uint64
		var version string
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := c.Reports(ctx, 0, func(report api.Report) error {
			switch {
			case report.Heartbeat != nil:
				return nil
			case report.Number <= number:
				rt.Errorf("number %d comes after %d", report.Number, number)
			case report.Job != nil:
				got[report.Job.Job] = report.Number
				if used[report.Job.Job] = 0; report.Job.Usage != nil {
					used[report.Job.Job] = report.Job.Usage.CPU
				}
			case report.Usage != nil:
				for _, u := range report.Usage.Jobs {
					if got[u.Job] == 0 || used[u.Job] > u.CPU {
						rt.Errorf("job %d has used %v, behind %v", u.Job, u.CPU, used[u.Job])
					}
					used[u.Job] = u.CPU
				}
			case report.Load != nil:
				load = report.Number
			case report.Configuration != nil:
				version = report.Configuration.Version
			}
			number = report.Number
			if report.Job != nil && report.Job.Job == last {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			rt.Errorf("Reports: %v", err)
		}
		want := map[int]uint64{}
		for _, j := range f.Jobs() {
			want[j.ID.Job] = j.Number
			if used[j.ID.Job] != j.Usage.CPU {
				rt.Errorf("job %d has used %v, and %v was told", j.ID.Job, j.Usage.CPU, used[j.ID.Job])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Error(diff)
		}
		if f.load != nil && load != f.load.Number || version != f.version {
			rt.Errorf("load %d, version %s; want %v, %s", load, version, f.load, f.version)
		}
		c.Close()
		r.stop()
	})
}

// TestLostAnswers checks that calls without an answer are repeated and carried out once.
func TestLostAnswers(t *testing.T) {
	r := run(t, nil)
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	n := 0
	p := newProxy(t, r.socket, func() int64 {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%4 == 0 {
			return -1
		}
		return random.Int64N(400)
	})
	lost := 0
	c := dial(t, api.Options{Socket: p.address, RetryFor: patience, PauseMin: time.Microsecond, PauseMax: time.Millisecond, Lost: func(error) { lost++ }})
	for i := range 12 {
		j, err := c.Start(t.Context(), aStart(i+1))
		if err != nil || j.Job != i+1 {
			t.Fatal(j, err)
		}
		c.Close() // so that each call has a connection of its own
	}
	if len(r.agent.jobs) != 12 || lost == 0 || len(r.agent.starts) <= 12 {
		t.Errorf("%d jobs, %d starts, %d lost", len(r.agent.jobs), len(r.agent.starts), lost)
	}
}
