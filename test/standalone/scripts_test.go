package standalone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// variants returns texts of scripts, most of which are stored beside the records.
func variants(m *machine, out string) (sums map[string]string, names []string) {
	m.Helper()
	sums = map[string]string{}
	for i, size := range []int{100, 9 << 10, 20 << 10, 300 << 10, 2 << 20} {
		name := fmt.Sprintf("script%d.sh", i)
		text := fmt.Sprintf("#!/bin/sh\necho %s >> %s/$JOB_ID\n", name, out)
		text += strings.Repeat("#", size) + "\n"
		m.write(name, text)
		sum := sha256.Sum256([]byte(text))
		if sums[name] = ""; size > 8<<10 {
			sums[name] = hex.EncodeToString(sum[:])
		}
		names = append(names, name)
	}
	return sums, names
}

// agrees compares the directory of scripts with the existing jobs.
func (m *machine) agrees(sums map[string]string, jobs map[string]string) {
	m.Helper()
	var want []string
	for _, script := range jobs {
		if sum := sums[script]; sum != "" {
			want = append(want, sum)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	m.until("the folder of scripts and the jobs agree", func() bool { // files go after the answer
		entries, err := os.ReadDir(filepath.Join(m.dir, "spool", "scripts"))
		if err != nil && !os.IsNotExist(err) {
			m.Fatal(err)
		}
		got = nil
		for _, e := range entries {
			got = append(got, e.Name())
		}
		return slices.Equal(got, want)
	})
}

// queued returns the existing jobs.
func (m *machine) queued() map[string]bool {
	m.Helper()
	ids := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^ +(\d+) `).FindAllStringSubmatch(m.root("qstat", "-u", "*").stdout, -1) {
		ids[match[1]] = true
	}
	return ids
}

// TestScriptsAndRecords submits, copies and deletes jobs at random, and kills the daemon
// meanwhile. Whenever it has begun again, the scripts that are there are those of the jobs.
// At the end all run, each with its script.
func TestScriptsAndRecords(t *testing.T) {
	const rounds, each = 6, 12
	m := newMachine(t, 8)
	out := m.open("out")
	sums, names := variants(m, out)
	m.start()
	u := someUsers(t, 1)[0]
	random := rand.New(rand.NewPCG(11, 12))
	jobs := map[string]string{} // number: script
	for range rounds {
		for range each {
			ids := slices.Sorted(maps.Keys(jobs))
			switch n := random.IntN(4); {
			case n == 0 && len(ids) > 0:
				id := ids[random.IntN(len(ids))]
				if r := m.as(u, "qdel", id); r.status != 0 {
					t.Fatalf("%+v", r)
				}
				delete(jobs, id)
			case n == 1 && len(ids) > 0:
				id := ids[random.IntN(len(ids))]
				r := m.as(u, "qresub", "-h", "u", id)
				copied := regexp.MustCompile(`Your job (\d+) `).FindStringSubmatch(r.stdout)
				if r.status != 0 || copied == nil {
					t.Fatalf("%+v", r)
				}
				jobs[copied[1]] = jobs[id]
			default:
				name := names[random.IntN(len(names))]
				r := m.as(u, "qsub", "-terse", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", name)
				if r.status != 0 {
					t.Fatalf("%+v", r)
				}
				jobs[strings.TrimSpace(r.stdout)] = name
			}
		}
		m.agrees(sums, jobs)
		// The daemon is killed during a submission: qsub repeats the submission, and there is one job.
		cmd := m.command(t.Context(), u, "qsub", "-terse", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", names[random.IntN(len(names))])
		answered := make(chan error, 1)
		var text strings.Builder
		cmd.Stdout = &text
		go func() { answered <- cmd.Run() }()
		m.daemon.Kill()
		m.start()
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		jobs[strings.TrimSpace(text.String())] = cmd.Args[len(cmd.Args)-1]
		m.agrees(sums, jobs)
	}
	if got := m.queued(); len(got) != len(jobs) {
		t.Errorf("%d jobs, expected %d", len(got), len(jobs))
	}
	m.as(u, "qrls", "-u", u.Username)
	m.until("all have run", func() bool { return len(m.queued()) == 0 })
	for id, name := range jobs {
		if got := lines(t, filepath.Join(out, id)); !slices.Equal(got, []string{name}) {
			t.Errorf("job %s has run %q, expected %q", id, got, name)
		}
	}
	m.agrees(sums, nil)
}

// TestScriptsKilledAtEachPoint kills the daemon at each step of keeping and removing scripts,
// and in half of the cases the command, too: nobody asks for the same again.
func TestScriptsKilledAtEachPoint(t *testing.T) {
	programs := t.TempDir()
	testenv.LetIn(t, programs)
	if err := testenv.Build(programs, "failpoint"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../standalone/scripts/scripts.go")
	if err != nil {
		t.Fatal(err)
	}
	points := []string{"standalone-commit", "standalone-committed"}
	for _, match := range regexp.MustCompile(`failpoint\.At\("([^"]+)"\)`).FindAllStringSubmatch(string(text), -1) {
		points = append(points, match[1])
	}
	if len(points) < 6 {
		t.Fatalf("%q", points)
	}
	for _, point := range points {
		for _, count := range []int{1, 2, 4} {
			for _, repeats := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s:%d, repeated %v", point, count, repeats), func(t *testing.T) {
					scriptsKilled(t, programs, fmt.Sprintf("%s:%d", point, count), repeats)
				})
			}
		}
	}
}

func scriptsKilled(t *testing.T, programs, point string, repeats bool) {
	t.Helper()
	m := newMachine(t, 1)
	sums, names := variants(m, m.open("out"))
	t.Setenv("EXECD_FAILPOINT", point)
	usual := m.bin
	m.bin = programs
	m.start()
	m.bin = usual
	_, killed := m.daemon.Process()
	u := someUsers(t, 1)[0]
	met := false
	// do types a command. Where the daemon is killed meanwhile it may not be answered.
	do := func(args ...string) (said string, answered bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := m.command(ctx, u, args[0], args[1:]...)
		var text strings.Builder
		cmd.Stdout = &text
		done := make(chan error, 1)
		go func() { done <- cmd.Run() }()
		for {
			select {
			case err := <-done:
				if err != nil && ctx.Err() == nil {
					t.Fatalf("%q: %v", args, err)
				}
				return strings.TrimSpace(text.String()), err == nil
			case <-killed:
				met, killed = true, nil
				if !repeats {
					cancel()
					done <- <-done
				}
				os.Unsetenv("EXECD_FAILPOINT")
				m.start()
				m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
			}
		}
	}
	jobs := map[string]string{}
	for _, name := range slices.Concat(names, names) {
		id, answered := do("qsub", "-terse", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", name)
		if !answered { // it may be there nevertheless
			for queued := range m.queued() {
				if jobs[queued] == "" {
					id, answered = queued, true
				}
			}
		}
		if answered {
			jobs[id] = name
		}
		if met {
			m.agrees(sums, jobs)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if _, answered := do("qdel", id); answered || !m.queued()[id] {
			delete(jobs, id)
		}
		if met {
			m.agrees(sums, jobs)
		}
	}
	m.agrees(sums, jobs)
	// Files go after the answer, and the daemon may have been killed with the last one.
	for answered := false; !answered; {
		_, answered = do("qstat")
	}
	if !met && strings.HasSuffix(point, ":1") {
		t.Error("it has not come to that")
	}
	m.agrees(sums, jobs)
	if got := m.queued(); len(got) != len(jobs) {
		t.Errorf("%v are there, expected %v", got, jobs)
	}
}
