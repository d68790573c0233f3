package agent

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCannotBegin checks that an agent that cannot start reports this with its exit status, at any
// stage of the start. Errors about files name the file.
func TestCannotBegin(t *testing.T) {
	n := newNode(t, "")
	n.write("check", "#!/bin/sh\nexit 1\n")
	for args, want := range map[string]string{
		"--metrics 192.0.2.1:1": "192.0.2.1:1", // TEST-NET-1, of RFC 5737, is no address of this host
		"--health-check check --health-user there-is-no-such-user": filepath.Join(n.dir, "check") + ` as user "there-is-no-such-user"`,
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(n.bin, "execd"), append([]string{ //nolint:gosec // the test chooses them
			"agent", "--host", host, "--spool", "spool", "--socket", "agent.sock", "--conf", "conf",
		}, strings.Fields(args)...)...)
		cmd.Dir = n.dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != 125 || !strings.Contains(string(out), want) {
			t.Errorf("%s: exit status %d, expected 125; %q, expected %q in it", args, got, out, want)
		}
	}
}
