// Probe is a job that reports its environment.
//
// The differential test runs it as a job, inside job scripts, and as prolog, epilog, starter and
// parallel environment procedures, once under the original sge_shepherd and once under this
// project's, and compares the reports. So it must not depend on anything that a shepherd decides:
// the path of the report depends on the path of the program, not on the environment.
//
//	probe LABEL [exit=N] [rerun=N]
//
// writes ../seen/JOB.TASK.LABEL.COUNT.json relative to the program's directory, prints one line to
// stdout and one to stderr, which show the files that these go to, and exits with status N; with
// rerun=N only if the job was not restarted before, so that a job that asks for a rerun gets only
// one.
//
// The report is a JSON object. Process IDs and times are omitted or expressed as relations ("own",
// "ancestor 1"), so that two reports can be compared directly.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func init() { //nolint:gochecknoinits // in main it could be too late
	// The main thread does nothing else while /proc/self/status, which describes that thread, is
	// read: a thread that creates another one has all signals blocked.
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: probe LABEL [exit=N] [rerun=N]")
		os.Exit(2)
	}
	label := os.Args[1]
	// Before any other file is opened, so that the list of descriptors is the one with which this
	// process was started.
	chain, err := ancestry(os.Getpid())
	if err == nil {
		if label == "job" || label == "starter" {
			awaitShepherd(os.Getenv("SGE_JOB_SPOOL_DIR"))
		}
		err = write(label, look(chain))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "probe: %v\n", err)
		os.Exit(3)
	}
	fmt.Fprintf(os.Stdout, "%s to stdout\n", label)
	fmt.Fprintf(os.Stderr, "%s to stderr\n", label)
	os.Exit(status(os.Args[2:], os.Getenv("RESTARTED")))
}

// A report is the result of one run of the probe.
type report struct {
	Processes []process         // this one first, up to, but without, the shepherd
	Shepherd  bool              // whether the chain ends at a process named sge_shep...
	Tmpdir    string            // type, mode and owner of $TMPDIR
	Std       map[string]string // the files behind the descriptors 0, 1, 2: type, mode, owner
	Spool     map[string]string // the files of $SGE_JOB_SPOOL_DIR: type, mode, owner
}

func look(chain []process) report {
	r := report{Std: map[string]string{}, Spool: map[string]string{}, Tmpdir: describe(os.Stat(os.Getenv("TMPDIR")))}
	if last := len(chain) - 1; last > 0 && strings.HasPrefix(chain[last].comm, "sge_shep") {
		chain, r.Shepherd = chain[:last], true
	}
	r.Processes = chain
	for fd := range 3 {
		// os.File.Stat is not usable: package os creates a file for a closed descriptor.
		r.Std[strconv.Itoa(fd)] = describe(os.Stat(fmt.Sprintf("/proc/self/fd/%d", fd)))
	}
	dir := os.Getenv("SGE_JOB_SPOOL_DIR")
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.Spool["error"] = problem(err)
	}
	for _, e := range entries {
		r.Spool[e.Name()] = describe(os.Lstat(filepath.Join(dir, e.Name())))
	}
	return r
}

// awaitShepherd waits for the files that the shepherd writes while the job already runs. Which of
// the two is faster is not a relevant difference.
func awaitShepherd(dir string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-tick.C {
		gid, _ := os.Stat(filepath.Join(dir, "addgrpid"))
		pid, _ := os.Stat(filepath.Join(dir, "job_pid"))
		if gid != nil && gid.Size() > 0 && pid != nil && pid.Size() > 0 {
			return
		}
	}
}

// write stores the report under the first free number, atomically, since the test may read at any
// time and a job may be killed at any time.
func write(label string, r report) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(self)), "seen")
	task := os.Getenv("SGE_TASK_ID")
	if task == "undefined" || task == "" {
		task = "1"
	}
	stem := fmt.Sprintf("%s.%s.%s", cmp.Or(os.Getenv("JOB_ID"), "none"), task, label)
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	for n := 1; ; n++ {
		// Unlike a rename, a hard link fails if the name exists.
		err := os.Link(tmp.Name(), filepath.Join(dir, fmt.Sprintf("%s.%d.json", stem, n)))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// status returns the exit status that the arguments request.
func status(args []string, restarted string) int {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(value)
		if err != nil || key == "rerun" && restarted != "0" {
			continue
		}
		if key == "exit" || key == "rerun" {
			return n
		}
	}
	return 0
}
