package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// refusal is a job that must be refused before anything of it exists.
type refusal struct {
	mode   mode
	files  map[string]string // made before
	args   []string          // of execd run
	status int
	want   []string // all lines on standard error, as patterns
}

func queueFile(lines ...string) map[string]string {
	return map[string]string{"conf/queues/q": plainQueue + strings.Join(lines, "\n") + "\n", "job": "#!/bin/sh\n"}
}

func TestBadInputIsRefusedBeforeAnythingIsMade(t *testing.T) {
	job := map[string]string{"job": "#!/bin/sh\n"}
	script := func(line string) map[string]string {
		return map[string]string{"job": "#!/bin/sh\n# a comment\n" + line + "\necho ran\n"}
	}
	conf := []string{"--conf", "conf", "-cwd", "job"}
	long := strings.Repeat("n", 600)
	for name, c := range map[string]refusal{
		// Users.
		"no such user": {
			asRoot, job,
			[]string{"--as", "nobody-of-that-name", "-cwd", "job"},
			125,
			[]string{`--as nobody-of-that-name: cannot look up user "nobody-of-that-name": unknown`},
		},
		"a user name that would be two fields": {
			asRoot, job,
			[]string{"--as", "alice:x", "-cwd", "job"},
			125,
			[]string{`--as alice:x: cannot look up user "alice:x": unknown`},
		},
		"an empty user name": {
			asRoot, job,
			[]string{"--as", "", "-cwd", "job"},
			2,
			[]string{`--as needs a value: --as USER`, `see execd run --help`},
		},
		"root": {
			asRoot, job,
			[]string{"-cwd", "job"},
			125,
			[]string{`root cannot own a job: submit it as another user \(execd run: --as USER\)`},
		},
		"root by name": {
			asRoot, job,
			[]string{"--as", "root", "-cwd", "job"},
			125,
			[]string{`root cannot own a job: submit it as another user \(execd run: --as USER\)`},
		},
		"user id below min_uid": {
			asRoot, job,
			[]string{"--as", "lowuid", "-cwd", "job"},
			125,
			[]string{`user lowuid has user ID 300, below min_uid 1000: system accounts cannot own jobs`},
		},
		"group id below min_gid": {
			asRoot, job,
			[]string{"--as", "lowgid", "-cwd", "job"},
			125,
			[]string{`user lowgid has group ID 50, below min_gid 1000: system accounts cannot own jobs`},
		},
		"another user without being root": {
			asUser, job,
			[]string{"--as", "root", "-cwd", "job"},
			2,
			[]string{`--as root: only root may run jobs of other users`, `see execd run --help`},
		},

		// Names.
		"an empty name": {
			asUser, job,
			[]string{"-N", "", "job"},
			2,
			[]string{`command line: "-N": the name is empty`},
		},
		"an over-long name": {
			asUser, job,
			[]string{"-N", long, "job"},
			2,
			[]string{`command line: "-N n+": the name has 600 characters, at most 512 are allowed`},
		},
		"a name that leads out of the directory": {
			asUser, job,
			[]string{"-N", "../../etc/x", "job"},
			2,
			[]string{`command line: "-N ../../etc/x": the character '/' is not allowed in a name`},
		},
		"a name with a newline": {
			asUser, job,
			[]string{"-N", "a\nb", "job"},
			2,
			[]string{`command line: "-N a\\nb": the character '\\n' is not allowed in a name`},
		},
		"a NUL byte": {
			asUser, script("#$ -N a\x00b"),
			[]string{"job"},
			2,
			[]string{`job:3: "-N": the value: it contains a NUL byte`},
		},
		"an empty command": {
			asUser, job,
			[]string{""},
			2,
			[]string{`command line: the command is an empty string`},
		},

		// Paths.
		"a relative working directory": {
			asUser, job,
			[]string{"-wd", "here", "job"},
			2,
			[]string{`command line: "-wd here": the working directory is not absolute`},
		},
		"a script that is a directory": {
			asUser,
			map[string]string{"dir/x": ""},
			[]string{"-cwd", "dir"},
			125,
			[]string{`command line: "dir": cannot read the script: open dir: it is a directory, expected a regular file`},
		},
		"a script that does not exist": {
			asUser, nil,
			[]string{"-cwd", "missing"},
			125,
			[]string{`command line: "missing": cannot read the script: open missing: no such file or directory`},
		},
		"the home directory of nobody": {
			asUser, job,
			[]string{"-wd", "~nobody-of-that-name", "job"},
			125,
			[]string{`-wd ~nobody-of-that-name: cannot look up user "nobody-of-that-name": unknown`},
		},
		"an output path beyond all bounds": {
			asUser, job,
			[]string{"-o", "/" + strings.Repeat("x", 5000), "job"},
			2,
			[]string{`command line: "-o /x+": the path has 5001 bytes, at most 4095 are possible`},
		},
		"the same file for input and output": {
			asUser, job,
			[]string{"-cwd", "-i", "f", "-o", "f", "job"},
			125,
			[]string{`-i .*/f: standard input and output are the same file`},
		},
		"--json into a missing directory": {
			asUser, job,
			[]string{"-cwd", "--json", "missing/out", "job"},
			125,
			[]string{`--json missing/out: cannot write there: open .*/missing: no such file or directory`},
		},

		// Values.
		"a wrong time in the script": {
			asUser, script("#$ -l h_rt=1:2:3:4"),
			[]string{"job"},
			2,
			[]string{`job:3: "-l h_rt=1:2:3:4": h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`},
		},
		"a negative size": {
			asUser, job,
			[]string{"-l", "h_vmem=-1G", "job"},
			2,
			[]string{`command line: "-l h_vmem=-1G": h_vmem: "-1G" .*`},
		},
		"a bad range of tasks": {
			asUser, job,
			[]string{"-t", "5-1", "job"},
			2,
			[]string{`command line: "-t 5-1": the range "5-1" ends before it begins`},
		},
		"task 0": {
			asUser, script("#$ -t 0-3"),
			[]string{"job"},
			2,
			[]string{`job:3: "-t 0-3": job rejected: 0 is an invalid task id`},
		},
		"too many tasks": {
			asUser, job,
			[]string{"-cwd", "-t", "1-75001", "job"},
			125,
			[]string{`-t 1-75001:1: the job has 75001 tasks, max_aj_tasks allows 75000`},
		},
		"a bad binding": {
			asUser, job,
			[]string{"-binding", "spiral:3", "job"},
			2,
			[]string{`command line: "-binding spiral:3": .*`},
		},
		"a bad mail address": {
			asUser, job,
			[]string{"-M", "-oQ/tmp", "job"},
			2,
			[]string{`command line: "-M -oQ/tmp": "-oQ/tmp" is not a mail address`},
		},
		"no slots": {
			asUser, job,
			[]string{"-pe", "smp", "0", "job"},
			2,
			[]string{`command line: "-pe smp 0": "job" rejected: pe range must be greater than zero`},
		},
		"too many slots": {
			asUser, job,
			[]string{"-cwd", "-pe", "smp", "9999999", "job"},
			125,
			[]string{`-pe smp 9999999: this host has only \d+ slots`},
		},
		"unknown parallel environment": {
			asUser, job,
			[]string{"-cwd", "-pe", "nosuch", "1", "job"},
			125,
			[]string{`-pe nosuch 1: queue all.q does not offer such a parallel environment; its pe_list is make smp`},
		},
		"unknown checkpointing environment": {
			asUser, job,
			[]string{"-cwd", "-ckpt", "nosuch", "job"},
			125,
			[]string{`-ckpt nosuch: queue all.q does not offer this checkpointing environment; its ckpt_list is NONE`},
		},
		"unknown queue": {
			asUser, job,
			[]string{"-cwd", "--queue", "nosuch", "job"},
			125,
			[]string{`--queue nosuch: there is no such queue; there are all.q`},
		},

		// Configuration.
		"unknown key of a queue": {
			asUser, queueFile("no_such_key x"), conf, 125,
			[]string{`conf/queues/q:4: unknown attribute "no_such_key" of a queue, expected one of queue_conf\(5\)`},
		},
		"wrong time of a queue": {
			asUser, queueFile("h_rt 1:2:3:4"), conf, 125,
			[]string{`conf/queues/q:4: h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`},
		},
		"negative size of a queue": {
			asUser, queueFile("h_vmem -5M"), conf, 125,
			[]string{`conf/queues/q:4: h_vmem: "-5M" .*`},
		},
		"negative slots of a queue": {
			asUser, queueFile("slots -5"), conf, 125,
			[]string{`conf/queues/q:4: slots: "-5" is out of range, expected a number from 0 to 9999999`},
		},
		"relative path of a queue": {
			asUser, queueFile("tmpdir tmp"), conf, 125,
			[]string{`conf/queues/q:4: tmpdir: "tmp" is not an absolute path, expected one that begins with /`},
		},
		"relative prolog": {
			asUser, queueFile("prolog root@bin/prolog"), conf, 125,
			[]string{`conf/queues/q:4: prolog: "root@bin/prolog" is not a command, expected NONE or \[user@\] and an absolute path with arguments`},
		},
		"unknown variable of a prolog": {
			asUser, queueFile("prolog /bin/true $nonsense"), conf, 125,
			[]string{`conf/queues/q:4: prolog: .* has the unknown variable \$nonsense, .*`},
		},
		"NUL byte in a queue": {
			asUser, queueFile("prolog /bin/true\x00"), conf, 125,
			[]string{`conf/queues/q:4: prolog: .* contains the control byte 0x00`},
		},
		"a queue that names a missing environment": {
			asUser,
			map[string]string{
				"conf/queues/q": plainQueue + "pe_list p\n", "conf/pes/other": "pe_name other\n", "job": "",
			},
			conf, 125,
			[]string{`conf/queues/q:4: pe_list: parallel environment "p" does not exist`},
		},
		"host groups in a circle": {
			asUser,
			map[string]string{
				"conf/queues/q": plainQueue + "hostlist @a\n", "job": "",
				"conf/hostgroups/@a": "group_name @a\nhostlist @b\n", "conf/hostgroups/@b": "group_name @b\nhostlist @a\n",
			},
			conf, 125,
			[]string{`conf/hostgroups/@a:2: hostlist: host groups form a circle: @a -> @b -> @a`},
		},
		"an ambiguous setting": {
			asUser,
			map[string]string{
				"conf/queues/q": plainQueue + "hostlist @a @b\nseq_no 0,[@a=1],[@b=2]\n", "job": "",
				"conf/hostgroups/@a": "group_name @a\nhostlist " + hostname() + "\n",
				"conf/hostgroups/@b": "group_name @b\nhostlist " + hostname() + "\n",
			},
			conf, 125,
			[]string{`conf/queues/q:5: seq_no: host ".*" is in @a and @b, which set 1 and 2, and has no own setting`},
		},
		"a file that does not belong there": {
			asUser,
			map[string]string{"conf/quues/q": "", "job": ""},
			conf, 125,
			[]string{`conf/quues: unknown entry of a configuration directory, expected one of .*`},
		},
		"a file that cannot be read": {
			asUser, queueFile("# closed"), conf, 125,
			[]string{`conf/queues/q: cannot read: open queues/q: permission denied`},
		},
		"a configuration that is missing": {
			asUser, job, conf, 125,
			[]string{`--conf conf: cannot read the directory: no such file or directory`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, c.mode)
			for name, text := range c.files {
				path := w.write(t, name, text)
				if strings.Contains(text, "# closed") {
					if err := os.Chmod(path, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.refuse(t, c)
		})
	}
}

func (w *world) refuse(t *testing.T, c refusal) {
	t.Helper()
	before := tree(t, w.dir)
	r := w.run(t, c.args...)
	if r.status != c.status {
		t.Errorf("exit status %d, expected %d", r.status, c.status)
	}
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	for i, line := range lines {
		if i >= len(c.want) || !regexp.MustCompile("^execd run: "+c.want[i]+"$").MatchString(line) {
			t.Errorf("unexpected line %d: %s", i+1, line)
		}
	}
	if len(lines) < len(c.want) {
		t.Errorf("expected %d lines:\n%s", len(c.want), strings.Join(c.want, "\n"))
	}
	if r.stdout != "" {
		t.Errorf("standard output: %s", r.stdout)
	}
	if after := tree(t, w.dir); !slices.Equal(before, after) {
		t.Errorf("files before: %v\nfiles after: %v", before, after)
	}
	if _, err := os.Lstat(w.spool); err == nil {
		t.Errorf("%s was made: %v", w.spool, tree(t, w.spool))
	}
}

// tree lists everything below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size := info.Size()
			if d.IsDir() {
				size = 0 // on a tmpfs it counts the entries
			}
			list = append(list, fmt.Sprintf("%s %s %d", strings.TrimPrefix(path, dir), info.Mode(), size))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

func TestSupervisorIsMissing(t *testing.T) {
	w := inWorld(t, asUser)
	if err := copyFile(base+"/bin/execd", w.dir+"/execd"); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		w.env = setenv(w.env, worldExecd+"="+w.dir+"/execd")
	} else {
		w.exe = w.dir + "/execd"
	}
	w.refuse(t, refusal{args: []string{"-cwd", "-b", "y", "true"}, status: 125, want: []string{
		`cannot execute the supervisor of jobs ".*/sge_shepherd-go": no such file or directory; install sge_shepherd-go into the directory of execd`,
	}})
	w.write(t, "sge_shepherd-go", "not executable")
	w.refuse(t, refusal{args: []string{"-cwd", "-b", "y", "true"}, status: 125, want: []string{
		`cannot execute the supervisor of jobs ".*/sge_shepherd-go": permission denied; install .*`,
	}})
}

// TestNoPasswdEntry checks the error for a user without an entry in passwd(5).
func TestNoPasswdEntry(t *testing.T) {
	testenv.Require(t, testenv.Root)
	w := inWorld(t, asUser)
	w.env = setenv(w.env, worldUser+"=4711")
	w.refuse(t, refusal{args: []string{"-b", "y", "true"}, status: 125, want: []string{`cannot look up uid "4711": unknown`}})
}

// TestFullDisk fills the file system of the spool while a job runs, and before
// the next one.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	w := inWorld(t, asRoot)
	spool := filepath.Dir(w.spool)
	if err := unix.Mount("none", spool, "tmpfs", 0, "size=256k,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(spool, unix.MNT_DETACH) })
	fill := func() {
		t.Helper()
		f, err := os.Create(spool + "/filler")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	fifo(t, w, "fifo")
	job := w.write(t, "job", "#!/bin/sh\necho started\nread x < "+w.dir+"/fifo\nexit 4\n")

	l := w.start(t, "--as", "alice", "-cwd", "--json", "out", job)
	l.expect("^started$")
	fill()
	w.feed(t, "fifo")
	// Room for what becomes of it was taken before it began.
	l.expect(`^execd: job 1 \(job\) ended with exit status 4, after `)
	l.end(4)
	w.gone(t)
	var o outcomeJSON
	if w.outcome(t, "out", &o); o.Failed != 0 || o.ExitStatus != 4 {
		t.Errorf("outcome %+v", o)
	}

	fill()
	r := w.run(t, "--as", "alice", "-cwd", "--json", "out2", job)
	if r.status != 125 || !strings.Contains(r.stderr, "no space left on device") || strings.Contains(r.stdout, "started") {
		t.Errorf("exit status %d, output %s", r.status, r.stderr)
	}
	w.gone(t)
}
