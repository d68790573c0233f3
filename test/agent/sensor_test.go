package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestSensorsInStatus checks that execd status shows the state of each load sensor, and invalid lines.
func TestSensorsInStatus(t *testing.T) {
	n := newNode(t, "")
	list := ""
	for name, does := range map[string]string{
		"good":    "echo begin; echo node1:licenses:5; echo end",
		"garbled": "echo begin; echo node1:a:1; echo no value here; echo end",
		"dying":   "exit 3",
	} {
		n.write(name, "#!/bin/sh\nwhile read line; do test \"$line\" = quit && break; "+does+"; done\n")
		if err := os.Chmod(filepath.Join(n.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if list != "" {
			list += ","
		}
		list += filepath.Join(n.dir, name)
	}
	n.write("conf/conf/global", "gid_range "+groupIDs()+"\nload_report_time 0:0:1\nload_sensor "+list+"\n")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := n.client.Health(ctx); err != nil { // it answers
		t.Fatal(err)
	}
	want := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^sensor         \S*/good: running.*, 1 value \d+s ago$`),
		regexp.MustCompile(`(?m)^sensor         \S*/garbled: running.*, 1 value \d+s ago\n {15}  \d+ violations?, the last: line \d+: "no value here": `),
		regexp.MustCompile(`(?m)^sensor         \S*/dying: (restarting in \d+s|restarted.*|starting|ending|ended|waiting), no report yet.*\n {15}  fault: .*exited with status 3`),
	}
	var last []byte
	for {
		cmd := exec.CommandContext(ctx, filepath.Join(n.bin, "execd"), "status", "--socket", n.socket)
		out, err := cmd.Output()
		if ctx.Err() != nil {
			t.Fatalf("%v\n%s\n%s", err, last, n.log())
		}
		last = out
		all := cmd.ProcessState.ExitCode() == 1
		for _, r := range want {
			all = all && r.Match(out)
		}
		if all {
			t.Logf("%s", out)
			return
		}
	}
}
