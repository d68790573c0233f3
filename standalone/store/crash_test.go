package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/standalone/store"
)

// childEnv has the test binary be a process that commits to this file until it is killed.
const childEnv = "EXECD_TEST_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := commitForever(path); err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// keys are how many records each commit writes, each with the number of the commit.
const keys = 12

// commitForever tells each commit when it is durable.
func commitForever(path string) error {
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	n := 0
	for _, value := range s.All("n") {
		n, err = strconv.Atoi(string(value))
	}
	if err := errors.Join(err, s.Err()); err != nil {
		return err
	}
	fmt.Println(n)
	random := rand.New(rand.NewPCG(uint64(n), 0))
	for {
		n++
		changes := []store.Change{put("n", strconv.Itoa(n)), put(fmt.Sprintf("log/%06d", n), "x"), {Key: fmt.Sprintf("log/%06d", n-100)}}
		for k := range keys {
			changes = append(changes, put(fmt.Sprintf("k/%d", k), strconv.Itoa(n)+strings.Repeat(" ", random.IntN(9000))))
		}
		if err := s.Commit(changes); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// child is a process that commits.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, path string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+path)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may be gone
		_ = c.Wait()
	})
	return c
}

// next is the number of the next commit that is acknowledged, false at the end.
func (c *child) next(t *testing.T) (int, bool) {
	t.Helper()
	if !c.lines.Scan() {
		return 0, false
	}
	n, err := strconv.Atoi(c.lines.Text())
	if err != nil {
		t.Fatal(c.lines.Text())
	}
	return n, true
}

// A process is killed while it commits. What it has acknowledged is there, and each commit
// as a whole or not at all.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(5, 6))
	commits := 0
	for range 25 {
		c := start(t, path)
		acknowledged := 0
		for range 1 + random.IntN(20) {
			n, ok := c.next(t)
			if !ok {
				t.Fatal("the process has ended")
			}
			acknowledged = n
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for n, ok := c.next(t); ok; n, ok = c.next(t) {
			acknowledged = n
		}
		s := open(t, path) // waits for the lock
		got := map[string]string{}
		for key, value := range s.All("") {
			got[key] = strings.TrimSpace(string(value))
		}
		n, _ := strconv.Atoi(got["n"])
		want := map[string]string{}
		if n > 0 {
			want["n"] = got["n"]
			for k := range keys {
				want[fmt.Sprintf("k/%d", k)] = got["n"]
			}
			for i := max(1, n-99); i <= n; i++ {
				want[fmt.Sprintf("log/%06d", i)] = "x"
			}
		}
		if n < acknowledged || n > acknowledged+1 || !maps.Equal(got, want) {
			t.Fatalf("%d was acknowledged, and there is\n%v", acknowledged, got)
		}
		commits = n
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Attr("commits", fmt.Sprint(commits))
}

// A second process is told who has which file.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	c := start(t, path)
	if _, ok := c.next(t); !ok {
		t.Fatal("the process has ended")
	}
	_, err := store.Open(path)
	locked, ok := errors.AsType[*store.LockedError](err)
	if !ok {
		t.Fatal(err)
	}
	want := fmt.Sprintf("cannot open the store %q: process %d (%s) has it open", path, c.Process.Pid, "store.test")
	if locked.PID == 0 {
		want = fmt.Sprintf("cannot open the store %q: another process has it open", path)
		t.Log("this file system does not tell who has a lock")
	}
	if err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

// Of processes that begin the same store at the same time one has it, and what it writes
// is there.
func TestBegunTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	list := []*child{start(t, path), start(t, path), start(t, path)}
	acknowledged, refused := -1, 0
	for _, c := range list {
		switch n, err := c.first(t); {
		case err == "" && acknowledged < 0:
			acknowledged = n
		case err == "":
			t.Error("two have it")
		case strings.Contains(err, "has it open"):
			refused++
		default:
			t.Error(err)
		}
	}
	if acknowledged < 0 || refused != 2 {
		t.Errorf("%d, %d were refused", acknowledged, refused)
	}
	for _, c := range list {
		_ = c.Process.Kill() // two of them are gone
		for n, ok := c.next(t); ok; n, ok = c.next(t) {
			acknowledged = n
		}
	}
	if got := all(t, open(t, path), "n"); got != fmt.Sprintf("n=%d", acknowledged) && got != fmt.Sprintf("n=%d", acknowledged+1) {
		t.Errorf("%s, and %d was acknowledged", got, acknowledged)
	}
}

// first is what a process says first.
func (c *child) first(t *testing.T) (n int, err string) {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatal("the process has ended")
	}
	if text, failed := strings.CutPrefix(c.lines.Text(), "error: "); failed {
		return 0, text
	}
	n, e := strconv.Atoi(c.lines.Text())
	if e != nil {
		t.Fatal(c.lines.Text())
	}
	return n, ""
}
