package clients

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	module "github.com/execd-project/execd/clients/go"
	"github.com/execd-project/execd/internal/testenv"
)

// commandsOf returns a directory with the commands, which run as the user of the clients.
func (s *site) commandsOf() string {
	s.Helper()
	dir := testenv.Open(s.TB, filepath.Join(s.dir, "commands"))
	prefix := ""
	if os.Getuid() == 0 {
		prefix = "setpriv --reuid=" + s.user.Uid + " --regid=" + s.user.Gid + " --clear-groups "
	}
	for _, name := range commands {
		text := "#!/bin/sh\nexec " + prefix + filepath.Join(s.bin, "commands", name) + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program
			s.Fatal(err)
		}
	}
	return dir
}

// environment returns the environment of the clients.
func (s *site) environment() []string {
	return []string{"EXECD_SOCKET=" + s.socket(), "PATH=/usr/bin:/bin", "HOME=" + s.work, "LANG=C.UTF-8"}
}

// TestModuleGo submits, watches and cancels jobs with the Go package, while the daemon is killed.
func TestModuleGo(t *testing.T) {
	s := newSite(t, 8)
	c := &module.Client{Commands: s.commandsOf(), Env: s.environment(), Poll: 200 * time.Millisecond}
	ctx := t.Context()
	submit := func(j *module.Submission) *module.Job {
		t.Helper()
		j.Directory = s.work
		job, err := c.Submit(ctx, j)
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	value := "a, \"b\"\n$c"
	good := submit(&module.Submission{Text: "printf '%s|%s' \"$VALUE\" \"$1\"; echo wrong >&2", Args: []string{"x y"}, Env: map[string]string{"VALUE": value}, Name: "good"})
	bad := submit(&module.Submission{Command: []string{"/bin/sh", "-c", "exit 3"}, PE: "smp", Slots: 2, Resources: map[string]string{"h_rt": "0:10:0"}})
	array := submit(&module.Submission{Script: s.script("-task", "#!/bin/sh\necho task $SGE_TASK_ID\necho error >&2\n"), Tasks: &module.Tasks{First: 1, Last: 5, Step: 2}, Errors: "errors.$TASK_ID", Directory: s.work})
	killed := submit(&module.Submission{Command: []string{"/bin/sleep", "1000"}, Name: "killed"})
	held := submit(&module.Submission{Command: []string{"/bin/true"}, Hold: true, After: []int{killed.ID}})
	s.restart()

	s.until("the job runs", func() bool {
		status, err := c.Status(ctx, killed.ID)
		if err != nil {
			t.Fatal(err)
		}
		return status.Phase == module.Running && status.Tasks[0].Queue == "all.q@node1"
	})
	if status, err := c.Status(ctx, held.ID); err != nil || status.Phase != module.Pending || status.Tasks[0].State != "hqw" {
		t.Errorf("the held job: %+v, %v", status, err)
	}
	if usage, err := c.Usage(ctx, killed.ID); err != nil || len(usage) > 1 {
		t.Errorf("usage: %+v, %v", usage, err)
	}
	if err := c.Cancel(ctx, killed.ID, held.ID); err != nil {
		t.Error(err)
	}
	list, err := c.Wait(ctx, good.ID, bad.ID, array.ID, killed.ID, held.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		succeeded               bool
		records, status, signal int
	}{{true, 1, 0, 0}, {false, 1, 3, 0}, {true, 3, 0, 0}, {false, 1, 137, 9}, {false, 0, 0, 0}} {
		got := list[i]
		if got.Succeeded() != want.succeeded || len(got.Records) != want.records {
			t.Errorf("job %d: %+v", got.ID, got)
			continue
		}
		for _, r := range got.Records {
			if r.ExitStatus != want.status || r.Signal != want.signal || r.Host != "node1" || r.End.Before(r.Start) || r.Start.IsZero() || r.MaxVMem < 0 {
				t.Errorf("job %d: %+v", got.ID, r)
			}
		}
	}
	log := func(job *module.Job, task int) string {
		t.Helper()
		var text strings.Builder
		if err := c.Logs(job, task, &text); err != nil {
			t.Error(err)
		}
		return text.String()
	}
	if got := log(good, 0); got != value+"|x ywrong\n" {
		t.Errorf("the output is %q", got)
	}
	for _, task := range []int{1, 3, 5} {
		if got := log(array, task); got != "task "+strconv.Itoa(task)+"\n" {
			t.Errorf("the output of task %d is %q", task, got)
		}
	}
	if got := s.read("errors.3"); got != "error\n" {
		t.Errorf("standard error of task 3 is %q", got)
	}
	if usage, err := c.Usage(ctx, array.ID); err != nil || len(usage) != 3 || usage[2].Task != 5 {
		t.Errorf("usage: %+v, %v", usage, err)
	}
	if err := c.Logs(held, 0, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the output of a job that did not run: %v", err)
	}

	// Errors have the texts of the commands.
	failed := func(err error, want string) {
		t.Helper()
		if e, ok := errors.AsType[*module.CommandError](err); !ok || e.Status == 0 || !strings.Contains(e.Text, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err = c.Submit(ctx, &module.Submission{Command: []string{"/bin/true"}, Queue: "nosuch.q", Directory: s.work})
	r := s.run("qsub", "-q", "nosuch.q", "-b", "y", "true")
	failed(err, strings.TrimSpace(r.stderr))
	failed(c.Cancel(ctx, 4711), strings.TrimSpace(s.run("qdel", "4711").stdout))
	if _, err := c.Status(ctx, 4711); !errors.Is(err, module.ErrUnknownJob) {
		t.Errorf("the status of no job: %v", err)
	}
	for name, j := range map[string]*module.Submission{
		"nothing to run":         {},
		"two things to run":      {Text: "true", Command: []string{"true"}},
		"a comma in a request":   {Text: "true", Resources: map[string]string{"h_rt": "1,h_vmem=1"}},
		"a colon in a file":      {Text: "true", Output: "a:b"},
		"tasks in reverse order": {Text: "true", Tasks: &module.Tasks{First: 3, Last: 1}},
		"slots of nothing":       {Text: "true", Slots: 2},
		"a variable with =":      {Text: "true", Env: map[string]string{"a=b": "c"}},
	} {
		if _, err := c.Submit(ctx, j); err == nil || errors.As(err, new(*module.CommandError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestModulePython does the same with the Python module.
func TestModulePython(t *testing.T) {
	testenv.Require(t, testenv.Python)
	s := newSite(t, 8)
	script, err := os.ReadFile("testdata/module.py")
	if err != nil {
		t.Fatal(err)
	}
	module, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-W", "error", s.file("module.py", string(script)), s.commandsOf(), s.work)
	cmd.Env = append(s.environment(), "PATH="+os.Getenv("PATH"), "PYTHONPATH="+module)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if lines.Scan() && lines.Text() == "submitted" {
		s.restart()
	}
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	err = cmd.Wait()
	want := "error " + strings.ReplaceAll(strings.TrimSpace(s.run("qsub", "-q", "nosuch.q", "-b", "y", "true").stderr), "\n", "|")
	if err != nil || !slices.Equal(said, []string{want, "good"}) {
		t.Errorf("%v\n%s\n%s, want %q", err, strings.Join(said, "\n"), stderr.String(), want)
	}
}

// TestModulePythonTypes installs the module's wheel, and lets mypy check the module, a program that
// uses it, and wrong uses.
func TestModulePythonTypes(t *testing.T) {
	testenv.Require(t, testenv.Python, testenv.Mypy)
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || err != nil && name != "mypy" {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	wheel, err := filepath.Abs("../../packaging/wheel.py")
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("testdata/module.py")
	if err != nil {
		t.Fatal(err)
	}
	run("python3", wheel, "1.0", dir)
	run("python3", "-m", "venv", "--without-pip", "env")
	packages := strings.TrimSpace(run("env/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
	run("env/bin/python", "-m", "zipfile", "-e", "execd_client-1.0-py3-none-any.whl", packages)
	check := func(paths ...string) string {
		t.Helper()
		return run("mypy", append([]string{"--strict", "--no-error-summary", "--python-executable", "env/bin/python", "--cache-dir", "cache"}, paths...)...)
	}
	if out := check(filepath.Join(packages, "execd_client"), program); out != "" {
		t.Error(out)
	}
	testenv.WriteFile(t, filepath.Join(dir, "wrong.py"), `import execd_client

job: str = execd_client.Client().submit(execd_client.Submission(text="true"))
execd_client.Client().cancel("1")
execd_client.Submission(comand=["true"])
`)
	out := check("wrong.py")
	for _, want := range []string{"wrong.py:3: error", "wrong.py:4: error", "wrong.py:5: error"} {
		if !strings.Contains(out, want) {
			t.Errorf("mypy says %q, want %s", out, want)
		}
	}
}
