package shepherd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// noisy is a procedure that prints more than pipes and buffers hold, and that exits at once if it
// cannot.
const noisy = `set -e
echo "$1 begins" >>%s
/usr/bin/head -c 3000000 /dev/zero
echo text >&2
/usr/bin/head -c 100000 /dev/zero >&2
echo "$1 ends" >>%[1]s`

// TestOutputEndsNoProcedure uses output files of a job that kill or block processes that write to
// them, or make them fail. Procedures must not notice, whatever user they run as, and the job's
// owner gains nothing by killing the writer.
func TestOutputEndsNoProcedure(t *testing.T) {
	for name, c := range map[string]struct {
		plant   func(j *testJob) // makes the file work/file
		waiting bool             // it takes nothing, until somebody gives up
	}{
		"a FIFO whose reader comes and goes": {func(j *testJob) {
			j.fifoAt(j.work + "/file")
			j.besides("/bin/sh", "-c", "while :; do read x </"+j.work+"/file; done")
		}, false},
		"a FIFO whose reader does not read": {func(j *testJob) {
			j.fifoAt(j.work + "/file")
			j.besides("/bin/sh", "-c", "exec 3<>"+j.work+"/file; exec sleep 1000")
			await(j.t, "a reader", func() bool {
				fd, err := unix.Open(j.work+"/file", unix.O_WRONLY|unix.O_NONBLOCK, 0)
				unix.Close(fd)
				return err == nil
			})
		}, true},
		"a device that is full": {func(j *testJob) { j.check(os.Symlink("/dev/full", j.work+"/file")) }, false},
		"a file system that is full": {func(j *testJob) {
			needRoot(j.t)
			j.check(os.Mkdir(j.work+"/fs", 0o755))
			j.check(unix.Mount("tmpfs", j.work+"/fs", "tmpfs", 0, "mode=0777,size=64k"))
			j.t.Cleanup(func() { _ = unix.Unmount(j.work+"/fs", unix.MNT_DETACH) })
			j.check(os.Symlink("fs/file", j.work+"/file"))
		}, false},
		"a file that is larger than h_fsize": {func(j *testJob) {
			j.check(os.WriteFile(j.work+"/file", make([]byte, 100_000), 0o666))
			j.check(os.Chmod(j.work+"/file", 0o666))
			j.d.Limits[job.Fsize] = job.Limit{Soft: 1, Hard: 1}
		}, false},
		"a file that becomes larger than h_fsize": {func(j *testJob) {
			j.d.Limits[job.Fsize] = job.Limit{Soft: 100_000, Hard: 100_000}
		}, false},
		"a terminal that was stopped": {func(j *testJob) {
			master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
			j.check(err)
			j.t.Cleanup(func() { _ = master.Close() })
			n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
			j.check(err)
			j.check(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
			path := fmt.Sprint("/dev/pts/", n)
			j.check(os.Chmod(path, 0o666))
			slave, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
			j.check(err)
			j.t.Cleanup(func() { _ = slave.Close() })
			j.check(unix.IoctlSetInt(int(slave.Fd()), unix.TCXONC, unix.TCOOFF))
			j.check(os.Symlink(path, j.work+"/file"))
		}, true},
	} {
		for _, as := range []string{"", "root@", "site@"} {
			for _, step := range []string{"prolog", "epilog", "pe_start", "pe_stop"} {
				if c.waiting && (as == "site@" || step != "prolog" && step != "pe_stop") {
					continue // each takes its time
				}
				t.Run(name+", "+as+step, func(t *testing.T) {
					t.Parallel()
					m := best()
					if as != "" {
						m = asRoot
					}
					j := newJob(t, m, "exec >/dev/null; echo job >>$LOG")
					c.plant(j)
					if c.waiting {
						j.d.ScriptTimeout = 4 * time.Second // less than a file is waited for
					}
					j.d.Streams[1].Path, j.d.MergeError = j.work+"/file", true
					if name == "a terminal that was stopped" {
						j.d.MergeError = false
						j.d.Streams[2].Path = j.work + "/file"
					}
					j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work + "/file", StderrPath: j.work + "/file"}
					*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[step] = as +
						j.script("procedure", fmt.Sprintf(noisy, j.log)) + " " + step
					j.run()
					j.expect(0)
					want := []string{step + " begins", step + " ends", "job"}
					if step == "epilog" || step == "pe_stop" {
						want = []string{"job", step + " begins", step + " ends"}
					}
					if got := j.logged(); !slices.Equal(got, want) {
						t.Errorf("steps %q, expected %q", got, want)
					}
				})
			}
		}
	}
}

