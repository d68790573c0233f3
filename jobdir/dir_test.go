package jobdir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

func newDir(t testing.TB) *Dir {
	t.Helper()
	d, err := OpenDir(publicDir(t, 0o755))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestStateFiles(t *testing.T) {
	d := newDir(t)
	if _, done, err := d.ExitStatus(); done || err != nil {
		t.Error(done, err)
	}
	must(t, d.Append(FileExitStatus, ""))
	if _, done, err := d.ExitStatus(); done || err != nil {
		t.Error(done, err)
	}
	must(t, d.AddExitStatus(25))
	must(t, d.AddExitStatus(0))
	if n, done, err := d.ExitStatus(); n != 25 || !done || err != nil {
		t.Error(n, done, err)
	}
	if _, err := d.ReadNumber(FilePID); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, d.WriteNumber(FilePID, 4711))
	must(t, d.WriteNumber(FilePID, 4712))
	if n, err := d.ReadNumber(FilePID); n != 4712 || err != nil {
		t.Error(n, err)
	}
	if stamp, s, err := d.FirstError(); stamp != "" || s != "" || err != nil {
		t.Error(stamp, s, err)
	}
	at := time.Date(2026, 11, 22, 9, 8, 7, 0, time.Local)
	must(t, d.AddError(at, 2001, 17, "can't do this"))
	must(t, d.AddError(at, 2001, 17, "or that"))
	if stamp, s, err := d.FirstError(); stamp != "11/22/2026 09:08:07 [2001:17]: " || s != "can't do this" || err != nil {
		t.Errorf("%q, %q, %v", stamp, s, err)
	}
	if u, err := d.Usage(); u != nil || err != nil {
		t.Error(u, err)
	}
	must(t, d.WriteUsage(&Usage{ExitStatus: 3, WaitStatus: Exited(3)}))
	if u, err := d.Usage(); u == nil || u.ExitStatus != 3 || err != nil {
		t.Error(u, err)
	}
	for content, want := range map[string][2]bool{"": {true, false}, "0\n": {true, false}, "1": {true, true}} {
		must(t, d.WriteFile(FileCheckpoint, []byte(content)))
		if m, a, err := d.Checkpointed(); m != want[0] || a != want[1] || err != nil {
			t.Error(content, m, a, err)
		}
	}
	must(t, d.Remove(FileCheckpoint))
	must(t, d.Remove(FileCheckpoint))
	if m, _, err := d.Checkpointed(); m || err != nil {
		t.Error(m, err)
	}
	if _, err := d.Description(); !errors.Is(err, ErrIncomplete) {
		t.Error(err)
	}
	must(t, d.Sync(FileExitStatus, FileUsage, "missing"))
	must(t, d.WriteTmpdir(Tmpdir{"/tmp/a b\nc", 5, 1 << 63}))
	if tmp, err := d.Tmpdir(); tmp != (Tmpdir{"/tmp/a b\nc", 5, 1 << 63}) || err != nil {
		t.Error(tmp, err)
	}
	log, err := d.OpenAppend(FileTrace)
	must(t, err)
	defer log.Close()
	if err := log.Add(RecordLine(time.Now(), 0, 1, "x")); err != nil {
		t.Error(err)
	}
	if flags, err := unix.FcntlInt(uintptr(log.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Error("the trace file leaks into the job", err)
	}
}

func TestBrokenStateFilesAreErrors(t *testing.T) {
	d := newDir(t)
	for name, read := range map[string]func() error{
		FilePID:        func() error { _, err := d.ReadNumber(FilePID); return err },
		FileExitStatus: func() error { _, _, err := d.ExitStatus(); return err },
		FileUsage:      func() error { _, err := d.Usage(); return err },
		FileTmpdir:     func() error { _, err := d.Tmpdir(); return err },
		FilePEHosts:    func() error { _, err := d.PEHosts(); return err },
		FileConfig:     func() error { _, err := d.Description(); return err },
	} {
		must(t, d.WriteFile(name, []byte("rubbish\n")))
		err := read()
		var se *SyntaxError
		if !errors.As(err, &se) || !strings.Contains(err.Error(), d.Path()+"/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestModesDoNotDependOnUmask(t *testing.T) {
	for _, mask := range []int{0, 0o22, 0o77, 0o777} {
		func() {
			defer syscall.Umask(syscall.Umask(mask))
			d := newDir(t)
			must(t, os.Chmod(d.Path(), 0o755))
			for _, name := range []string{FileConfig, FileEnvironment, FileArguments, FilePID, FileUsage, FileSignal} {
				must(t, d.WriteFile(name, nil))
				want := os.FileMode(0o644)
				if name == FileConfig || name == FileEnvironment || name == FileArguments {
					want = 0o600
				}
				if mode, _, _ := stat(t, d.Path()+"/"+name); mode != want {
					t.Errorf("umask %o: %s has mode %o, want %o", mask, name, mode, want)
				}
			}
		}()
	}
}

// TestPlantedFiles checks that a link, fifo or directory in place of a file is neither followed nor
// waited for.
func TestPlantedFiles(t *testing.T) {
	outside := t.TempDir() + "/canary"
	plant := map[string]func(path string) error{
		"link":           func(p string) error { return os.Symlink(outside, p) },
		"dangling link":  func(p string) error { return os.Symlink(outside+"-not", p) },
		"fifo":           func(p string) error { return syscall.Mkfifo(p, 0o666) },
		"directory":      func(p string) error { return os.Mkdir(p, 0o777) },
		"full directory": func(p string) error { return os.MkdirAll(p+"/x", 0o777) },
	}
	for what, put := range plant {
		t.Run(what, func(t *testing.T) {
			must(t, os.WriteFile(outside, []byte("canary"), 0o600))
			d := newDir(t)
			must(t, put(d.Path()+"/"+FileUsage))
			done := watch(t)
			if _, err := d.ReadFile(FileUsage); err == nil {
				t.Error("read")
			}
			if err := d.Append(FileUsage, "x"); err == nil {
				t.Error("appended")
			}
			if f, err := d.OpenAppend(FileUsage); err == nil {
				f.Close()
				t.Error("opened")
			}
			_ = d.Sync(FileUsage)
			_ = d.WriteFile(FileUsage, []byte("new")) // replaces a link, fails for a directory
			close(done)
			if b, err := os.ReadFile(outside); string(b) != "canary" || err != nil {
				t.Errorf("outside: %q %v", b, err)
			}
			if exists(outside + "-not") {
				t.Error("a file was made outside")
			}
		})
	}
}

// watch fails a test that blocks.
func watch(t *testing.T) chan struct{} {
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			panic(t.Name() + " hangs")
		}
	}()
	return done
}

func TestNamesOutsideDirectoryAreRefused(t *testing.T) {
	d := newDir(t)
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/b", "a\x00"} {
		if _, err := d.ReadFile(name); err == nil {
			t.Errorf("%q was read", name)
		}
		if err := d.WriteFile(name, nil); err == nil {
			t.Errorf("%q was written", name)
		}
		if err := d.Append(name, "x"); err == nil {
			t.Errorf("%q was appended to", name)
		}
		if err := d.Remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
}

// TestMark checks that a mark keeps the file under a second name, even if the first name is removed or
// replaced.
func TestMark(t *testing.T) {
	s := newSpool(t)
	d, err := s.Create(simple(job.ID{Job: 7}), CreateOptions{})
	must(t, err)
	defer d.Close()
	must(t, d.WriteFile("end", []byte("x")))
	for range 2 {
		must(t, d.Mark("end", "mark"))
	}
	must(t, d.WriteFile("end", []byte("y")))
	if b, err := d.ReadFile("mark"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	for name, mark := range map[string]string{"missing": "mark2", "end": "../mark", "../config": "mark3"} {
		if err := d.Mark(name, mark); err == nil {
			t.Errorf("%s is marked as %s", name, mark)
		}
	}
}

func TestReplacementIsAtomic(t *testing.T) {
	d := newDir(t)
	small, large := []byte("1\n"), bytes.Repeat([]byte("22222222\n"), 5000)
	must(t, d.WriteFile("x", small))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			data := small
			if i%2 == 0 {
				data = large
			}
			if err := d.WriteFile("x", data); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2000 {
		b, err := d.ReadFile("x")
		if err != nil || (!bytes.Equal(b, small) && !bytes.Equal(b, large)) {
			t.Errorf("%d bytes, %v", len(b), err)
			break
		}
	}
	close(stop)
	wg.Wait()
}

func TestWriterThatWasKilledDoesNotBlock(t *testing.T) {
	d := newDir(t)
	must(t, os.WriteFile(d.Path()+"/.usage.new", []byte("half"), 0o444))
	must(t, d.WriteFile(FileUsage, []byte("whole")))
	if b, err := d.ReadFile(FileUsage); string(b) != "whole" || err != nil {
		t.Error(string(b), err)
	}
	if exists(d.Path() + "/.usage.new") {
		t.Error("the rest is still there")
	}
}

func TestTooLargeFileIsRefused(t *testing.T) {
	d := newDir(t)
	must(t, os.WriteFile(d.Path()+"/usage", nil, 0o644))
	must(t, os.Truncate(d.Path()+"/usage", mostFile+1))
	if _, err := d.ReadFile("usage"); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
}

func TestOpenDirRefusesWhatOthersCouldHaveWritten(t *testing.T) {
	dir := publicDir(t, 0o755)
	for _, mode := range []os.FileMode{0o777, 0o775, 0o757, 0o777 | os.ModeSticky} {
		must(t, os.Chmod(dir, mode))
		if d, err := OpenDir(dir); err == nil {
			d.Close()
			t.Errorf("mode %v was taken", mode)
		} else if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "other users may write") {
			t.Error(err)
		}
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Symlink(dir, dir+"/link"))
	if _, err := OpenDir(dir + "/link"); err == nil {
		t.Error("a link was followed")
	}
	if _, err := OpenDir(dir + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	needRoot(t)
	must(t, os.Chown(dir, alice, alice))
	if _, err := OpenDir(dir); err == nil || !strings.Contains(err.Error(), "20001") {
		t.Error("a stranger's directory was taken", err)
	}
	d, err := OpenDir(dir, alice)
	must(t, err)
	d.Close()
}

// TestUserCannotTouchStateFiles checks that the user of the job cannot change the state files, and
// cannot read the private ones. The original makes the user the owner of exit_status, error and
// trace, and leaves config and environment readable for everybody: there a job can report any exit
// status.
func TestUserCannotTouchStateFiles(t *testing.T) {
	needRoot(t)
	d := newDir(t)
	all := []string{
		FileConfig, FileEnvironment, FileArguments, FilePEHosts, FileSignal, FilePID, FileJobPID, FileAddGroupID,
		FileTrace, FileError, FileExitStatus, FileUsage, FileTmpdir,
	}
	for _, name := range all {
		must(t, d.WriteFile(name, []byte("1\n")))
	}
	as(t, alice, func() {
		for _, name := range all {
			path := d.Path() + "/" + name
			if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				f.Close()
				t.Errorf("%s can be written", name)
			}
			if os.Remove(path) == nil || os.Chmod(path, 0o666) == nil || os.Rename(path, path+"x") == nil {
				t.Errorf("%s can be changed", name)
			}
			f, err := os.Open(path)
			if err == nil {
				f.Close()
			}
			if secret := modeOf(name) == modePrivate; (err != nil) != secret {
				t.Errorf("%s: reading: %v", name, err)
			}
		}
		if err := os.WriteFile(d.Path()+"/"+FileNoResources, nil, 0o644); err == nil {
			t.Error("a file can be made")
		}
	})
}
