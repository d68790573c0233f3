package clients

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// load says what other clients do while a client submits jobs.
type load struct {
	pollers int           // processes that request the list of jobs again and again
	perSec  int           // how often each of them does it, at most
	killers int           // that kill commands
	silent  int           // connections on which requests are sent and no answers are read
	jobs    int           // that are submitted meanwhile
	atLeast time.Duration // how long the load lasts; it also lasts until all jobs are submitted
}

// TestLoad runs a few of the clients of TestSoakLoad.
func TestLoad(t *testing.T) { load{pollers: 3, perSec: 10, killers: 1, silent: 3, jobs: 5}.run(t) }

// TestSoakLoad runs 50 processes that request the list of jobs ten times a second, clients that
// never read their answers, and clients that die during each call. Meanwhile it submits and runs
// jobs: each job number that qsub printed belongs to a job that has run once.
func TestSoakLoad(t *testing.T) {
	testenv.Soak(t)
	load{pollers: 50, perSec: 10, killers: 7, silent: 20, jobs: 100, atLeast: 30 * time.Second}.run(t)
}

// dying are command lines of clients that are killed. The jobs that they submit stay in hold.
var dying = []string{
	"qsub -h -N dies -b y -o /dev/null -j y true", "qstat -xml -u *", "qacct -j", "qdel dies", "qalter -h u dies", "qconf -sq all.q",
	"qsub -h -N dies -sync y -b y -o /dev/null -j y true",
}

func (l load) run(t *testing.T) {
	s := newSite(t, 8)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var polls, killed, cut atomic.Int64
	sockets := s.sockets()
	for range l.pollers {
		all.Go(func() { s.poll(ctx, l.perSec, &polls) })
	}
	list := request(t, "qstat", "-xml", "-u", "*")
	var blocked sync.WaitGroup // until the daemon reads no more from each silent client
	blocked.Add(l.silent)
	for range l.silent {
		all.Go(func() {
			conn := s.silentClient(ctx, list)
			blocked.Done()
			<-ctx.Done()
			if conn != nil {
				_ = conn.Close()
			}
		})
	}
	for i := range l.killers {
		all.Go(func() { killed.Add(s.dyingCommands(ctx, i)) })
	}
	submission := request(t, "qsub", "-h", "-N", "dies", "-b", "y", "-o", "/dev/null", "-j", "y", "true")
	all.Go(func() { cut.Add(s.cutRequests(ctx, submission)) })

	begin := time.Now()
	var ids []string
	for i := range l.jobs {
		id := strings.TrimSpace(s.must(s.run("qsub", "-terse", "-cwd", "-j", "y", "-o", "out.$JOB_ID", "-N", "counts", "-b", "y", "echo", fmt.Sprint(i))))
		ids = append(ids, id)
	}
	submitted := time.Since(begin)
	s.until("all jobs have left", func() bool { return !strings.Contains(s.root("qstat", "-u", "*").stdout, " counts ") })
	blocked.Wait()
	select {
	case <-time.After(l.atLeast - time.Since(begin)): // the longer the test waits, the more it can detect
	case <-t.Context().Done():
	}
	lasted := time.Since(begin)
	cancel()
	all.Wait()
	for i, id := range ids {
		if got := s.read("out." + id); got != fmt.Sprintln(i) {
			t.Errorf("job %s printed %q, want %d", id, got, i)
		}
	}
	for id, n := range records(s.must(s.root("qacct", "-j", "counts"))) {
		if !slices.Contains(ids, id) || n != 1 {
			t.Errorf("job %s has %d records", id, n)
		}
	}
	if polls.Load() == 0 || killed.Load() == 0 || cut.Load() == 0 {
		t.Errorf("%d polls, %d killed commands, %d cut requests", polls.Load(), killed.Load(), cut.Load())
	}
	s.until("the daemon has closed the connections", func() bool { return s.sockets() <= sockets })
	t.Attr("polls-per-second", fmt.Sprintf("%.0f", float64(polls.Load())/lasted.Seconds()))
	t.Attr("killed-commands", fmt.Sprint(killed.Load()))
	t.Attr("cut-requests", fmt.Sprint(cut.Load()))
	t.Attr("seconds-per-submission", fmt.Sprintf("%.3f", submitted.Seconds()/float64(l.jobs)))
	t.Attr("peak-kB", s.peak())
}

