package shepherd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// sayBoth returns a step that writes its name to both of its outputs.
func sayBoth(name string) string { return "echo " + name + " out; echo " + name + " err >&2" }

// TestOutputFiles checks which lines go to which file below the working directory.
func TestOutputFiles(t *testing.T) {
	job1 := map[string]string{"name.oID": "prolog out,job out,epilog out", "name.eID": "prolog err,job err,epilog err"}
	for name, c := range map[string]struct {
		edit func(d *job.Description, work string)
		want map[string]string
	}{
		"default names in the working directory": {
			func(d *job.Description, work string) { d.Streams[1].Path, d.Streams[2].Path = "", "" }, job1,
		},
		"default names in directories": {
			func(d *job.Description, work string) { d.Streams[1].Path, d.Streams[2].Path = work+"/", work+"/dir" },
			map[string]string{"name.oID": "prolog out,job out,epilog out", "dir/name.eID": "prolog err,job err,epilog err"},
		},
		"a link to a directory": {
			func(d *job.Description, work string) { d.Streams[1].Path, d.Streams[2].Path = work+"/link", "" },
			map[string]string{"dir/name.oID": "prolog out,job out,epilog out", "name.eID": "prolog err,job err,epilog err"},
		},
		"names of an array task": {
			func(d *job.Description, work string) { d.Streams[1].Path, d.Streams[2].Path, d.ID.Task = "", "", 12 },
			map[string]string{"name.oID.12": "prolog out,job out,epilog out", "name.eID.12": "prolog err,job err,epilog err"},
		},
		"files": {
			func(d *job.Description, work string) { d.Streams[2].Path = work + "/dir/e" },
			map[string]string{"out": "prolog out,job out,epilog out", "dir/e": "prolog err,job err,epilog err"},
		},
		"-j y": {
			func(d *job.Description, work string) { d.MergeError = true; d.Streams[2].Path = "/no/such/path" },
			map[string]string{"out": "prolog out,prolog err,job out,job err,epilog out,epilog err"},
		},
		"-j y with a directory": {
			func(d *job.Description, work string) { d.MergeError = true; d.Streams[1].Path = "" },
			map[string]string{"name.oID": "prolog out,prolog err,job out,job err,epilog out,epilog err"},
		},
		"both in one file": {
			func(d *job.Description, work string) { d.Streams[2].Path = d.Streams[1].Path },
			map[string]string{"out": "prolog out,prolog err,job out,job err,epilog out,epilog err"},
		},
		"a PE with a directory": {
			func(d *job.Description, work string) {
				d.Streams[1].Path, d.Streams[2].Path = "", ""
				d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: work, StderrPath: work + "/dir"}
			},
			map[string]string{
				"name.oID": "prolog out,job out,epilog out", "name.eID": "prolog err,job err,epilog err",
				"name.poID": "pe_start out,pe_stop out", "dir/name.peID": "pe_start err,pe_stop err",
			},
		},
		"a PE of an array task": {
			func(d *job.Description, work string) {
				d.ID.Task = 3
				d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: work, StderrPath: work}
			},
			map[string]string{
				"out": "prolog out,job out,epilog out", "err": "prolog err,job err,epilog err",
				"name.poID.3": "pe_start out,pe_stop out", "name.peID.3": "pe_start err,pe_stop err",
			},
		},
		"a PE with a file": {
			func(d *job.Description, work string) {
				d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: work + "/out", StderrPath: work + "/err"}
			},
			map[string]string{
				"out": "prolog out,pe_start out,job out,pe_stop out,epilog out",
				"err": "prolog err,pe_start err,job err,pe_stop err,epilog err",
			},
		},
		"a PE and -j y": {
			func(d *job.Description, work string) {
				d.MergeError = true
				d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: work, StderrPath: work}
			},
			map[string]string{
				"out":       "prolog out,prolog err,job out,job err,epilog out,epilog err",
				"name.poID": "pe_start out,pe_start err,pe_stop out,pe_stop err",
			},
		},
		"paths with blanks, newlines excepted": {
			func(d *job.Description, work string) { d.Streams[1].Path = work + "/o u\tt" },
			map[string]string{"o u\tt": "prolog out,job out,epilog out", "err": "prolog err,job err,epilog err"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), sayBoth("job"))
			_, uid, gid := owner()
			j.check(os.Mkdir(j.work+"/dir", 0o755))
			if private {
				j.check(os.Chown(j.work+"/dir", uid, gid))
			}
			j.check(os.Symlink("dir", j.work+"/link"))
			c.edit(j.d, j.work)
			as := ""
			if private {
				as = "root@"
			}
			j.d.Prolog, j.d.Epilog = as+j.script("prolog", sayBoth("prolog")), j.script("epilog", sayBoth("epilog"))
			if j.d.PE != nil {
				j.d.PE.Start, j.d.PE.Stop = as+j.script("pe_start", sayBoth("pe_start")), j.script("pe_stop", sayBoth("pe_stop"))
			}
			j.run()
			j.expect(0)
			got := map[string]string{}
			j.check(filepath.WalkDir(j.work, func(path string, e os.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				name := strings.ReplaceAll(strings.TrimPrefix(path, j.work+"/"), fmt.Sprint(j.d.ID.Job), "ID")
				got[name] = strings.ReplaceAll(strings.TrimSuffix(string(b), "\n"), "\n", ",")
				var st syscall.Stat_t
				if err := syscall.Stat(path, &st); err != nil || int(st.Uid) != uid || int(st.Gid) != gid || st.Mode&0o7777 != 0o644 {
					t.Errorf("%s has owner %d:%d and mode 0%o, want %d:%d and 0644", name, st.Uid, st.Gid, st.Mode&0o7777, uid, gid)
				}
				return err
			}))
			for file, want := range c.want {
				if got[file] != want {
					t.Errorf("%s has %q, want %q", file, got[file], want)
				}
				delete(got, file)
			}
			if len(got) > 0 {
				t.Errorf("there are also %v", got)
			}
		})
	}
}