// fifoAt creates a FIFO that everybody may use.
func (j *testJob) fifoAt(path string) {
	j.t.Helper()
	j.check(errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666)))
}

// besides runs a program until the test ends.
func (j *testJob) besides(program ...string) {
	j.t.Helper()
	cmd := exec.Command(program[0], program[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j.check(cmd.Start())
	j.t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
}

// TestOutputArrives checks that the output of procedures is complete and in its place in the files:
// after existing content, and before the output of the next step.
func TestOutputArrives(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		const size = 2_500_000
		printed := func(letter string) string {
			return fmt.Sprintf("/usr/bin/head -c %d /dev/zero | /usr/bin/tr '\\0' %s; echo; echo %[2]s err >&2", size, letter)
		}
		j := newJob(t, m, printed("j"))
		as := ""
		if m != asUser {
			as = "root@"
		}
		j.d.Prolog, j.d.Epilog = as+j.script("prolog", printed("p")), j.script("epilog", printed("e"))
		j.run()
		j.expect(0)
		got, err := os.ReadFile(j.work + "/out")
		j.check(err)
		var want []byte
		for _, letter := range "pje" {
			want = append(append(want, bytes.Repeat([]byte(string(letter)), size)...), '\n')
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of output, expected %d", len(got), len(want))
		}
		if got := j.output("err"); got != "p err\nj err\ne err\n" {
			t.Errorf("standard error %q", got)
		}
		if trace := j.file("trace"); strings.Contains(trace, "lost") {
			t.Error("something is lost")
		}
	})
}

// TestOutputByName checks that procedures can open their standard streams by name, as scripts do.
func TestOutputByName(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "exit 0")
		other := ""
		if m != asUser {
			other = "site@"
		}
		text := "set -e; for i in stdout fd/1 stderr fd/2; do echo $1 $i >/dev/$i; done"
		j.d.Prolog, j.d.Epilog = other+j.script("prolog", text)+" prolog", j.script("epilog", text)+" epilog"
		j.run()
		j.expect(0)
		if got := j.output("out"); got != "prolog stdout\nprolog fd/1\nepilog stdout\nepilog fd/1\n" {
			t.Errorf("standard output %q", got)
		}
		if got := j.output("err"); got != "prolog stderr\nprolog fd/2\nepilog stderr\nepilog fd/2\n" {
			t.Errorf("standard error %q", got)
		}
	})
}

// TestWriterIsTheUsers checks that the writer of a procedure's output runs as the owner of the job,
// without the shepherd's descriptors, and that an owner who kills it loses only the output.
func TestWriterIsTheUsers(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "echo job >>$LOG")
			ready, release := j.fifo("ready"), j.fifo("release")
			j.d.Prolog = "root@" + j.script("prolog", "set -e; echo ready >"+ready.path+"; read x <"+release.path+"; /usr/bin/head -c 1000000 /dev/zero; echo prolog >>"+j.log)
			j.write()
			j.start()
			ready.expect("ready")
			writers := j.copiers()
			if len(writers) != 2 {
				t.Fatalf("processes %v write the output, expected two", writers)
			}
			for _, pid := range writers {
				if got := strings.Fields(status(pid, "Uid")); !slices.Equal(got, []string{"20001", "20001", "20001", "20001"}) {
					t.Errorf("process %d has user ids %q", pid, got)
				}
				if got := status(pid, "CapEff"); strings.Trim(got, "0") != "" {
					t.Errorf("process %d has the capabilities %s", pid, got)
				}
				fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				if err != nil || len(fds) != 2 {
					t.Errorf("process %d has %d descriptors, %v; expected two", pid, len(fds), err)
				}
				kill := exec.Command("/bin/kill", "-KILL", strconv.Itoa(pid))
				kill.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}
				if out, err := kill.CombinedOutput(); err != nil {
					t.Errorf("kill: %v %s", err, out)
				}
			}
			release.say("go")
			j.wait()
			j.expect(0)
			if got := j.logged(); !slices.Equal(got, []string{"prolog", "job"}) {
				t.Errorf("steps %q", got)
			}
			if trace := j.file("trace"); !strings.Contains(trace, "ended by signal KILL; at least ") {
				t.Error("the trace does not say what was lost")
			}
		})
	}
}

