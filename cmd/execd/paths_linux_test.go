package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlantedTmpdir creates the TMPDIR of the next job in advance: its name follows from the job
// number.
func TestPlantedTmpdir(t *testing.T) {
	for name, plant := range map[string]string{
		"an open directory with programs":      `mkdir 1.1.q; chmod 777 1.1.q; printf '#!/bin/sh\necho BREACH\n' > 1.1.q/ls; chmod 755 1.1.q/ls`,
		"a link to a directory of root":        `ln -s ../victim 1.1.q`,
		"a link to a directory of the user":    `ln -s ../alices 1.1.q`,
		"a link to nothing":                    `ln -s /nowhere/at/all 1.1.q`,
		"a file":                               `echo x > 1.1.q`,
		"a pipe":                               `mkfifo 1.1.q`,
		"a directory that only looks harmless": `mkdir 1.1.q; chmod 700 1.1.q`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, asRoot)
			w.write(t, "conf/queues/q", plainQueue+"tmpdir "+w.dir+"/tmp\n")
			w.write(t, "alices/file", "alice's\n")
			victim := w.rootFile(t, "victim/file", "precious\n", 0o644)
			if err := os.Chown(w.dir, 0, 0); err != nil { // nor may alice exchange the tmpdir
				t.Fatal(err)
			}
			tmp := w.dir + "/tmp"
			if err := os.Mkdir(tmp, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
				t.Fatal(err)
			}
			if out, err := asBob(t, "cd "+tmp+" && "+plant); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			before := tree(t, w.dir)
			job := w.rootFile(t, "job", attempts+`
set -- $(ls -nd "$TMPDIR")
[ "$1 $3" = "drwx------ 20001" ] || echo "BREACH: TMPDIR is $1 of $3"
[ -z "$(/bin/ls -A "$TMPDIR")" ] || echo "BREACH: something is in TMPDIR"
case $PATH in $TMPDIR:*) ;; *) echo "BREACH: PATH is $PATH";; esac
[ "$TMPDIR" != `+tmp+`/1.1.q ] || echo "BREACH: the name was taken"
echo mine > "$TMPDIR"/file || exit 1
echo over
`, 0o644)
			before = append(before, tree(t, job)...)
			attacked(t, w.run(t, "--as", "alice", "-wd", "/", "--conf", w.dir+"/conf", job), 0)
			unchanged(t, victim, "precious\n")
			if info, err := os.Lstat(filepath.Dir(victim)); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("the directory of the victim: %v, %v", info, err)
			}
			after := tree(t, w.dir)
			if len(after) != len(before) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			for _, line := range before[:len(before)-1] {
				if !slices.Contains(after, line) {
					t.Errorf("changed or gone: %s", line)
				}
			}
		})
	}
}