// TestFilesThatCannotBe checks files that a job requests and that cannot be opened: this is always
// the job's error, whichever step notices it first.
func TestFilesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(j *testJob)
		failed job.Failed
		says   string
	}{
		"no such directory for the output": {func(j *testJob) { j.d.Streams[1].Path = "/no/such/out" }, 26, "/no/such/out"},
		"no such directory for the errors": {func(j *testJob) { j.d.Streams[2].Path = "/no/such/err" }, 26, "/no/such/err"},
		"a directory where the user may not write": {
			func(j *testJob) { j.d.Streams[1].Path = j.readOnly("readonly") + "/out" }, 26, "permission denied",
		},
		"a directory where the user may not write, default name": {
			func(j *testJob) { j.d.Streams[1].Path = j.readOnly("readonly") }, 26, "name.o",
		},
		"a file where a directory should be": {func(j *testJob) { j.d.Streams[1].Path = j.log + "/out" }, 26, "not a directory"},
		"no such input":                      {func(j *testJob) { j.d.Streams[0].Path = "/no/such/in" }, 26, "/no/such/in"},
		"an input that is a directory":       {func(j *testJob) { j.d.Streams[0].Path = j.work }, 26, "is a directory"},
		"an input that is a link to a directory": {
			func(j *testJob) {
				j.check(os.Symlink("/tmp", j.top+"/link"))
				j.d.Streams[0].Path = j.top + "/link"
			}, 26, "is a directory",
		},
		"an input that may not be read": {
			func(j *testJob) {
				path := j.script("secret", "")
				j.check(os.Chmod(path, 0))
				j.d.Streams[0].Path = path
			}, 26, "permission denied",
		},
		"no such working directory": {func(j *testJob) { j.d.Cwd = "/no/such/cwd" }, 28, "/no/such/cwd"},
		"a working directory that may not be entered": {
			func(j *testJob) {
				j.d.Cwd = j.readOnly("closed")
				j.check(os.Chmod(j.d.Cwd, 0o600))
			}, 28, "permission denied",
		},
		"a working directory that is a file": {func(j *testJob) { j.d.Cwd = j.log }, 28, "not a directory"},
		"a device that is not a file":        {func(j *testJob) { j.d.Streams[1].Path = "/proc/self/none" }, 26, "/proc/self/none"},
		"a path that is too long":            {func(j *testJob) { j.d.Streams[1].Path = "/" + strings.Repeat("x", 300) }, 26, "too long"},
		"a link that leads nowhere":          {func(j *testJob) { j.loop(); j.d.Streams[1].Path = j.top + "/loop" }, 26, "loop"},
	} {
		for _, prolog := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, prolog %v", name, prolog), func(t *testing.T) {
				t.Parallel()
				j := newJob(t, best(), "echo job >>$LOG")
				if !private && os.Geteuid() == 0 {
					t.Skip("root may do everything")
				}
				c.edit(j)
				if prolog {
					as := ""
					if private {
						as = "root@" // the files are the owner's all the same
					}
					j.d.Prolog = as + j.script("prolog", "echo prolog >>"+j.log)
				}
				j.d.Epilog = j.script("epilog", "echo epilog >>"+j.log)
				// Input is the job's own affair: its prolog has /dev/null.
				ofJob := j.d.Streams[0].Path != ""
				j.run()
				if got := j.failed(); got != c.failed {
					t.Errorf("failed %d, want %d", got, c.failed)
				}
				j.expectError(c.says)
				if j.usage() != nil {
					t.Error("there is a usage file")
				}
				got := strings.Join(j.logged(), " ")
				if slices.Contains(strings.Fields(got), "job") || (strings.Contains(got, "prolog") != (prolog && ofJob)) {
					t.Errorf("steps %q", got)
				}
			})
		}
	}
}