// TestDaemonsMayPrint checks that a process that a procedure of another user leaves behind keeps the pipe, and can
// continue to print after the job has finished.
func TestDaemonsMayPrint(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "")
		ready, end, release, said := j.fifo("ready"), j.fifo("end"), j.fifo("release"), j.fifo("said")
		j.d.Command.File = j.script("script", "echo job; echo ready >"+ready.path+"; read x <"+end.path)
		as := ""
		if m != asUser {
			as = "root@"
		}
		j.d.Prolog = as + j.script("prolog", "echo prolog\n(read x <"+release.path+"; set -e; /usr/bin/head -c 1000000 /dev/zero; echo alive >"+said.path+") &")
		j.write()
		j.start()
		ready.expect("ready")
		readers := j.copiers()
		if len(readers) != 2 {
			t.Errorf("processes %v read what nobody wants, expected two", readers)
		}
		end.say("go")
		j.wait()
		j.expect(0)
		if got := j.output("out"); got != "prolog\njob\n" {
			t.Errorf("output %q", got)
		}
		if as != "" { // those of the owner end with the job
			release.say("go")
			said.expect("alive")
		}
		for _, pid := range readers {
			await(t, "the end of who read it", func() bool { return !alive(pid) })
		}
	})
}

// copiers returns the children of the shepherd that have not become another program.
func (j *testJob) copiers() (list []int) {
	for _, pid := range allProcesses() {
		if status(pid, "PPid") == strconv.Itoa(j.cmd.Process.Pid) && strings.HasPrefix(status(pid, "Name"), "sge_shep") {
			list = append(list, pid)
		}
	}
	return list
}

// TestOutputThatTakesItsTime checks that all output arrives, even if it is slow.
func TestOutputThatTakesItsTime(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "exec >/dev/null")
	j.fifoAt(j.work + "/file")
	j.d.Streams[1].Path = j.work + "/file"
	const size = 900_000
	j.d.Prolog = j.script("prolog", fmt.Sprintf("/usr/bin/head -c %d /dev/zero", size))
	j.write()
	j.start()
	f, err := os.Open(j.work + "/file")
	j.check(err)
	defer f.Close()
	j.traced("prolog ended") // before anything is read
	got, buf := 0, make([]byte, 10_000)
	for got < size {
		n, err := f.Read(buf)
		if got += n; err != nil {
			break
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // a slow reader
	}
	if got != size {
		t.Errorf("%d bytes have arrived, expected %d", got, size)
	}
	j.wait()
	j.expect(0)
}

// TestEnvironmentEndsNoProcedure uses a variable that is short enough for the job, but too long for
// a procedure that gets it under a longer name (execve(2), E2BIG).
func TestEnvironmentEndsNoProcedure(t *testing.T) {
	needRoot(t)
	const longest = 128 << 10 // MAX_ARG_STRLEN, with the NUL behind the text
	for _, as := range []string{"root@", "site@"} {
		for _, step := range []string{"prolog", "epilog", "pe_start", "pe_stop"} {
			t.Run(as+step, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, asRoot, "exit 0")
				j.d.Environment = append(j.d.Environment, "X="+strings.Repeat("x", longest-len("X=")-1))
				j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work, StderrPath: j.work}
				*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[step] = as +
					j.script("procedure", "echo runs >>"+j.log)
				j.run()
				j.expect(0)
				if got := j.logged(); !slices.Equal(got, []string{"runs"}) {
					t.Errorf("the procedure has written %q, expected that it runs", got)
				}
			})
		}
	}
}
