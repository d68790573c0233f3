package inherited_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/limits/inherited"
)

const child = "EXECD_TEST_INHERITED"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		soft, _, ok := inherited.OpenFiles()
		if !ok {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(strconv.FormatUint(soft, 10))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOpenFilesIsThatOfTheStart(t *testing.T) {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	want := strconv.FormatUint(now.Max/2, 10)
	// sh(1) sets the soft limit that the program then starts with.
	cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn "$1" && exec "$0"`, os.Args[0], want)
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("the program was started with a soft limit of %s and says %s", want, got)
	}
}
