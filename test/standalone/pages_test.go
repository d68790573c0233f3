package standalone

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// furnish gives the configuration of a machine what the pages show: a share tree and quotas.
func (m *machine) furnish(u *user.User) {
	m.write("conf/sharetree", "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2\nid=1\nname="+u.Username+"\ntype=0\nshares=75\nchildnodes=NONE\nid=2\nname=default\ntype=0\nshares=25\nchildnodes=NONE\n")
	m.write("conf/rqs", "{\nname fair\ndescription NONE\nenabled TRUE\nlimit users {*} to slots=4\n}\n")
}

// enter opens a tab with the pages of a site.
func (s *site) enter(b *browser) *tab {
	s.Helper()
	t := b.open(s.base)
	t.visit(s.link)
	t.until(`document.querySelector("h1").textContent === "Overview"`)
	return t
}

// jobsForPages submits jobs of each kind: 1 runs and writes, 2 is on hold, 3 is an array job, 4 is
// in error state, 5 waits for slots.
func (m *machine) jobsForPages(u *user.User) {
	m.Helper()
	dir := m.open("out")
	m.write("out/job.sh", "#!/bin/sh\n#$ -N assemble -r y -j y -l h_rt=3600\nfor i in 1 2 3; do echo step $i of 3; done\nexec sleep 1000\n")
	for _, job := range []struct{ line, state string }{
		{dir + "/job.sh", " r "},
		{"-h -b y -N held sleep 1000", " hqw "},
		{"-b y -N sweep -t 1-40 -tc 1 sleep 1000", " r "},
		{"-b y -N broken -wd " + m.dir + "/nowhere true", " Eqw "},
		{"-b y -N wide -pe smp 4 -l h_rt=3600 sleep 1000", " qw "},
	} {
		before := strings.Count(m.as(u, "qstat").stdout, job.state)
		words := strings.Fields(job.line)
		if !strings.Contains(job.line, "-wd") {
			words = append([]string{"-wd", dir}, words...)
		}
		if r := m.as(u, "qsub", words...); r.status != 0 {
			m.Fatalf("%+v", r)
		}
		m.until("job "+job.line+" has its state", func() bool {
			return strings.Count(m.as(u, "qstat").stdout, job.state) > before || job.state == " qw "
		})
	}
	m.until("the first job has written", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "assemble.o1"))
		return strings.Contains(string(text), "3 of 3")
	})
}

// TestSoakPages shows each page in Chromium, in light and dark colours and with the width of a phone,
// and has axe-core look for what keeps people from using them.
func TestSoakPages(t *testing.T) {
	testenv.Soak(t)
	b := newBrowser(t)
	script := axe(t)
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	m.write("conf/pes/smp", "pe_name smp\nslots 99\nallocation_rule $pe_slots\n")
	m.furnish(u)
	m.start()
	m.jobsForPages(u)
	s := m.web(u)
	page := s.enter(b)
	for _, view := range []struct{ path, shows string }{
		{"/", "Queue instances"},
		{"/jobs", "assemble"},
		{"/jobs?show=pending", "wide"},
		{"/jobs?show=running&mine=1", "assemble"},
		{"/jobs?show=finished", "There are no such jobs"},
		{"/jobs/1", "step 3 of 3"},
		{"/jobs/3", "of 40 tasks done"},
		{"/jobs/4", "nowhere"},
		{"/jobs/5", "What it waits for"},
		{"/hosts/" + hostName, "Slots in use: "},
		{"/log", "was submitted"},
		{"/shares", u.Username},
		{"/quotas", "fair/1"},
		{"/jobs/99", "does not know job 99"},
	} {
		for _, look := range []struct {
			colours string
			width   int
			rules   string
		}{{"light", 1100, ""}, {"light", 360, ""}, {"dark", 1100, "color-contrast"}} {
			what := fmt.Sprintf("%s, %s, %d pixels", view.path, look.colours, look.width)
			page.look(look.width, look.colours)
			page.visit(s.base + view.path)
			if text := page.text("document.body.innerText"); !strings.Contains(text, view.shows) {
				t.Errorf("%s: no %q in\n%s", what, view.shows, text)
			}
			page.accessible(script, look.rules, what)
			wide := page.text(`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((e) => e.outerHTML.slice(0, 100)).join("\n")`)
			if wide != "" {
				t.Errorf("%s: the page is wider than the window:\n%s", what, wide)
			}
		}
		page.quiet()
	}
	page.look(1100, "light")
	page.visit(s.base + "/jobs/1")
	spoken := page.spoken()
	for _, line := range []string{"heading Job 1", "button Suspend", "navigation Pages", "heading Usage", "DisclosureTriangle Delete...", "main "} {
		if !strings.Contains(spoken, line) {
			t.Errorf("a screen reader does not get %q, but\n%s", line, spoken)
		}
	}
	// Without scripts each page shows the state at the time when it was loaded, and the buttons work.
	page.do("Emulation.setScriptExecutionDisabled", args{"value": true}, nil)
	page.visit(s.base + "/jobs/1")
	page.focus("Suspend")
	page.loads(func() { page.press("Enter") })
	if text := page.text("document.body.innerText"); !strings.Contains(text, "suspended job 1") || !strings.Contains(text, "step 3 of 3") {
		t.Errorf("without scripts:\n%s", text)
	}
	page.quiet()
}

