package drmaa

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestSoakSnakemake runs workflows with an unchanged Snakemake and --drmaa: one that succeeds, one with a
// rule that fails, one whose job is deleted, and one with 200 jobs, during which the daemon is killed.
func TestSoakSnakemake(t *testing.T) {
	testenv.Soak(t)
	if _, err := exec.LookPath("/usr/bin/snakemake"); err != nil {
		t.Skip("snakemake is not installed (apt-get install --no-install-recommends snakemake python3-drmaa)")
	}
	m := newMachine(t)
	const workflow = `
rule sum:
    input: expand("part{i}.txt", i=range(3))
    output: "sum.txt"
    shell: "cat {input} > {output}"
rule part:
    output: "part{i}.txt"
    shell: "echo {wildcards.i} > {output}; echo x >> started"
rule failing:
    output: "none.txt"
    shell: "exit 3"
rule deleted:
    output: "never.txt"
    shell: "echo x >> sleeping; exec sleep 1000"
rule many:
    input: expand("part{i}.txt", i=range(3, 203))
    output: "many.txt"
    shell: "cat {input} > {output}"
`
	work := testenv.Open(t, filepath.Join(m.dir, "work"))
	testenv.WriteFile(t, filepath.Join(work, "Snakefile"), workflow)
	begin := func(target string) (end func() (string, error)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		cmd := m.command(ctx, "/usr/bin/snakemake", "--latency-wait", "5", "--drmaa", " -V", "--drmaa-log-dir", "logs", "-j", "250", target)
		cmd.Dir = work
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() (string, error) {
			defer cancel()
			err := cmd.Wait()
			return out.String(), err
		}
	}
	lines := func(name string) int {
		text, _ := os.ReadFile(filepath.Join(work, name))
		return bytes.Count(text, []byte("\n"))
	}
	if out, err := begin("sum.txt")(); err != nil || strings.Count(out, "Submitted DRMAA job") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	if sum, err := os.ReadFile(filepath.Join(work, "sum.txt")); err != nil || string(sum) != "0\n1\n2\n" {
		t.Errorf("the result is %q (%v)", sum, err)
	}
	// For DRMAA a job with any exit status is done. Snakemake then notices that the file is
	// missing.
	if out, err := begin("none.txt")(); err == nil || !strings.Contains(out, "MissingOutputException in rule failing") {
		t.Errorf("the failing workflow: %v\n%s", err, out)
	}
	end := begin("never.txt")
	until(m, "the job runs", func() bool { return lines("sleeping") == 1 })
	if text, err := m.command(t.Context(), "execd", "qdel", "-u", m.user.Username).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if out, err := end(); err == nil || !strings.Contains(out, "Error in rule deleted") {
		t.Errorf("the workflow whose job is deleted: %v\n%s", err, out)
	}
	before := lines("started")
	end = begin("many.txt")
	until(m, "a quarter has started", func() bool { return lines("started") >= before+50 })
	m.daemon.Kill()
	m.start()
	if out, err := end(); err != nil || lines("many.txt") != 200 {
		t.Errorf("%v: %d lines\n%s", err, lines("many.txt"), out)
	}
	if n := lines("started") - before; n != 200 {
		t.Errorf("%d jobs have started, want 200", n)
	}
}

// TestGalaxy replays Galaxy's DRMAA runner with a few jobs, and kills the daemon while they run.
func TestGalaxy(t *testing.T) { galaxy(t, 8) }

// TestSoakGalaxy does the same with 200 jobs.
func TestSoakGalaxy(t *testing.T) {
	testenv.Soak(t)
	galaxy(t, 200)
}

