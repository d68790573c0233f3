package jobdir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childWriter runs as a process of a job that does not exit. It writes into TMPDIR, moves
// directories around, and replaces them with links to places outside. It follows no link itself, so
// it is not the cause of changes outside.
func childWriter() {
	outside := os.Getenv("OUTSIDE")
	targets := []string{outside, outside + "/root", outside + "/alice", outside + "/own", outside + "/alice/sub", "/", ".."}
	open := func(dir int, name string) int {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return -1
		}
		return fd
	}
	aside := open(unix.AT_FDCWD, os.Getenv("ASIDE"))
	some := func(prefix string, n int) string { return prefix + strconv.Itoa(rand.IntN(n)) }
	for os.Getppid() != 1 {
		tmp := open(unix.AT_FDCWD, os.Getenv("TMP_UNDER_ATTACK"))
		for range 20 {
			d := some("d", 4)
			target := targets[rand.IntN(len(targets))]
			in := open(tmp, d)
			sub := open(in, "sub")
			switch rand.IntN(8) {
			case 0:
				_, _, _ = unix.Mkdirat(tmp, d, 0o755), unix.Mkdirat(in, "sub", 0o755), unix.Mkdirat(sub, "sub", 0o755)
			case 1:
				touch(sub, "file")
			case 2:
				touch(tmp, some("f", 10))
			case 3:
				_ = unix.Symlinkat(target, tmp, "link")
			case 4: // replaces a directory by a link, in one step
				_ = unix.Renameat2(tmp, "link", tmp, d, unix.RENAME_EXCHANGE)
			case 5:
				_ = unix.Symlinkat(target, sub, "link")
				_ = unix.Renameat2(sub, "link", sub, "sub", unix.RENAME_EXCHANGE)
			case 6: // away and back
				_, _ = unix.Renameat(tmp, d, aside, "x"), unix.Renameat(aside, "x", tmp, d)
			case 7: // where directories are moved to
				_ = unix.Symlinkat(outside, tmp, some(".rm", 50))
				_ = unix.Renameat2(tmp, some(".rm", 50), tmp, d, unix.RENAME_EXCHANGE)
			}
			unix.Close(in)
			unix.Close(sub)
		}
		unix.Close(tmp)
	}
	os.Exit(0)
}

func touch(dir int, name string) {
	if fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644); err == nil {
		unix.Close(fd)
	}
}

func startWriter(t *testing.T, tmp, outside string) *exec.Cmd {
	t.Helper()
	aside := publicDir(t, 0o777)
	cmd := child("writer", "TMP_UNDER_ATTACK="+tmp, "OUTSIDE="+outside, "ASIDE="+aside)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}
	}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestRemoveUnderAttack(t *testing.T) {
	outside, verify := guarded(t)
	base := publicDir(t, 0o777|os.ModeSticky)
	writers := []*exec.Cmd{startWriter(t, base+"/x", outside), startWriter(t, base+"/x", outside)}
	before := openDescriptors(t)
	var tmp Tmpdir
	removed, left := 0, 0
	const rounds, timeout = 300, 10 * time.Millisecond
	start := time.Now()
	for range rounds {
		if !exists(base + "/x") {
			tmp = makeTmp(t, base, "x")
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) //nolint:forbidigo // lets some of it be made; nothing depends on how much
		}
		err := RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user(), Timeout: timeout})
		var le *LeftError
		switch {
		case err == nil:
			removed++
		case errors.As(err, &le):
			left++
		default:
			t.Fatal(err)
		}
	}
	verify()
	t.Log(removed, "removed,", left, "not completely, in", time.Since(start))
	if took := time.Since(start); took > rounds*100*timeout {
		t.Error("took", took)
	}
	for _, w := range writers {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user()}))
	if exists(base + "/x") {
		t.Error("it is still there")
	}
	verify()
}