// TestSoakKeyboard does everything that the pages offer with the keyboard alone, while the page
// updates itself.
func TestSoakKeyboard(t *testing.T) {
	testenv.Soak(t)
	b := newBrowser(t)
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	m.write("conf/pes/smp", "pe_name smp\nslots 99\nallocation_rule $pe_slots\n")
	m.start()
	m.jobsForPages(u)
	s := m.web(u)
	page := s.enter(b)
	page.press("Tab")
	if text := page.text("document.activeElement.textContent"); text != "Skip to the content" {
		t.Errorf("the first element is %q", text)
	}
	for _, name := range []string{"Jobs", "pending", "5"} {
		page.focus(name)
		page.loads(func() { page.press("Enter") })
	}
	if title := page.text("document.title"); title != "Job 5 - execd" {
		t.Errorf("the keyboard has led to %q", title)
	}
	for _, step := range []struct{ path, button, confirm, said string }{
		{"/jobs/2", "Release", "", "modified hold of job 2"},
		{"/jobs/5", "Hold", "", "modified hold of job 5"},
		{"/jobs/1", "Suspend", "", "suspended job 1"},
		{"/jobs/1", "Resume", "", "unsuspended job 1"},
		{"/jobs/1", "Requeue...", "Requeue job 1 now", "Pushed rescheduling of job 1"},
		{"/jobs/4", "Clear the error", "", "cleared error state of job 4"},
		{"/jobs/5", "Delete...", "Delete job 5 now", "has deleted job 5"},
	} {
		page.visit(s.base + step.path)
		page.until(`[...document.querySelectorAll("button, summary")].some((e) => e.textContent === "` + step.button + `")`)
		page.focus(step.button)
		if step.confirm != "" {
			page.press("Enter")
			page.until(`document.activeElement.parentElement.open`)
			page.focus(step.confirm)
		}
		page.loads(func() { page.press("Enter") })
		page.until(`document.querySelector(".answer").textContent.includes("` + step.said + `")`)
	}
	page.visit(s.base + "/jobs/2")
	page.focus("Change...")
	page.press("Enter")
	page.focus("Name (-N)")
	page.do("Input.insertText", args{"text": "typed"}, nil) // the tabulator has selected the old name
	page.loads(func() { page.press("Enter") })
	page.until(`document.querySelector(".lead").textContent.includes("typed")`)
	page.quiet()

	// The focus stays on a button while the page changes around it, and while the daemon is away.
	page.visit(s.base + "/jobs/3")
	page.focus("Hold")
	m.as(u, "qalter", "-N", "renamed", "3")
	page.until(`document.querySelector(".lead").textContent.includes("renamed")`)
	m.daemon.Kill()
	page.until(`document.body.innerText.includes("cannot reach the daemon")`)
	m.start()
	page.until(`document.querySelector(".lead").textContent.includes("renamed")`)
	page.quiet()
}

var pictures = flag.Bool("pictures", false, "make the pictures of the documentation again")

// TestSoakPictures makes the pictures in the documentation, which shows the pages with jobs of each kind.
func TestSoakPictures(t *testing.T) {
	testenv.Soak(t)
	if !*pictures {
		t.Skip("makes pictures only with -pictures")
	}
	b := newBrowser(t)
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	m.write("conf/pes/smp", "pe_name smp\nslots 99\nallocation_rule $pe_slots\n")
	m.furnish(u)
	m.start()
	m.jobsForPages(u)
	for _, other := range someUsers(t, 2)[1:] { // with a share of its own
		if r := m.as(other, "qsub", "-b", "y", "-wd", m.open("out"), "-N", "other", "sleep", "1000"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	page := m.web(u).enter(b)
	if err := os.MkdirAll("../../docs/images", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		name, path, shows string
		height            int
	}{
		{"web-jobs.png", "/jobs", "wide", 432},
		{"web-job.png", "/jobs/1", "Read and written", 405}, // without the path of the output
		{"web-shares.png", "/shares", "default", 415},
	} {
		page.look(900, "light")
		page.visit(page.origin + p.path)
		page.until(`document.body.innerText.includes("` + p.shows + `")`)
		page.picture("../../docs/images/"+p.name, p.height)
	}
	report := b.open("file://")
	report.look(900, "light")
	report.visit("file://" + m.reportForPicture())
	report.picture("../../docs/images/report.png", 500)
}

// reportForPicture writes the HTML report of an invented accounting file, and returns its path.
func (m *machine) reportForPicture() string {
	m.Helper()
	var text []byte
	first := time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC)
	for i, owner := range []string{"ada", "bob", "eve"} {
		for day := range 30 {
			for n := range 1 + (day*(i+2)+i)%5 {
				start := first.AddDate(0, 0, day).Add(time.Duration(n) * time.Hour)
				text = accounting.AppendClassic(text, &accounting.Record{
					Queue: []string{"all.q", "gpu.q"}[i%2], Host: hostName, Group: "users", Owner: owner, JobName: "job.sh", Job: len(text), Account: "sge", Project: []string{"genome", "climate"}[n%2],
					Department: "defaultdepartment", Slots: 4, Submitted: start.Add(-10 * time.Minute), Start: start, End: start.Add(2 * time.Hour), ExitStatus: (day + n) % 9 / 8,
					Category: "-l h_vmem=4G", Usage: job.Usage{Wallclock: 7200, CPU: float64(7200 * (2 + i)), MaxVmem: int64(1+i) << 31},
				})
			}
		}
	}
	m.write("made.accounting", string(text))
	page, err := exec.Command(filepath.Join(m.bin, "execd"), "report", "--all", "--html", "--file", m.dir+"/made.accounting").Output() //nolint:noctx // it ends by itself
	if err != nil {
		m.Fatal(err)
	}
	m.write("report.html", string(page))
	return m.dir + "/report.html"
}
