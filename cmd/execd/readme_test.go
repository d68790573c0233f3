package main_test

import (
	"os"
	"strings"
	"testing"
)

// TestGuideExamplesOfExecdRun makes execd describe the jobs of the guide's examples of execd run.
func TestGuideExamplesOfExecdRun(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/get-started.md")
	if err != nil {
		t.Fatal(err)
	}
	w := inWorld(t, asUser)
	w.write(t, "job.sh", "#!/bin/sh\n#$ -l h_rt=1:0:0\n")
	w.write(t, "DIR/queues/long.q", "qname long.q\n")
	w.write(t, "DIR/queues/short.q", "qname short.q\n")
	examples := 0
	for line := range strings.Lines(string(text)) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "#")
		command = strings.TrimPrefix(command, "sudo ")
		if !strings.HasPrefix(command, "execd run ") {
			continue
		}
		examples++
		words := strings.Fields(command)[2:]
		if words[0] == "--as" && os.Getuid() != 0 {
			continue
		}
		there := w
		if words[0] == "--as" {
			there = inWorld(t, asRoot)
			there.write(t, "job.sh", "#!/bin/sh\n")
		}
		r := there.run(t, append([]string{"-verify"}, words...)...)
		if r.status != 0 || !strings.Contains(r.stdout, "job_owner="+w.user) || r.stderr != "" {
			t.Errorf("%s: exit status %d, %s", command, r.status, r.stderr)
		}
	}
	if examples < 5 {
		t.Errorf("%d examples found", examples)
	}
}
