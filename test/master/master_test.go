// Package master tests the example master with agents on several hosts.
package master

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// patience is the timeout of the test.
const patience = 3 * time.Minute

// slots is the number of slots of each host.
const slots = 4

// site is a cluster.
type site struct {
	testing.TB
	dir     string
	network *network
	ca      *authority
	hosts   []string
	agents  map[string]*exec.Cmd
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// build builds the programs into a directory.
func build(t testing.TB, dir string) {
	t.Helper()
	for name, pkg := range map[string]string{"execd": "cmd/execd", "sge_shepherd-go": "cmd/shepherd", "master": "examples/master"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "../../"+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func newSite(t testing.TB, hosts ...string) *site {
	t.Helper()
	s := &site{TB: t, dir: t.TempDir(), hosts: hosts, agents: map[string]*exec.Cmd{}}
	testenv.LetIn(t, s.dir)
	build(t, s.path("bin"))
	write(t, s.path("conf/queues/all.q"), fmt.Sprintf("qname all.q\nhostlist %s\nslots %d\npe_list smp\nshell /bin/sh\nload_thresholds NONE\ntmpdir %s\n",
		strings.Join(hosts, " "), slots, testenv.Open(t, s.path("tmp"))))
	write(t, s.path("conf/pes/smp"), "pe_name smp\nslots 999\nallocation_rule $pe_slots\n")
	write(t, s.path("conf/sched_conf"), "schedule_interval 0:0:1\n")
	for i, host := range hosts {
		// All hosts share one kernel, in which a group ID must identify a single job.
		write(t, s.path("conf/conf", host), fmt.Sprintf("gid_range %d-%d\n", 51000+100*i, 51099+100*i))
	}
	s.network, s.ca = newNetwork(t, hosts), newAuthority(t, s.path("tls"))
	return s
}

func (s *site) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

func (s *site) socket(host string) string { return s.path(host, "agent.sock") }

// start starts the agent of a host, for the first time or again.
func (s *site) start(host string) {
	s.Helper()
	write(s.TB, s.path(host, ".keep"), "")
	log, err := os.OpenFile(s.path(host, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	tls := s.ca.files(host, x509.ExtKeyUsageServerAuth)
	cmd := s.network.command(s.network.hosts[host], s.path("bin/execd"), "agent", "--host", host, "--conf", s.path("conf"),
		"--spool", s.path(host, "spool"), "--socket", s.socket(host),
		"--listen", s.network.address(slices.Index(s.hosts, host))+":6446",
		"--tls-cert", tls.Certificate, "--tls-key", tls.Key, "--tls-ca", tls.CA, "--master", "master")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.agents[host] = cmd
	s.Cleanup(func() { s.kill(cmd) })
}

func (s *site) kill(agent *exec.Cmd) {
	_ = agent.Process.Kill()
	_ = agent.Wait()
}

// result is the expected end of one attempt of a job.
type result struct {
	Status int
	Limit  string
}

// end is a line of the master's ledger.
type end struct {
	Host string  `json:"host"`
	Job  api.Job `json:"job"`
}

// workload writes 60 jobs to a file, and returns the expected end of each attempt of each task.
func (s *site) workload() (file string, want map[api.ID][]result) {
	s.Helper()
	want = map[api.ID][]result{}
	var lines strings.Builder
	id := 0
	add := func(options, script string, tasks int, results ...result) {
		id++
		name := s.path("scripts", fmt.Sprintf("job%d.sh", id))
		write(s.TB, name, "#!/bin/sh\n"+script+"\n")
		fmt.Fprintf(&lines, "qsub -wd / -o /dev/null -j y %s %s\n", options, name)
		if tasks == 0 {
			want[api.ID{Job: id}] = results
		}
		for task := 1; task <= tasks; task++ {
			want[api.ID{Job: id, Task: task}] = []result{{Status: results[0].Status + task}}
		}
	}
	for i := range 10 {
		add("", "sleep 0.2", 0, result{})
		add("", fmt.Sprintf("sleep 0.5; exit %d", i), 0, result{Status: i})
		add("-t 1-3", fmt.Sprintf("sleep 0.3; exit $((%d + SGE_TASK_ID))", 10*i), 3, result{Status: 10 * i})
		add(fmt.Sprintf("-pe smp %d", 1+i%slots), "sleep 0.4; exit $NSLOTS", 0, result{Status: 1 + i%slots})
		add("-l h_rt=1:0:0", "exit 7", 0, result{Status: 7})
		if i%2 == 0 {
			add("-l h_rt=2", "exec sleep 600", 0, result{Status: 137, Limit: "h_rt"})
		} else {
			add("", `test "$RESTARTED" = 1 || exit 99; exit 3`, 0, result{Status: 99}, result{Status: 3})
		}
	}
	file = s.path("jobs")
	write(s.TB, file, lines.String())
	return file, want
}

// TestMaster runs 60 jobs with the example master on three hosts over TCP, while one of the agents
// is killed and restarted.
func TestMaster(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Network)
	s := newSite(t, "n1", "n2", "n3")
	for _, host := range s.hosts {
		s.start(host)
	}
	file, want := s.workload()
	said := s.runMaster(file, func(line string, ended int) {
		switch {
		case ended == 8 && strings.Contains(line, " has ended on "):
			s.kill(s.agents["n2"])
		case strings.Contains(line, "host n2 is not reached: "):
			s.start("n2")
		}
	})
	if !strings.Contains(said, "host n2 is reached again") {
		t.Errorf("n2 was not away:\n%s", said)
	}
	ends := s.ledger()
	got, keys := map[api.ID][]result{}, map[string]bool{}
	for _, e := range ends {
		if keys[e.Job.Key] {
			t.Errorf("the end of %s is there twice", e.Job.Key)
		}
		keys[e.Job.Key] = true
		r := result{Status: e.Job.Outcome.ExitStatus}
		if e.Job.Outcome.Limit != nil {
			r.Limit = e.Job.Outcome.Limit.Name
		}
		got[e.Job.ID] = append(got[e.Job.ID], r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, said)
	}
	s.checkSlots(ends)
	s.checkForgotten()
}

// runMaster runs the master until it exits, and returns its output. It calls told with each line,
// and the number of jobs that have finished up to that line.
func (s *site) runMaster(jobs string, told func(line string, ended int)) string {
	s.Helper()
	tls := s.ca.files("master", x509.ExtKeyUsageClientAuth)
	words := []string{
		s.path("bin/master"), "--conf", s.path("conf"), "--jobs", jobs, "--owner", "nobody", "--ledger", s.path("ledger"),
		"--tls-ca", tls.CA, "--tls-cert", tls.Certificate, "--tls-key", tls.Key,
	}
	for i, host := range s.hosts {
		words = append(words, "--agent", host+"="+s.network.address(i)+":6446")
	}
	cmd := s.network.command(s.network.master, words...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var said strings.Builder
	ended := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), " has ended on ") {
			ended++
		}
		told(lines.Text(), ended)
	}
	if err := cmd.Wait(); err != nil {
		s.Fatalf("%v\n%s\n%s", err, said.String(), errs.String())
	}
	return said.String()
}

func (s *site) ledger() []end {
	s.Helper()
	text, err := os.ReadFile(s.path("ledger"))
	if err != nil {
		s.Fatal(err)
	}
	var ends []end
	for line := range strings.Lines(string(text)) {
		var e end
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatal(err)
		}
		ends = append(ends, e)
	}
	return ends
}

// checkSlots checks that no host ever had more slots in use than it has.
func (s *site) checkSlots(ends []end) {
	s.Helper()
	busiest := 0
	for _, at := range ends {
		used := 0
		for _, e := range ends {
			o := e.Job.Outcome
			if e.Host == at.Host && !o.Start.After(at.Job.Outcome.Start) && o.End.After(at.Job.Outcome.Start) {
				used += e.Job.Slots
			}
		}
		if used > slots {
			s.Errorf("%d slots of %s were in use at %s", used, at.Host, at.Job.Outcome.Start)
		}
		busiest = max(busiest, used)
	}
	s.Attr("busiest", fmt.Sprint(busiest))
	if busiest < 2 {
		s.Error("no two jobs ran at the same time")
	}
}

// checkForgotten checks that agents keep no data of jobs.
func (s *site) checkForgotten() {
	s.Helper()
	for _, host := range s.hosts {
		client, err := api.Dial(api.Options{Socket: s.socket(host)})
		if err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(s.Context(), patience/6)
		defer cancel()
		// The agent removes acknowledged jobs a moment later.
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for jobs, err := client.Jobs(ctx); err != nil || len(jobs) > 0; jobs, err = client.Jobs(ctx) {
			select {
			case <-again.C:
			case <-ctx.Done():
				s.Fatalf("%s: %v, %v", host, jobs, err)
			}
		}
	}
}