func galaxy(t *testing.T, jobs int) {
	m := newMachine(t)
	text, err := os.ReadFile("testdata/galaxy.py")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(m.dir, "galaxy.py") // the user may not be able to read the source tree
	testenv.WriteFile(t, script, string(text))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := m.command(ctx, python, script, strconv.Itoa(jobs))
	cmd.Stderr = &out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "watches" {
		t.Errorf("it prints %q", lines.Text())
	}
	m.daemon.Kill()
	m.start()
	testenv.WriteFile(t, filepath.Join(m.dir, "home/go"), "")
	if !lines.Scan() || lines.Text() != "good" {
		t.Errorf("it prints %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		t.Errorf("%v\n%s", err, out.String())
	}
	m.noHelper(cmd.Process.Pid)
}

// TestSoakLanguages runs a program with python3-drmaa, and one in R that calls the library: a job that
// succeeds, one that fails, one that it deletes, an array job, and 200 jobs at once, before which the
// daemon is killed. R has signal handlers of its own, and forks.
func TestSoakLanguages(t *testing.T) {
	testenv.Soak(t)
	m := newMachine(t)
	for _, name := range []string{"jobs.py", "jobs.R"} { // the user may not be able to read the source tree
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		testenv.WriteFile(t, filepath.Join(m.dir, name), string(text))
	}
	shim := filepath.Join(m.dir, "r.so")
	build := exec.CommandContext(t.Context(), "cc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", "../../clients/drmaa",
		"testdata/r.c", "-o", shim, "-L", m.bin, "-ldrmaa")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, args := range map[string][]string{
		"Python": {python, filepath.Join(m.dir, "jobs.py")},
		"R":      {"/usr/bin/Rscript", filepath.Join(m.dir, "jobs.R"), shim},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(args[0]); err != nil {
				t.Skipf("%s is not installed (apt-get install --no-install-recommends r-base-core)", args[0])
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			started := filepath.Join(m.dir, "home/go")
			_ = os.Remove(started) // the other program's
			cmd := m.command(ctx, args[0], args[1:]...)
			var out bytes.Buffer
			cmd.Stderr = &out
			t.Cleanup(func() {
				if out.Len() > 0 {
					t.Errorf("%s", out.String())
				}
			})
			ready, end := testenv.Begin(t, cmd)
			if ready != "submitted\n" {
				t.Errorf("it prints %q", ready)
			}
			m.daemon.Kill()
			m.start()
			testenv.WriteFile(t, started, "")
			if err := end(); err != nil {
				t.Error(err)
			}
			m.noHelper(cmd.Process.Pid)
		})
	}
}

// TestSoakRuffus runs pipelines with an unchanged Ruffus: 200 jobs at once, during which the daemon is
// killed; jobs that fail; and jobs that are deleted.
func TestSoakRuffus(t *testing.T) {
	testenv.Soak(t)
	if err := exec.Command(python, "-c", "import importlib.util as u, sys; sys.exit(None in map(u.find_spec, ('ruffus', 'gevent')))").Run(); err != nil { //nolint:noctx // it is short
		t.Skip("Ruffus is not installed (apt-get install --no-install-recommends python3-ruffus python3-gevent python3-drmaa)")
	}
	m := newMachine(t)
	const pipeline = `
import os, sys
import drmaa
from ruffus import mkdir, merge, originate, pipeline_run
from ruffus.drmaa_wrapper import run_job

count, command = int(sys.argv[1]), sys.argv[2]
session = drmaa.Session()
session.initialize()

def run(line, name):
    try:
        run_job(cmd_str=line, job_name=name, job_other_options="-V", job_script_directory=".", working_directory=os.getcwd(), drmaa_session=session)
    except Exception as e:
        print("failed:", repr(e), flush=True)
        raise

@originate(["part%d.txt" % i for i in range(count)])
def part(output):
    run("echo x >> started; %s && echo %s > %s" % (command, output, output), "part")

@merge(part, "sum.txt")
def total(inputs, output):
    run("cat %s > %s" % (" ".join(inputs), output), "total")

pipeline_run([total], multithread=count, verbose=0)
session.exit()
`
	begin := func(name string, count int, command string) (work string, out *bytes.Buffer, end func() error) {
		t.Helper()
		work = testenv.Open(t, filepath.Join(m.dir, name))
		script := filepath.Join(work, "pipeline.py")
		testenv.WriteFile(t, script, pipeline)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out = &bytes.Buffer{}
		cmd := m.command(ctx, python, script, strconv.Itoa(count), command)
		cmd.Dir, cmd.Stdout, cmd.Stderr = work, out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return work, out, func() error {
			defer cancel()
			return cmd.Wait()
		}
	}
	started := func(work string) int {
		text, _ := os.ReadFile(filepath.Join(work, "started"))
		return bytes.Count(text, []byte("\n"))
	}

	const many = 200
	work, out, end := begin("many", many, "true")
	until(m, "a quarter has started", func() bool { return started(work) >= many/4 })
	m.daemon.Kill()
	m.start()
	if err := end(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if sum, err := os.ReadFile(filepath.Join(work, "sum.txt")); err != nil || bytes.Count(sum, []byte("\n")) != many {
		t.Errorf("the result is %q (%v)", sum, err)
	}
	if n := started(work); n != many {
		t.Errorf("%d jobs have started, want %d", n, many)
	}

	_, out, end = begin("failing", 3, "(exit 3)")
	// For DRMAA a job with any exit status is done. Ruffus then notices that the file is missing.
	if err := end(); err == nil || !strings.Contains(out.String(), "Input file 'part0.txt' does not exist") {
		t.Errorf("jobs that fail: %v\n%s", err, out)
	}

	work, out, end = begin("deleted", 3, "sleep 1000")
	until(m, "the jobs run", func() bool { return started(work) == 3 })
	if text, err := m.command(t.Context(), "execd", "qdel", "part").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if err := end(); err == nil || !strings.Contains(out.String(), "failed:") {
		t.Errorf("jobs that are deleted: %v\n%s", err, out)
	}
}
