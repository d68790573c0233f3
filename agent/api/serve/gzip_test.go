package serve

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// manyJobs gives an agent n running jobs with different values.
func manyJobs(f *fake, n int) {
	for i := 1; i <= n; i++ {
		at := began.Add(time.Duration(i) * 12_345_678)
		f.put(agent.JobReport{
			ID: job.ID{Job: i}, Key: fmt.Sprint(i), State: agent.Running, Owner: "alice", Name: "sleep", Queue: "all.q", Slots: 1,
			Received: at, Started: at.Add(17 * time.Millisecond), PID: 17000 + 16*i,
			Usage: jobdir.Online{At: at.Add(time.Second), Wallclock: 45 + float64(i)/3000, CPU: float64(i) / 1e6, Vmem: 1470464, MaxVmem: 1470464},
			Dir:   fmt.Sprintf("/var/spool/execd/active_jobs/%d.1", i),
		})
	}
}

// TestReportsCompressed checks that reports are compressed if the client asks for it, and that each
// report still arrives at once.
func TestReportsCompressed(t *testing.T) {
	for accept, want := range map[string]string{
		"":                          "",
		"identity":                  "",
		"gzip":                      "gzip",
		"GZip":                      "gzip",
		"deflate, gzip;q=1.0, *":    "gzip",
		"br, gzip; q=0.1":           "gzip",
		"gzip;q=0":                  "",
		"gzip;q=0.000, identity":    "",
		"gzip;q=much":               "",
		"gzipped, x-gzip":           "",
		"deflate;q=1, zstd;q=0.001": "",
	} {
		t.Run(accept, func(t *testing.T) {
			r := run(t, nil)
			manyJobs(r.agent, 200)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/execd.v1.Agent/Reports", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			if accept != "" {
				request.Header.Set("Accept-Encoding", accept)
			}
			transport := &http.Transport{
				DisableCompression: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", r.socket)
				},
			}
			defer transport.CloseIdleConnections()
			answer, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if got := answer.Header.Get("Content-Encoding"); got != want {
				t.Fatalf("Content-Encoding: %q, expected %q", got, want)
			}
			var body io.Reader = answer.Body
			if want != "" {
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			lines := bufio.NewScanner(body)
			line := func(want string) {
				t.Helper()
				if !lines.Scan() || !strings.Contains(lines.Text(), want) {
					t.Fatalf("got %q, %v; expected ...%s...", lines.Text(), lines.Err(), want)
				}
			}
			line(`"configuration":`)
			for i := 1; i <= 200; i++ {
				line(fmt.Sprintf(`"job":{"job":%d,`, i))
			}
			for i := 1; i <= 3; i++ { // each must arrive before the next one is made
				r.agent.put(agent.JobReport{ID: job.ID{Job: 1000 + i}, State: agent.Accepted})
				line(fmt.Sprintf(`"job":{"job":%d,`, 1000+i))
			}
			r.stop()
			line(`"error":{"code":"unavailable"`)
			if lines.Scan() || lines.Err() != nil {
				t.Errorf("behind the end there is %q, %v", lines.Text(), lines.Err())
			}
		})
	}
}

// TestClientAsksForCompression checks that a client on another host gets compressed reports, and a
// client on this host does not.
func TestClientAsksForCompression(t *testing.T) {
	a := newAuthority(t, "a")
	r, address, _ := runTLS(t, a)
	const jobs = 200
	manyJobs(r.agent, jobs)
	var size atomic.Int64
	counting := countingProxy(t, "tcp", address, &size)
	files := write(t, t.TempDir(), a.issue(t, certificate{names: []string{"master.example"}}), a)
	far := dial(t, api.Options{Address: counting, TLS: clientFiles(files)})
	distant := some(t, far, 0, jobs+1)
	compressed := size.Swap(0)
	near := dial(t, api.Options{Socket: countingProxy(t, "unix", r.socket, &size)})
	local := some(t, near, 0, jobs+1)
	plain := size.Load()
	if !slices.EqualFunc(distant, local, func(x, y api.Report) bool { return x.Number == y.Number && (x.Job == nil) == (y.Job == nil) }) {
		t.Error("they got different reports")
	}
	if compressed > 24_500 || plain < 60_000 {
		t.Errorf("of %d jobs %d bytes go to another host and %d stay on this one", jobs, compressed, plain)
	}
	t.Attr("report-bytes", fmt.Sprintf("%d of %d", compressed, plain))
}

// countingProxy starts a proxy for an address, which counts the received bytes, and returns its
// address.
func countingProxy(t *testing.T, network, address string, size *atomic.Int64) string {
	t.Helper()
	where := "127.0.0.1:0"
	if network == "unix" {
		where = directory(t) + "/s"
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), network, where)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), network, address)
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); server.Close() }()
			go func() { _, _ = io.Copy(client, io.TeeReader(server, counter64{size})); client.Close() }()
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		<-ended
	})
	return l.Addr().String()
}

type counter64 struct{ n *atomic.Int64 }

func (c counter64) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
