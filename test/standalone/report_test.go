package standalone

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestSoakReport makes reports of ten million records. It needs 4 GB of disk space.
func TestSoakReport(t *testing.T) {
	testenv.Soak(t)
	const (
		all        = 10_000_000
		mostMemory = 256 << 20
		mostTime   = 60 * time.Second // with two processors of its own
	)
	name := filepath.Join(t.TempDir(), "accounting")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	first := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var line []byte
	for i := range all {
		submitted := first.Add(time.Duration(i) * 3 * time.Second)
		r := accounting.Record{
			Queue: fmt.Sprintf("queue%d.q", i%3), Host: "node1", Group: "users", Owner: fmt.Sprintf("user%03d", i%300), JobName: "simulation.sh", Job: i + 1,
			Account: "sge", Project: fmt.Sprintf("project%02d", i%40), Department: "defaultdepartment", PE: "smp", Slots: 1 + i%16,
			Submitted: submitted, Start: submitted.Add(time.Minute), End: submitted.Add(time.Hour), ExitStatus: i % 7 / 6,
			Category: "-u user -l h_vmem=4G,h_rt=7200 -pe smp 4", Usage: job.Usage{Wallclock: 3540, CPU: float64(i % 3540), MaxVmem: int64(i%4) << 30},
		}
		line = accounting.AppendClassic(line[:0], &r)
		if _, err := out.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Attr("report-file-bytes", fmt.Sprint(info.Size()))
	for _, form := range []string{"--json", "--html"} {
		cmd := exec.Command(filepath.Join(built(t), "execd"), "report", "--all", form, "--file", name) //nolint:noctx // the test measures it
		begin := time.Now()
		text, err := cmd.Output()
		wall := time.Since(begin)
		if err != nil || !strings.Contains(string(text), "10000000") {
			t.Fatalf("%v\n%.1000s", err, text)
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu, memory := cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), usage.Maxrss<<10
		t.Attr("report"+form+"-wall", wall.String())
		t.Attr("report"+form+"-cpu", cpu.String())
		t.Attr("report"+form+"-memory", fmt.Sprint(memory))
		if memory > mostMemory {
			t.Errorf("%s: %d bytes of memory, at most %d are allowed", form, memory, mostMemory)
		}
		if cpu/2 > mostTime {
			t.Errorf("%s: %s of processor time; on two processors at most %s are allowed", form, cpu, mostTime)
		}
	}
}
