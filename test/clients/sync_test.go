package clients

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestSyncMissesTheEnd stops qsub -sync y while a job ends and the daemon is killed afterwards, so that
// the next daemon does not know the job. qsub finds the exit status in the accounting record. The same
// applies to tasks of an array job that still has other tasks.
func TestSyncMissesTheEnd(t *testing.T) {
	s := newSite(t, 8)
	script := s.script("wait.sh", "#!/bin/sh\nwhile [ ! -e \"end.${SGE_TASK_ID#undefined}\" ]; do sleep 0.05; done\nexit 3\n")
	for _, c := range []struct {
		name, tasks string
		ends        string // the file that ends the job, or its first task, while qsub is stopped
		later       string // the file that ends the second task
		want        string
	}{
		{name: "job", ends: "end.", want: "Job ID exited with exit code 3.\n"},
		{
			name: "task", tasks: "1-2", ends: "end.1", later: "end.2",
			want: "Job ID.1 exited with exit code 3.\nJob ID.2 exited with exit code 3.\n",
		},
		{name: "deleted", want: "Unable to run job ID\nit was deleted before it ran\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"-sync", "y", "-terse", "-cwd", "-j", "y", "-o", "/dev/null", "-N", c.name}
			if c.tasks != "" {
				args = append(args, "-t", c.tasks)
			}
			if c.name == "deleted" {
				args = append(args, "-h")
			}
			qsub := s.command(t.Context(), s.user, filepath.Join(s.bin, "commands", "qsub"), append(args, script)...)
			var stdout, stderr bytes.Buffer
			qsub.Stdout, qsub.Stderr = &stdout, &stderr
			if err := qsub.Start(); err != nil {
				t.Fatal(err)
			}
			listed := func() string { return s.run("qstat").stdout }
			s.until("the job is there", func() bool {
				return strings.Contains(listed(), " "+c.name+" ") && (c.name == "deleted" || !strings.Contains(listed(), " qw ") && !strings.Contains(listed(), " t "))
			})
			s.daemon.Kill()
			if err := qsub.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			s.start()
			if c.ends == "" {
				s.must(s.run("qdel", c.name))
			} else {
				s.file(c.ends, "")
			}
			s.until("it has left", func() bool {
				lines := strings.Count(listed(), "\n")
				return c.later == "" && lines == 0 || c.later != "" && lines == 3 // two of them are the header
			})
			s.restart()
			if err := qsub.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if c.later != "" {
				s.file(c.later, "")
			}
			_ = qsub.Wait() // the status is checked
			id, _, _ := strings.Cut(stdout.String(), "\n")
			id, _, _ = strings.Cut(id, ".")
			wantStatus := 3
			if c.ends == "" {
				wantStatus = 1
			}
			// The second task may end before qsub looks for the record of the first.
			if got, want := sortedLines(stderr.String()), sortedLines(strings.ReplaceAll(c.want, "ID", id)); got != want || qsub.ProcessState.ExitCode() != wantStatus {
				t.Errorf("status %d, %q, want %q", qsub.ProcessState.ExitCode(), got, want)
			}
		})
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}