// TestRemoveTimesOut checks that the removal stops after its timeout with an error if a process
// makes files faster than they are removed.
func TestRemoveTimesOut(t *testing.T) {
	base := publicDir(t, 0o777|os.ModeSticky)
	tmp := makeTmp(t, base, "x")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		asUser(t, func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_ = os.Mkdir(fmt.Sprintf("%s/%d", tmp.Path, i%100), 0o755)
					_ = os.WriteFile(fmt.Sprintf("%s/%d/f", tmp.Path, i%100), nil, 0o644)
					_ = os.WriteFile(fmt.Sprintf("%s/%d", tmp.Path, i), nil, 0o644)
				}
			}
		})
	}()
	deadline := time.Now().Add(20 * time.Second)
	for { // the removal may succeed between two attempts
		start := time.Now()
		err := RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user(), Timeout: 20 * time.Millisecond})
		if took := time.Since(start); took > time.Minute {
			t.Error("took", took)
			break
		}
		var left *LeftError
		if errors.As(err, &left) || time.Now().After(deadline) {
			t.Log(err)
			break
		}
		must(t, err)
		if !exists(tmp.Path) {
			tmp2 := makeTmp(t, base, "x")
			tmp.Dev, tmp.Ino = tmp2.Dev, tmp2.Ino
		}
	}
	close(stop)
	<-done
	must(t, RemoveTmpdir(tmp, RemoveOptions{UID: user(), GID: user()}))
}

// TestRemoveExchangedEntries checks that no file outside is removed if an entry is replaced at the worst
// moment: after it was found to be a directory, and before the remover acts on it.
func TestRemoveExchangedEntries(t *testing.T) {
	outside, verify := guarded(t)
	own := outside + "/own"
	if os.Geteuid() == 0 {
		own = outside + "/alice"
	}
	for _, step := range []string{"open", "rmdir", "move", "chmod"} {
		for _, target := range []string{outside, own, own + "/sub", own + "/closed"} {
			for _, depth := range []int{1, mostLevels + 4} {
				base := publicDir(t, 0o777|os.ModeSticky)
				tmp := makeTmp(t, base, "x")
				aside := publicDir(t, 0o777)
				asUser(t, func() {
					deep(t, tmp.Path, depth)
					must(t, os.Chmod(tmp.Path+"/directory", 0o500))
				})
				exchanged := 0
				r := remover{levels: mostLevels, deadline: time.Now().Add(time.Minute), chmod: true}
				r.between = func(at string, dir int, name string) {
					if at != step {
						return
					}
					if exchanged++; exchanged > 3*depth {
						return
					}
					if name == "" { // the directory dir itself
						dir, name = unix.AT_FDCWD, tmp.Path+"/directory"
					}
					err := unix.Renameat(dir, name, unix.AT_FDCWD, fmt.Sprintf("%s/%d", aside, exchanged))
					if err == nil {
						must(t, unix.Symlinkat(target, dir, name))
					}
				}
				fd, err := unix.Open(tmp.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				must(t, err)
				asUser(t, func() { err = r.emptyPath(fd) })
				unix.Close(fd)
				if err != nil {
					t.Error(step, target, depth, err)
				}
				if exchanged == 0 && (step != "move" || depth > mostLevels) {
					t.Error(step, depth, "never came")
				}
				if left, err := os.ReadDir(tmp.Path); len(left) > 0 || err != nil {
					t.Error(step, left, err)
				}
				verify()
			}
		}
	}
}

// TestRemoveAsUserAlone checks that an ordinary user removes everything that the user has the right to
// remove, without root.
func TestRemoveAsUserAlone(t *testing.T) {
	base := publicDir(t, 0o777|os.ModeSticky)
	tmp := makeTmp(t, base, "x")
	asUser(t, func() {
		for _, d := range []string{"a/b/c", "d", "e/f"} {
			must(t, os.MkdirAll(tmp.Path+"/"+d, 0o755))
			must(t, os.WriteFile(tmp.Path+"/"+d+"/file", nil, 0o000))
		}
		deep(t, tmp.Path+"/e", 2*mostLevels)
		for _, d := range []string{"a/b/c", "a/b", "a", "d"} {
			must(t, os.Chmod(tmp.Path+"/"+d, 0o000))
		}
		deepest := tmp.Path + "/e" + strings.Repeat("/directory", mostLevels+3)
		must(t, os.Chmod(deepest, 0o000))
		must(t, os.Chmod(tmp.Path+"/e", 0o000))
		must(t, os.Chmod(tmp.Path, 0o000))
	})
	parent, err := unix.Open(base, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(parent)
	top, err := openBeneath(parent, "x")
	must(t, err)
	defer unix.Close(top)
	r := remover{levels: mostLevels, deadline: time.Now().Add(time.Minute), chmod: true}
	asUser(t, func() { err = r.whole(parent, "x", top, tmp) })
	must(t, err)
	if exists(tmp.Path) {
		t.Error("it is still there")
	}
}
