package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/vm/guest"
	"github.com/execd-project/execd/test/vm/plan"
)

// TestVM starts the guests of the table, and passes on the results of the tests in them:
// TestVM/GUEST/PACKAGE/TEST.
func TestVM(t *testing.T) {
	testenv.RequireGuests(t)
	bootAll(t, func(m machine) bool { return !m.soak })
}

func TestSoakVM(t *testing.T) {
	testenv.Soak(t)
	testenv.Require(t, testenv.VM)
	bootAll(t, func(m machine) bool { return m.soak })
}

// bootAll boots one guest after another: each uses all processors, and tests measure time. Guests
// with tests that mostly wait run in parallel with them.
func bootAll(t *testing.T, want func(machine) bool) {
	b := &builder{dir: t.TempDir()}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, waits := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(machines)) {
			m := machines[name]
			if !want(m) || m.waits != waits {
				continue
			}
			run := func() { t.Run(name, func(t *testing.T) { boot(t, b, m) }) }
			if waits {
				waiting.Go(run)
			} else {
				run()
			}
		}
	}
}

// home is where the packages are in the guest: tests find their testdata, and each
// other by relative paths.
const home = "/execd"

// boot starts one guest.
func boot(t *testing.T, b *builder, m machine) {
	m.Files = maps.Clone(m.Files)
	if m.Files == nil {
		m.Files = map[string]string{}
	}
	var steps []guest.Step
	for _, s := range m.steps {
		dir := path.Join(home, s.pkg)
		program := path.Join(dir, path.Base(s.pkg)+".test")
		m.Files[program] = b.test(t, s.pkg, s.failpoints)
		if testdata := filepath.Join(moduleRoot, s.pkg, "testdata"); isDir(testdata) {
			m.Files[path.Join(dir, "testdata")] = testdata
		}
		env := slices.Concat(environment(m), s.env)
		if s.programs {
			m.Files[home+"/bin"] = b.programs(t)
			env = append(env, testenv.ProgramsEnv+"="+home+"/bin")
		}
		if s.gridEngine {
			testenv.Require(t, testenv.GridEngine)
			maps.Copy(m.Files, gridEngine(t))
		}
		steps = append(steps, guest.Step{
			Step: plan.Step{
				Argv: append([]string{program}, flags(m, s)...),
				Dir:  dir, Env: env, User: s.user, Properties: s.properties,
			},
		})
	}
	begin := time.Now()
	if m.cut {
		cut(t, &m, steps)
	}
	results, outputs, err := attempt(t, m, steps)
	all := time.Since(begin)
	var inside time.Duration
	for i, s := range m.steps {
		status := -1
		if i < len(results) {
			status = results[i].Status
			inside += results[i].Elapsed
		}
		name := s.pkg
		if s.user != "" {
			name += " as " + s.user
		}
		t.Run(strings.ReplaceAll(name, "/", "."), func(t *testing.T) {
			if i > len(results) {
				t.Skip("the guest has ended before")
			}
			if i < len(results) {
				t.Attr("took", fmt.Sprintf("%.1f s", results[i].Elapsed.Seconds()))
			}
			replay(t, outputs[i].Bytes(), status)
		})
	}
	if err != nil {
		t.Error(err)
	}
	t.Attr("took", fmt.Sprintf("%.1f s, the tests %.1f s of it", all.Seconds(), inside.Seconds()))
}

// attempt boots a guest, and once more if its kernel hung: where several processors are
// emulated by several threads, one of them loses its way at times, mostly when
// the kernel changes its own code (for an eBPF program). A test cannot do that to it.
func attempt(t *testing.T, m machine, steps []guest.Step) (results []guest.Result, outputs []bytes.Buffer, err error) {
	for range 2 {
		outputs = make([]bytes.Buffer, len(steps))
		for i := range steps {
			steps[i].Output = &outputs[i]
		}
		results, err = m.Run(t.Context(), steps...)
		if err == nil || !strings.Contains(err.Error(), "soft lockup") {
			break
		}
		t.Logf("the guest's kernel hung: %v", err)
	}
	return results, outputs, err
}

// errCut is the cause of the end of a guest that has lost its power.
var errCut = errors.New("the power was cut")

// cut gives a guest a disk, runs its first step until that asks for it, and kills the guest. What the guest has not
// written to the disk is lost.
func cut(t *testing.T, m *machine, steps []guest.Step) {
	t.Helper()
	const size = 512 << 20
	m.Disk = filepath.Join(t.TempDir(), "disk")
	for range 2 { // see attempt
		if err := errors.Join(os.RemoveAll(m.Disk), os.WriteFile(m.Disk, nil, 0o600), os.Truncate(m.Disk, size)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		output := &awaited{text: testenv.CutPower, found: func() { cancel(errCut) }}
		first := steps[0]
		first.Output = output
		_, err := m.Run(ctx, first)
		cancel(nil)
		if errors.Is(err, errCut) {
			return
		}
		t.Logf("the first step did not ask to cut the power: %v\n%s", err, &output.Buffer)
	}
	t.FailNow()
}

// awaited calls a function when a text has been written to it.
type awaited struct {
	bytes.Buffer

	text  string
	found func()
}

func (a *awaited) Write(b []byte) (int, error) {
	n, err := a.Buffer.Write(b)
	if strings.Contains(a.String(), a.text) {
		a.found()
	}
	return n, err
}

// environment returns the requirements for which tests in a guest must not skip.
func environment(m machine) []string {
	needs := []string{string(testenv.Cgroup), string(testenv.Guest)}
	if m.Systemd {
		needs = append(needs, string(testenv.Systemd))
	}
	env := []string{testenv.Env + "=" + strings.Join(needs, ",")}
	if m.soak {
		env = append(env, testenv.SoakEnv+"=1")
	}
	return env
}

func flags(m machine, s step) []string {
	f := []string{
		"-test.v=test2json", "-test.paniconexit0",
		// Before the guest's own end, so that it says where it hangs.
		fmt.Sprintf("-test.timeout=%v", m.Timeout*3/4),
	}
	if !m.soak {
		f = append(f, "-test.short")
	}
	if s.run != "" {
		f = append(f, "-test.run="+s.run)
	}
	if s.skip != "" {
		f = append(f, "-test.skip="+s.skip)
	}
	return f
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
