package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/standalone/api"
)

// bothWays returns a host with a daemon of one process, and one with a daemon of two. Benchmarks
// measure them in turns.
func bothWays(b *testing.B, slots int) map[string]*machine {
	b.Helper()
	return map[string]*machine{"": newMachine(b, slots), "-front": newFront(b, slots)}
}

// BenchmarkFirstInstruction measures the time from the call of qsub to the first line of the job
// (docs/performance.md).
func BenchmarkFirstInstruction(b *testing.B) {
	u := someUsers(b, 1)[0]
	machines, times := bothWays(b, 4), map[string][]float64{}
	for _, m := range machines {
		m.write("job.sh", "#!/bin/sh\ndate +%s%N > "+m.open("out")+"/$JOB_ID\n")
		m.start()
		m.as(u, "qstat")
	}
	for b.Loop() {
		for name, m := range machines {
			began := time.Now()
			r := m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh")
			file := filepath.Join(m.dir, "out", strings.TrimSpace(r.stdout))
			var text []string
			m.until("the job has begun", func() bool { text = lines(b, file); return len(text) > 0 && text[0] != "" })
			first, err := strconv.ParseInt(text[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			times[name] = append(times[name], float64(first-began.UnixNano())/1e6)
		}
	}
	for name, list := range times {
		b.ReportMetric(median(list), "ms"+name)
	}
}

// BenchmarkShortJobs measures the time from the moment at which 500 tasks, or jobs, may start until
// the record of the last end, and the CPU time per job: of the daemon, and of all children of a daemon of one process
// (docs/performance.md).
func BenchmarkShortJobs(b *testing.B) {
	u := someUsers(b, 1)[0]
	machines := bothWays(b, 512)
	for _, m := range machines {
		m.start()
	}
	const jobs = 500
	submit := func(m *machine, options ...string) {
		line := append(options, "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "-shell", "n", "/bin/true")
		if r := m.as(u, "qsub", line...); r.status != 0 {
			b.Fatal(r)
		}
	}
	for name, submitAll := range map[string]func(m *machine){
		"array": func(m *machine) { submit(m, "-t", fmt.Sprintf("1-%d", jobs)) },
		"separate": func(m *machine) {
			for range jobs {
				submit(m)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			rates, costs := map[string][]float64{}, map[string][]float64{}
			var started []float64
			for b.Loop() {
				for way, m := range machines {
					m.root("qmod", "-d", "all.q")
					submitAll(m)
					daemon, children := m.used(m.daemon.Pid())
					front := 0
					if way != "" {
						front = m.front()
						more, _ := m.used(front)
						daemon += more
					}
					before, began := m.recorded(), time.Now()
					m.root("qmod", "-e", "all.q")
					m.until("all jobs have ended", func() bool { return m.recorded() >= before+jobs })
					rates[way] = append(rates[way], jobs/time.Since(began).Seconds())
					m.until("all jobs have left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
					daemonThen, childrenThen := m.used(m.daemon.Pid())
					if front > 0 {
						more, _ := m.used(front)
						daemonThen += more
					} else {
						started = append(started, (childrenThen-children)/jobs)
					}
					costs[way] = append(costs[way], (daemonThen-daemon)/jobs)
				}
			}
			for way, list := range rates {
				b.ReportMetric(median(list), "jobs/s"+way)
			}
			for way, list := range costs {
				b.ReportMetric(median(list), "daemon-ms/job"+way)
			}
			b.ReportMetric(median(started), "children-ms/job")
		})
	}
}

// recorded returns the number of accounting records.
func (m *machine) recorded() int {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.place(), "accounting"))
	if err != nil {
		m.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// used returns the CPU time of a process, and that of all children that it has waited for, in
// milliseconds (proc_pid_stat(5)).
func (m *machine) used(pid int) (own, children float64) {
	m.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		m.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)[11:15]
	const tick = 10
	return tick * float64(number(m, fields[0])+number(m, fields[1])), tick * float64(number(m, fields[2])+number(m, fields[3]))
}

// BenchmarkPendingJobs submits 100,000 single jobs that stay pending, each with its own name and
// argument, a script, and the environment of a login. It measures the submissions per second with
// eight clients, the memory of the daemon at once and when it is idle, the duration of qstat, and
// the delay of a job that may start (docs/performance.md).
func BenchmarkPendingJobs(b *testing.B) {
	const jobs, clients = 100000, 8
	m := newMachine(b, 4)
	m.write("conf/queues/fast.q", fmt.Sprintf("qname fast.q\nhostlist %s\nslots 4\nshell /bin/sh\nload_thresholds NONE\ntmpdir %s\n", hostName, m.open("tmp")))
	m.write("conf/conf/global", groupIDs()+"min_uid 0\nmin_gid 0\n")
	m.start()
	m.root("qmod", "-d", "all.q")
	u := someUsers(b, 1)[0]
	script := []byte("#!/bin/sh\n#$ -l h_rt=3600\n" + strings.Repeat("# what the script does is said here\n", 15) + "python3 simulate.py --seed $1\n")
	for b.Loop() {
		began := time.Now()
		var group sync.WaitGroup
		var failed [clients]error
		for client := range clients {
			group.Go(func() {
				c, err := api.Dial(m.socket(), patience, nil)
				for i := client; i < jobs && err == nil; i += clients {
					_, err = c.Command(context.Background(), &api.CommandRequest{
						Key: fmt.Sprint("job", i), Name: "qsub", Directory: "/home/alice/project", Home: "/home/alice",
						Args:        api.Texts([]string{"-q", "all.q", "-N", fmt.Sprint("simulation", i), "job.sh", fmt.Sprint(i)}),
						Environment: api.Texts([]string{"HOME=/home/alice", "LOGNAME=alice", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/bash", "LANG=C.UTF-8"}),
						Files:       []api.File{{Name: "job.sh", Text: script}},
					})
				}
				failed[client] = err
			})
		}
		group.Wait()
		if err := errors.Join(failed[:]...); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(jobs/time.Since(began).Seconds(), "submissions/s")
		b.ReportMetric(m.memory("Pss"), "MB-then")
		b.ReportMetric(m.timed(func() { m.root("qstat", "-u", "*") }), "qstat-ms")
		b.ReportMetric(m.timed(func() {
			m.as(u, "qsub", "-q", "fast.q", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		}), "qsub-sync-ms")
		const rest = 30 * time.Second // the daemon returns unused memory after ten idle seconds
		<-time.After(rest)
		for what, field := range map[string]string{"MB": "Pss", "MB-anonymous": "Pss_Anon"} {
			b.ReportMetric(m.memory(field), what)
		}
	}
}

func (m *machine) timed(do func()) float64 {
	began := time.Now()
	do()
	return float64(time.Since(began).Microseconds()) / 1e3
}

// memory returns the memory of the daemon, in MB of a million bytes (proc_pid_smaps(5)).
func (m *machine) memory(field string) float64 {
	m.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", m.daemon.Pid()))
	if err != nil {
		m.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		m.Fatal(err)
	}
	return kb * 1024 / 1e6
}
