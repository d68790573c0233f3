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
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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
	if os.Getenv(wastefulEnv) != "" {
		if err := waste(s); err != nil {
			return err
		}
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

// wastefulEnv has the process begin with a file most of which is free.
const wastefulEnv = "EXECD_TEST_STORE_WASTE"

// waste makes most of a file free.
func waste(s *store.Store) error {
	var more, less []store.Change
	for i := range 100 {
		key := fmt.Sprintf("waste/%d", i)
		more = append(more, put(key, strings.Repeat("w", 200<<10)))
		less = append(less, store.Change{Key: key})
	}
	return errors.Join(s.Commit(more), s.Commit(less))
}

// child is a process that commits.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, path string) *child {
	t.Helper()
	return startProgram(t, os.Args[0], path)
}

func startProgram(t *testing.T, program, path string, env ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), program)}
	c.Env = append(append(os.Environ(), childEnv+"="+path), env...)
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

// next returns the number of the next commit that is acknowledged, false at the end.
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

// TestKilled kills a process while it commits. Every acknowledged commit is in the store, and each
// commit is there completely or not at all.
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
		commits = check(t, s, acknowledged)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Attr("commits", fmt.Sprint(commits))
}

// check compares what there is with what was acknowledged, and returns the last commit.
func check(t *testing.T, s *store.Store, acknowledged int) int {
	t.Helper()
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
	return n
}

// TestKilledWhileShrinking kills a process at each step of shrinking the file while it commits. No
// record is lost, no file is left behind, and the next process shrinks the file.
func TestKilledWhileShrinking(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mortal.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "failpoint", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile("compact_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	points := regexp.MustCompile(`failpoint\.At\("([^"]+)"\)`).FindAllStringSubmatch(string(text), -1)
	if len(points) < 5 {
		t.Fatalf("%q", points)
	}
	for _, point := range points {
		t.Run(point[1], func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "store")
			c := startProgram(t, program, path, wastefulEnv+"=y", "EXECD_FAILPOINT="+point[1])
			acknowledged := 0
			for n, ok := c.next(t); ok; n, ok = c.next(t) {
				acknowledged = n
			}
			if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("it has not come to that: %v", err)
			}
			s := open(t, path)
			check(t, s, acknowledged)
			smaller(t, path)
			check(t, s, acknowledged)
			if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
				t.Errorf("there is %v, %v", list, err)
			}
		})
	}
}

// smaller waits until a file that was large is small.
func smaller(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() < 5<<20 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it has still %d bytes", info.Size())
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // there is nothing to wait for
	}
}

// TestShrinks checks that a file that is mostly free becomes smaller, while records are written and
// read.
func TestShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	s.Report(func(err error) { t.Error(err) })
	want := map[string]string{}
	for i := range 2000 {
		key := fmt.Sprintf("kept/%05d", i)
		want[key] = strings.Repeat(fmt.Sprint(i), 200)
		commit(t, s, put(key, want[key]))
	}
	begun := make(chan struct{})
	read := make(chan int)
	go func() { // what was begun before goes on
		n := 0
		for range s.All("kept/") {
			if n++; n == 1 {
				close(begun)
			}
		}
		read <- n
	}()
	<-begun
	if err := waste(s); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 8))
	done := make(chan struct{})
	go func() { smaller(t, path); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		key := fmt.Sprintf("kept/%05d", random.IntN(3000))
		if random.IntN(3) == 0 {
			delete(want, key)
			commit(t, s, store.Change{Key: key})
		} else {
			want[key] = strings.Repeat("x", random.IntN(9000))
			commit(t, s, put(key, want[key]))
		}
	}
	if n := <-read; n < 1 {
		t.Errorf("%d records", n)
	}
	compare := func(s *store.Store) {
		t.Helper()
		got := map[string]string{}
		for key, value := range s.All("") {
			got[key] = string(value)
		}
		if !maps.Equal(got, want) || s.Err() != nil {
			t.Errorf("%d records, expected %d, %v", len(got), len(want), s.Err())
		}
	}
	compare(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	compare(open(t, path))
}

// TestLocked checks that the error for a second process names the process that uses the file.
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

// TestBegunTogether creates the same store in several processes at the same time. One of them gets
// it, and its records are stored.
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

// first returns the first line of a process: a number or an error.
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
