package importing

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

const patience = 3 * time.Minute

// startOn starts execd standalone with the imported configuration, and runs commands that show the
// objects.
func startOn(t *testing.T, execd, conf string) {
	t.Helper()
	dir := t.TempDir()
	testenv.LetIn(t, dir)
	socket := filepath.Join(dir, "run", "agent.sock")
	var log bytes.Buffer
	daemon := exec.CommandContext(t.Context(), execd, "standalone", "--one-process", "--host", "cellhost", "--conf", conf, "--spool", filepath.Join(dir, "spool"), "--socket", socket)
	daemon.Stderr = &log
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		if err := daemon.Wait(); err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, &log)
		}
	}()
	typed := func(user uint32, words ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, execd, words...)
		cmd.Env = []string{"EXECD_SOCKET=" + socket, "HOME=/", "PATH=/usr/bin:/bin"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
		return string(out)
	}
	const nobody = 65534
	for _, x := range []struct {
		line string
		want []string
	}{
		{"qstat -f", []string{"all.q@cellhost ", "long.q@cellhost ", "BIP   0/0/8 "}},
		{"qconf -sql", []string{"all.q\nempty.q\nlong.q\n"}},
		{"qconf -srqsl", []string{"users\nanother\n"}},
		{"qconf -sm", []string{"alice\n"}},
		{"qconf -scall", []string{"holidays\nnights\n"}},
		{"qconf -sstree", []string{"name=carol"}},
		{"qhost -F lic", []string{"cellhost ", "lic="}},
		{"qsub -h -q long.q -pe mpi 2 -l lic=1 -b y sleep 60", []string{`Your job 1 ("sleep") has been submitted`}},
		{"qstat -j 1", []string{"hard resource_list:         lic=1\n", "parallel environment:  mpi range: 2\n", "waiting for:"}},
		{"qdel 1", []string{"has deleted job 1\n"}},
	} {
		got := typed(nobody, strings.Fields(x.line)...)
		for _, want := range x.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: not to be seen: %q\n%s", x.line, want, got)
			}
		}
	}
	if got := typed(0, "qconf", "-mattr", "queue", "slots", "3", "long.q"); !strings.Contains(got, "modified") {
		t.Error(got)
	}
	if got := typed(nobody, "qconf", "-sq", "long.q"); !strings.Contains(got, "slots                 3\n") {
		t.Error(got)
	}
}