// readOnly creates a directory that the owner of the job may not write to.
func (j *testJob) readOnly(name string) string {
	path := j.top + "/" + name
	j.check(os.Mkdir(path, 0o555))
	return path
}

func (j *testJob) loop() { j.check(os.Symlink("loop", j.top+"/loop")) }

// TestOutputIsOpenedAsTheOwner checks that the output of a root@ prolog fails for a file that only
// root may write, and that the file stays unchanged.
func TestOutputIsOpenedAsTheOwner(t *testing.T) {
	needRoot(t)
	for name, plant := range map[string]func(j *testJob, target string){
		"a file of root's": func(j *testJob, target string) { j.d.Streams[1].Path = target },
		"a link to one":    func(j *testJob, target string) { j.check(os.Symlink(target, j.work+"/out")) },
		"the default name": func(j *testJob, target string) {
			j.d.Streams[1].Path = ""
			j.check(os.Symlink(target, fmt.Sprintf("%s/name.o%d", j.work, j.d.ID.Job)))
		},
		"a file of the job's spool": func(j *testJob, target string) { j.d.Streams[1].Path = j.active + "/exit_status" },
	} {
		for _, m := range []mode{asRoot, asAdmin} {
			t.Run(name+" "+string(m), func(t *testing.T) {
				t.Parallel()
				j := newJob(t, m, "echo job")
				target := j.top + "/roots"
				j.check(os.WriteFile(target, []byte("untouched\n"), 0o644))
				plant(j, target)
				j.d.Prolog = "root@" + j.script("prolog", "echo prolog")
				j.run()
				j.expect(26)
				if b, _ := os.ReadFile(target); string(b) != "untouched\n" {
					t.Errorf("the file of root has %q", b)
				}
			})
		}
	}
}

func TestOutputIsAppended(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "echo job; echo job >&2")
	_, uid, gid := owner()
	for _, name := range []string{"out", "err"} {
		j.check(os.WriteFile(j.work+"/"+name, []byte("before\n"), 0o600))
		if private {
			j.check(os.Chown(j.work+"/"+name, uid, gid))
		}
	}
	j.run()
	j.expect(0)
	for _, name := range []string{"out", "err"} {
		if got := j.output(name); got != "before\njob\n" {
			t.Errorf("%s has %q", name, got)
		}
		if fi, err := os.Stat(j.work + "/" + name); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s has mode %v, want what it was", name, fi.Mode())
		}
	}
}

// TestStreamVariables checks the variables with the paths of the streams.
func TestStreamVariables(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(d *job.Description, work string)
		out  string // % for the number of the job
		err  string
	}{
		"files":                         {func(d *job.Description, work string) {}, "/out", "/err"},
		"directories":                   {func(d *job.Description, work string) { d.Streams[1].Path, d.Streams[2].Path = "", work }, "/name.o%", "/name.e%"},
		"-j y":                          {func(d *job.Description, work string) { d.MergeError = true }, "/out", "/out"},
		"-j y with a directory":         {func(d *job.Description, work string) { d.MergeError = true; d.Streams[1].Path = "" }, "/name.o%", "/name.o%"},
		"a file that is made by prolog": {func(d *job.Description, work string) { d.Streams[1].Path = work + "/new" }, "/new", "/err"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			show := `echo "$SGE_STDIN_PATH $SGE_STDOUT_PATH $SGE_STDERR_PATH $SGE_CWD_PATH" >>$LOG`
			j := newJob(t, best(), show)
			j.check(os.WriteFile(j.work+"/in", nil, 0o644))
			j.d.Streams[0].Path = j.work + "/in"
			c.edit(j.d, j.work)
			j.d.Prolog = j.script("prolog", show)
			j.run()
			j.expect(0)
			id := fmt.Sprint(j.d.ID.Job)
			rest := " " + j.work + strings.ReplaceAll(c.out, "%", id) + " " + j.work + strings.ReplaceAll(c.err, "%", id) + " " + j.work
			if got, want := j.logged(), []string{"/dev/null" + rest, j.work + "/in" + rest}; !slices.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
		})
	}
}

