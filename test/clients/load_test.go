package clients

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// TestSoakLoad runs 50 processes that request the list of jobs ten times a second, clients that
// never read their answers, and clients that are killed during each call. Meanwhile it submits and
// runs jobs: each job number that qsub printed belongs to a job that has run once.
func TestSoakLoad(t *testing.T) {
	testenv.Soak(t)
	const (
		pollers  = 50
		perSec   = 10
		silent   = 20
		jobs     = 100
		duration = 30 * time.Second
	)
	s := newSite(t, 8)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var all sync.WaitGroup
	var polls, killed atomic.Int64
	for range pollers {
		all.Go(func() {
			again := time.NewTicker(time.Second / perSec)
			defer again.Stop()
			for ctx.Err() == nil {
				r := s.run("qstat", "-u", "*")
				if polls.Add(1); r.status != 0 || r.stderr != "" {
					t.Errorf("qstat: %+v", r)
				}
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
		})
	}

	// Requests whose answers are never read, one after the other, until the daemon accepts no more.
	for range silent {
		all.Go(func() {
			conn, err := net.Dial("unix", s.socket()) //nolint:noctx // it is closed below
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			body, err := json.Marshal(api.CommandRequest{Key: rand.Text(), Name: "qstat", Args: api.Texts([]string{"-xml", "-u", "*"}), Directory: "/"})
			if err != nil {
				t.Error(err)
				return
			}
			request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: execd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", api.PathCommand, len(body), body)
			if err := conn.SetWriteDeadline(time.Now().Add(duration)); err != nil {
				t.Error(err)
			}
			for ctx.Err() == nil {
				if _, err := conn.Write(request); err != nil {
					break // the daemon no longer reads from this client
				}
			}
			<-ctx.Done()
		})
	}

	// Commands that are killed after a growing delay: some before they have sent anything, some
	// during the call, some after they have finished. Jobs that they have submitted stay.
	for _, line := range []string{"qsub -h -N dies -b y -o /dev/null -j y true", "qstat -xml -u *", "qacct -j", "qdel dies", "qconf -sq all.q", "qsub -N dies -sync y -b y -o /dev/null -j y true"} {
		all.Go(func() {
			words := strings.Fields(line)
			for after := time.Millisecond; ctx.Err() == nil; after = (after + time.Millisecond) % (60 * time.Millisecond) {
				cmd := s.command(ctx, s.user, filepath.Join(s.bin, "commands", words[0]), words[1:]...)
				if err := cmd.Start(); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				end := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
				_ = cmd.Wait()
				end.Stop()
				killed.Add(1)
			}
		})
	}

	begin := time.Now()
	var ids []string
	for i := range jobs {
		id := strings.TrimSpace(s.must(s.run("qsub", "-terse", "-cwd", "-j", "y", "-o", "out.$JOB_ID", "-N", "counts", "-b", "y", "echo", fmt.Sprint(i))))
		ids = append(ids, id)
	}
	submitted := time.Since(begin)
	all.Wait()
	s.until("all jobs have left", func() bool { return !strings.Contains(s.root("qstat", "-u", "*").stdout, " counts ") })
	for i, id := range ids {
		if got := s.read("out." + id); got != fmt.Sprintln(i) {
			t.Errorf("job %s printed %q, want %d", id, got, i)
		}
		if n := strings.Count(s.must(s.run("qacct", "-j", id)), "\njobnumber "); n != 1 {
			t.Errorf("job %s has %d records", id, n)
		}
	}
	t.Attr("polls", fmt.Sprint(polls.Load()))
	t.Attr("killed-commands", fmt.Sprint(killed.Load()))
	t.Attr("submissions-seconds", fmt.Sprintf("%.1f", submitted.Seconds()))
}
