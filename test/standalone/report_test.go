package standalone

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// TestSoakReportPage shows the page of a report in Chromium, in light and dark colours and with the width of a
// phone, and has axe-core look for what keeps people from using it.
func TestSoakReportPage(t *testing.T) {
	testenv.Soak(t)
	b := newBrowser(t)
	script := axe(t)
	var in []byte
	begin := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	const all, users, projects, queues = 1500, 7, 3, 2
	for i := range all {
		submitted := begin.Add(time.Duration(i*i%all) * 30 * 24 * time.Hour / all)
		slots, wallclock := 1+i%16, time.Duration(600+i*37%7200)*time.Second
		r := accounting.Record{
			Queue: []string{"all.q", "long.q"}[i%queues], Host: "node1", Owner: []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace"}[(i*i+i/5)%users],
			Project: []string{"climate", "genome", "physics"}[i%projects], JobName: "sim", Job: i + 1, Slots: slots, ExitStatus: i % 9 / 8,
			Submitted: submitted, Start: submitted.Add(10 * time.Minute), End: submitted.Add(10*time.Minute + wallclock), Category: "-l h_vmem=4G",
			Usage: job.Usage{Wallclock: wallclock.Seconds(), CPU: wallclock.Seconds() * float64(slots) * float64(40+i%50) / 100, MaxVmem: int64(slots) << 31},
		}
		in = accounting.AppendClassic(in, &r)
	}
	cmd := exec.Command(filepath.Join(built(t), "execd"), "report", "--html", "--from", "2026-10-01", "--to", "2026-11-01", "--file", "-") //nolint:noctx // it ends
	cmd.Stdin, cmd.Env = bytes.NewReader(in), append(os.Environ(), "TZ=UTC")
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Errorf("the page loads %s", r.URL)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	page := b.open(server.URL)
	for _, look := range []struct {
		colours string
		width   int
		rules   string
	}{{"light", 1100, ""}, {"light", 360, ""}, {"dark", 1100, "color-contrast"}} {
		what := fmt.Sprintf("%s, %d pixels", look.colours, look.width)
		page.look(look.width, look.colours)
		page.visit(server.URL)
		if shown := page.text("document.body.innerText"); !strings.Contains(shown, "Usage of finished jobs") || !strings.Contains(shown, "genome") {
			t.Errorf("%s: %s", what, shown)
		}
		if wide := page.text(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); wide != "0" {
			t.Errorf("%s: the page is %s pixels wider than the window", what, wide)
		}
		page.accessible(script, look.rules, what)
	}
	page.quiet()
}

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