// TestFifoWithoutReader uses a job that blocks in the kernel on its output file before its program
// is executed. It can still be killed.
func TestFifoWithoutReader(t *testing.T) {
	for name, end := range map[string]func(j *testJob){
		"by a request":                     func(j *testJob) { j.signal(unix.SIGTSTP) },
		"by a terminate_method of SIGTERM": func(j *testJob) { j.signal(unix.SIGTSTP) },
		"by h_rt":                          func(j *testJob) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "echo job >>$LOG")
			j.check(unix.Mkfifo(j.work+"/fifo", 0o666))
			j.check(os.Chmod(j.work+"/fifo", 0o666))
			j.d.Streams[1].Path = j.work + "/fifo"
			var signal int
			failed := job.Failed(0)
			switch name {
			case "by h_rt":
				j.d.Limits[job.RT] = job.Limit{Soft: 1, Hard: 1}
				failed = 37
			case "by a terminate_method of SIGTERM":
				j.d.TerminateMethod = "SIGTERM"
				signal = 15
			default:
				signal = 9
			}
			j.write()
			j.start()
			j.traced("job starts")
			end(j)
			j.wait()
			j.expect(failed)
			if signal != 0 {
				j.expectUsage(128+signal, signal)
			} else {
				j.expectUsage(137, 0)
			}
			if got := j.logged(); got[0] != "" {
				t.Errorf("the job ran: %q", got)
			}
			j.nothingLeft()
		})
	}
	t.Run("a reader lets it go on", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, best(), "echo hello")
		f := j.fifo("reader")
		j.check(f.f.Close())
		j.d.Streams[1].Path = f.path
		j.write()
		j.start()
		j.traced("job starts")
		r, err := os.Open(f.path)
		j.check(err)
		defer r.Close()
		if s, err := bufio.NewReader(r).ReadString('\n'); s != "hello\n" {
			t.Errorf("read %q, %v", s, err)
		}
		j.wait()
		j.expect(0)
	})
	// What the user has chosen must not put the queue into the error state.
	t.Run("a prolog that waits for it", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, best(), "echo job >>$LOG")
		j.check(unix.Mkfifo(j.work+"/fifo", 0o666))
		j.check(os.Chmod(j.work+"/fifo", 0o666))
		j.d.Streams[1].Path = j.work + "/fifo"
		j.d.Prolog = j.script("prolog", "echo prolog >>"+j.log)
		j.d.ScriptTimeout = 300 * time.Millisecond
		j.run()
		j.expect(26)
		j.expectError("prolog")
		if got := j.logged(); got[0] != "" {
			t.Errorf("steps %q", got)
		}
	})
}

// TestInheritedStreams checks the streams of a job in the foreground.
func TestInheritedStreams(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "cat; echo job; echo job >&2; echo $SGE_STDOUT_PATH")
	j.d.Prolog = j.script("prolog", "cat; echo prolog")
	for i := range j.d.Streams {
		j.d.Streams[i] = job.Stream{Inherit: true}
	}
	in, out := j.fifo("in"), j.fifo("out")
	in.say("input")
	j.write()
	r, err := os.OpenFile(in.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	j.check(err)
	j.check(unix.SetNonblock(int(r.Fd()), false))
	_ = in.f.Close() // so that there is an end
	j.stdin, j.stdout = r, out.f
	j.start()
	out.expect("prolog")
	out.expect("input")
	out.expect("job")
	out.expect("/dev/stdout")
	j.wait()
	j.expect(0)
	b, err := os.ReadFile(j.top + "/stderr")
	if string(b) != "job\n" {
		t.Errorf("standard error %q, %v", b, err)
	}
	_, _ = io.Copy(io.Discard, r)
}
