package standalone

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestSpoolThatIsUnmounted unmounts the spool directory below a daemon that has it open
// (umount -l) while jobs wait: none is lost, everybody sees why they wait, and they run when
// it is mounted again.
func TestSpoolThatIsUnmounted(t *testing.T) {
	testenv.Require(t, testenv.Root)
	disk, spool := t.TempDir(), filepath.Join(t.TempDir(), "spool")
	mount := func(source, target, kind string, flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	}
	mount("tmpfs", disk, "tmpfs", 0, "size=100m,mode=755")
	if err := os.Mkdir(spool, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(disk, spool, "", unix.MS_BIND, "")
	m := newMachine(t, 4)
	m.args = []string{"--spool", spool}
	m.start()
	u := someUsers(t, 1)[0]
	submit := func(words ...string) {
		t.Helper()
		if r := m.as(u, "qsub", append([]string{"-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y"}, words...)...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	submit("-sync", "y", "true")

	if err := unix.Unmount(spool, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	const jobs = 100
	submit("-t", "1-100", "true")
	explain := func() string { return m.as(u, "qstat", "-f", "-explain", "E").stdout }
	m.until("the queue instance is in error state", func() bool { return regexp.MustCompile(`(?m)^all\.q@\S+ .* E$`).MatchString(explain()) })
	if text := explain(); !strings.Contains(text, "takes no jobs: cannot use spool directory "+spool) {
		t.Errorf("qstat -explain E says\n%s", text)
	}
	m.until("qstat -j says that the job waits for it", func() bool {
		return strings.Contains(m.as(u, "qstat", "-j", "2").stdout, "dropped because it is temporarily not available")
	})
	if r := m.root("../execd", "status", "--socket", m.socket()); !strings.Contains(r.stdout, "takes no jobs: cannot use spool directory "+spool) {
		t.Errorf("execd status says %+v", r)
	}

	mount(disk, spool, "", unix.MS_BIND, "")
	m.until("all jobs have run", func() bool { return m.as(u, "qstat").stdout == "" })
	if strings.Contains(explain(), " E\n") {
		t.Errorf("the queue instance stays in error state\n%s", explain())
	}
	accounting := filepath.Join(spool, "accounting")
	m.until("all are in the accounting", func() bool {
		_, err := os.Stat(accounting)
		return !errors.Is(err, os.ErrNotExist) && len(lines(t, accounting)) >= jobs+1
	})
	records := lines(t, accounting)
	failed := 0
	for _, r := range records {
		if f := strings.Split(r, ":"); f[11] != "0" {
			failed++
		}
	}
	if len(records) != jobs+1 || failed > 0 {
		t.Errorf("the accounting has %d records, %d of them of starts that failed", len(records), failed)
	}
}
