package simulate

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkReserve simulates a trace twice: once as it is, and once with reservations of all
// parallel jobs, 20 of them in a run. "times" is how much more processor time that takes, which
// a busy machine changes little.
func BenchmarkReserve(b *testing.B) {
	for _, jobs := range []int{800, 3145} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			conf, trace := reserving(b, jobs)
			var plain, reserve time.Duration
			for b.Loop() {
				for _, x := range []struct {
					options []string
					took    *time.Duration
				}{{nil, &plain}, {[]string{"--reserve"}, &reserve}} {
					c := &Command{
						Args:   append([]string{"--conf", conf, "--trace", trace, "--pe", "mpi", "--no-tasks"}, x.options...),
						Stdout: io.Discard, Stderr: io.Discard,
					}
					before := processorTime(b)
					if status, err := c.Run(); status != ExitDone || err != nil {
						b.Fatal(status, err)
					}
					*x.took += processorTime(b) - before
				}
			}
			b.ReportMetric(reserve.Seconds()/plain.Seconds(), "times")
		})
	}
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reserving writes a cluster of 64 hosts with 16 slots each, and a trace of jobs for it, half
// of them parallel, that come a little faster than they can run: so many wait.
func reserving(b *testing.B, jobs int) (conf, trace string) {
	b.Helper()
	dir := b.TempDir()
	conf, trace = filepath.Join(dir, "conf"), filepath.Join(dir, "trace.swf")
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	var hosts []string
	for i := range 64 {
		hosts = append(hosts, fmt.Sprintf("n%03d", i))
		write(filepath.Join(conf, "hosts", hosts[i]), "hostname "+hosts[i]+"\n")
	}
	write(filepath.Join(conf, "queues/all.q"), "qname all.q\nhostlist "+strings.Join(hosts, " ")+"\nslots 16\npe_list mpi\nload_thresholds NONE\n")
	write(filepath.Join(conf, "pes/mpi"), "pe_name mpi\nslots 99999\nallocation_rule $fill_up\n")
	write(filepath.Join(conf, "sched_conf"), "max_reservation 20\ndefault_duration 8:0:0\njob_load_adjustments NONE\nweight_waiting_time 0\nqueue_sort_method seqno\n")

	r := rand.New(rand.NewPCG(7, 7))
	var text strings.Builder
	text.WriteString("; Version: 2.2\n; UnixStartTime: 1700000000\n; MaxProcs: 1024\n")
	at := 0.0
	for id := range jobs {
		slots := []int{1, 1, 1, 2, 4, 8, 16, 32, 64, 128}[r.IntN(10)]
		run := int(math.Exp(7.5 + 1.3*r.NormFloat64()))
		at += 85 * r.ExpFloat64()
		limit := (1+r.IntN(5))*run + 60
		fmt.Fprintf(&text, "%d %d -1 %d %d %d -1 %d %d -1 1 %d 1 1 1 1 -1 -1\n", id+1, int(at), run, slots, run, slots, limit, 1+r.IntN(40))
	}
	write(trace, text.String())
	return conf, trace
}