// records returns how many accounting records each job has in an output of qacct.
func records(text string) map[string]int {
	n := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^jobnumber +(\d+)`).FindAllStringSubmatch(text, -1) {
		n[found[1]]++
	}
	return n
}

// poll requests the list of jobs that many times a second, at most, and counts the requests.
func (s *site) poll(ctx context.Context, perSec int, polls *atomic.Int64) {
	again := time.NewTicker(time.Second / time.Duration(perSec))
	defer again.Stop()
	for ctx.Err() == nil {
		r := s.run("qstat", "-u", "*")
		if polls.Add(1); r.status != 0 || r.stderr != "" {
			s.Errorf("qstat: %+v", r)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// request returns a request of a command, as the command sends it.
func request(t *testing.T, name string, args ...string) []byte {
	body, err := json.Marshal(api.CommandRequest{Key: rand.Text(), Name: name, Args: api.Texts(args), Directory: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: execd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", api.PathCommand, len(body), body)
}

// connect connects to the daemon. It returns nil if the context ends first.
func (s *site) connect(ctx context.Context) net.Conn {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
	for errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil { // many wait for the daemon to accept them
		runtime.Gosched()
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
	}
	if err != nil {
		if ctx.Err() == nil {
			s.Error(err)
		}
		return nil
	}
	return conn
}

// silentClient sends requests on a connection until the daemon reads no more, and reads no answers.
func (s *site) silentClient(ctx context.Context, request []byte) net.Conn {
	conn := s.connect(ctx)
	if conn == nil {
		return nil
	}
	// The daemon takes no more once the answers fill the connection. A write that has waited for so
	// long shows that: it is no fault if the daemon was only slow.
	for ctx.Err() == nil {
		if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			s.Error(err)
		}
		if _, err := conn.Write(request); err != nil {
			break
		}
	}
	return conn
}

// dyingCommands runs commands, and kills each after a growing delay: sometimes before it has sent
// anything, sometimes during the call, sometimes after it has finished. It begins with the command
// line of that index, and returns how many it has killed.
func (s *site) dyingCommands(ctx context.Context, line int) (n int64) {
	for ; ctx.Err() == nil; line++ {
		words := strings.Fields(dying[line%len(dying)])
		cmd := s.command(ctx, s.user, filepath.Join(s.bin, "commands", words[0]), words[1:]...)
		if err := cmd.Start(); err != nil {
			if ctx.Err() == nil {
				s.Error(err)
			}
			return n
		}
		n++
		end := time.AfterFunc(time.Duration(n%60+1)*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		_ = cmd.Wait()
		end.Stop()
	}
	return n
}

// cutRequests sends a request again and again up to some byte, and closes the connection. It returns
// how many times.
func (s *site) cutRequests(ctx context.Context, request []byte) (n int64) {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for sent := 0; ; sent = (sent + 7) % (len(request) + 1) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return n
		}
		conn := s.connect(ctx)
		if conn == nil {
			return n
		}
		if _, err := conn.Write(request[:sent]); err != nil {
			s.Error(err)
		}
		if err := conn.Close(); err != nil {
			s.Error(err)
		}
		n++
	}
}

// sockets returns how many sockets the daemon has open.
func (s *site) sockets() (n int) {
	s.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(s.daemon.Pid()), "fd")
	all, err := os.ReadDir(dir)
	if err != nil {
		s.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// peak returns the largest resident memory that the daemon has had, in kB.
func (s *site) peak() string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.daemon.Pid()), "status"))
	if err != nil {
		s.Error(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(text)
	if found == nil {
		s.Errorf("no VmHWM: %s", text)
		return ""
	}
	return string(found[1])
}