// TestExchangedTmpdir replaces the TMPDIR of a job as its owner.
func TestExchangedTmpdir(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim/file", "precious\n", 0o644)
	job := w.write(t, "job", `#!/bin/sh
ln -s `+w.dir+`/victim $TMPDIR/link
mkdir -p $TMPDIR/a/b && ln -s / $TMPDIR/a/b/root && chmod 0 $TMPDIR/a
ln `+w.dir+`/job $TMPDIR/hard
`)
	if r := w.run(t, "--as", "alice", "-cwd", job); r.status != 0 || strings.Contains(r.stderr, "cannot") {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	unchanged(t, victim, "precious\n")
	if _, err := os.Stat(job); err != nil {
		t.Error(err)
	}
	job = w.write(t, "job", `#!/bin/sh
echo $TMPDIR
mv $TMPDIR $TMPDIR.moved && ln -s `+w.dir+`/victim $TMPDIR
`)
	r := w.run(t, "--as", "alice", "-cwd", job)
	tmpdir := strings.TrimSpace(r.stdout)
	defer os.Remove(tmpdir)
	defer os.RemoveAll(tmpdir + ".moved")
	if r.status != 0 || !strings.Contains(r.stderr, "execd: job 2: cannot remove "+tmpdir+": it is not the directory that was made for the job") {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	unchanged(t, victim, "precious\n")
	w.gone(t)
}

// TestLinksInPaths checks that links of a user lead only to files that the user can reach.
func TestLinksInPaths(t *testing.T) {
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim", "precious\n", 0o644)
	secret := w.rootFile(t, "secret", "root's alone\n", 0o600)
	closed := w.dir + "/closed"
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	links := w.dir + "/links"
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"victim": victim, "secret": secret, "closed": closed, "loop": "loop", "passwd": "/etc/passwd"} {
		if err := os.Symlink(to, links+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	w.own(t, links)
	job := w.rootFile(t, "job", "#!/bin/sh\necho written\necho written >&2\ncat\necho started > "+w.dir+"/home/started\n", 0o644)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"-o to a file of root":               {[]string{"-cwd", "-o", "links/victim"}, "cannot open standard output .*links/victim: permission denied"},
		"-e to a file of root":               {[]string{"-cwd", "-e", "links/victim"}, "cannot open standard error .*links/victim: permission denied"},
		"-o -j y to /etc/passwd":             {[]string{"-cwd", "-j", "y", "-o", "links/passwd"}, "cannot open standard output"},
		"-o into a closed directory":         {[]string{"-cwd", "-o", "links/closed/new"}, "cannot open standard output .*permission denied"},
		"-o is a closed directory":           {[]string{"-cwd", "-o", "links/closed"}, "cannot open standard output .*permission denied"},
		"-o in a circle":                     {[]string{"-cwd", "-o", "links/loop"}, "too many levels of symbolic links"},
		"-i from a secret":                   {[]string{"-cwd", "-i", "links/secret"}, "cannot open standard input .*links/secret: permission denied"},
		"-wd to a closed directory":          {[]string{"-wd", links + "/closed"}, "cannot change into working directory .*permission denied"},
		"output below a link that is closed": {[]string{"-wd", links + "/closed", "-o", "x"}, "cannot change into working directory .*permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.run(t, append(append([]string{"--as", "alice"}, c.args...), job)...)
			if r.status != 125 || !matches(c.want, r.stderr) || r.stdout != "" {
				t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
			}
			if _, err := os.Stat(w.dir + "/home/started"); err == nil {
				t.Error("the job ran")
			}
			unchanged(t, victim, "precious\n")
			if names, err := os.ReadDir(closed); err != nil || len(names) > 0 {
				t.Errorf("in the closed directory: %v, %v", names, err)
			}
		})
	}

	// A link to what is the user's own is the user's own matter.
	own := w.write(t, "home/own", "")
	if err := os.Symlink(own, links+"/own"); err != nil {
		t.Fatal(err)
	}
	if r := w.run(t, "--as", "alice", "-cwd", "-o", "links/own", job); r.status != 0 {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	if b, _ := os.ReadFile(own); string(b) != "written\n" {
		t.Errorf("the job has written %q", b)
	}
}

// TestScriptThroughALink checks the script that root reads and gives to the user: either the user
// must be able to read it, or root must have chosen it.
func TestScriptThroughALink(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	secret := w.rootFile(t, "private/secret", "#!/bin/sh\necho root has chosen this\n", 0o600)
	home := w.dir + "/home"
	if err := os.Symlink(secret, home+"/job"); err != nil {
		t.Fatal(err)
	}
	w.own(t, home+"/job")
	options := w.write(t, "home/options", "#!/bin/sh\n#$ -@ "+secret+"\n")
	const typed, nested = "execd does not read it as root: ", "execd does not read a file as root if a script or an options file names it"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a script":          {[]string{home + "/job"}, typed},
		"a file of options": {[]string{"-@", home + "/job", "-b", "y", "true"}, typed},
		"options in a file": {[]string{options}, nested},
	} {
		r := w.run(t, append([]string{"--as", "alice", "-cwd"}, c.args...)...)
		if r.status != 125 || strings.Contains(r.stdout+r.stderr, "chosen") || !strings.Contains(r.stderr, "permission denied for user alice, and "+c.want) {
			t.Errorf("%s: exit status %d, %s%s", name, r.status, r.stdout, r.stderr)
		}
	}
	// base is root's, and in a directory with the sticky bit.
	chosen := base + "/chosen-" + filepath.Base(w.dir)
	if err := os.WriteFile(chosen, []byte("#!/bin/sh\necho root has chosen this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(chosen)
	if r := w.run(t, "--as", "alice", "-cwd", chosen); r.status != 0 || r.stdout != "root has chosen this\n" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestPlantedOptions checks that options that another user has left in the working directory are
// ignored.
func TestPlantedOptions(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	planted := w.write(t, ".sge_request", "-v PLANTED=yes -N planted\n")
	for uid, want := range map[int]string{bob: "", 0: "yes"} {
		if err := os.Chown(planted, uid, uid); err != nil {
			t.Fatal(err)
		}
		r := w.run(t, "--as", "alice", "-cwd", "-N", "x", "-b", "y", "echo $PLANTED")
		if warned := strings.Contains(r.stderr, "execd: warning: .sge_request is not read: it belongs to user ID 20002"); r.stdout != want+"\n" || warned != (uid == bob) {
			t.Errorf("of user id %d: %s%s", uid, r.stdout, r.stderr)
		}
	}
	for what, plant := range map[string]func(string) error{
		"it is a pipe, expected a regular file":          func(path string) error { return unix.Mkfifo(path, 0o666) },
		"it has several hard links":                      func(path string) error { return os.Link(w.rootFile(t, "other", "-N x\n", 0o644), path) },
		"open .sge_request: ":                            func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, bob, bob)) },
		"it is a symbolic link, expected a regular file": func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		if err := os.Remove(planted); err != nil {
			t.Fatal(err)
		}
		if err := plant(planted); err != nil {
			t.Fatal(err)
		}
		r := w.run(t, "--as", "alice", "-cwd", "-b", "y", "echo", "done")
		if r.stdout != "done\n" || !strings.Contains(r.stderr, "execd: warning: .sge_request is not read: "+what) {
			t.Errorf("%s: %s%s", what, r.stdout, r.stderr)
		}
	}
}

// TestOutcomeThroughALink checks that --json of root does not write through a link of another user.
func TestOutcomeThroughALink(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim", "precious\n", 0o644)
	tmp := w.dir + "/tmp"
	if err := os.Mkdir(tmp, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, 0, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile("/proc/sys/fs/protected_symlinks"); err == nil && strings.TrimSpace(string(b)) == "1" {
		if out, err := asBob(t, "ln -s "+victim+" "+tmp+"/out"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r := w.run(t, "--as", "alice", "-cwd", "--json", tmp+"/out", "-b", "y", "true"); r.status != 125 {
			t.Errorf("exit status %d, %s", r.status, r.stderr)
		}
	}
	// A link that comes while the job runs is replaced.
	job := w.write(t, "job", "#!/bin/sh\nln -s "+victim+" "+tmp+"/late\n")
	if r := w.run(t, "--as", "alice", "-cwd", "--json", tmp+"/late", job); r.status != 0 {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	if info, err := os.Lstat(tmp + "/late"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
	unchanged(t, victim, "precious\n")
}
