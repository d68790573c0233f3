package launcher

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// BenchmarkJob measures the processor time of the orders about a job with the environment of a login: by a front and its
// launcher together, and by a daemon of one process, in turns. The supervisor is a program that ends at once.
func BenchmarkJob(b *testing.B) {
	testenv.Require(b, testenv.Root)
	w, s := makeWorld(b)
	var err error
	if s.Rules.Submissions, err = OpenSubmissions(w.spool); err != nil {
		b.Fatal(err)
	}
	defer s.Rules.Submissions.Close()
	s.Shepherd = "/bin/true"
	s.Rules.Site = Site{
		Host: "host", Config: s.Config, Objects: Objects{Shells: []string{"/bin/sh"}}, BinaryPath: "/usr/sbin", Arch: job.Arch(runtime.GOARCH),
	}
	c, other, err := pair()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(c)
		c.close()
	}()
	fd, err := unix.Dup(int(other.Fd()))
	other.Close()
	if err != nil {
		b.Fatal(err)
	}
	client, err := Connect(b.Context(), ClientOptions{Descriptor: fd, Lost: func(err error) { b.Error(err) }})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		client.Close()
		<-done
	}()
	env := []string{"HOME=/home/alice", "LOGNAME=alice", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/bash", "LANG=C.UTF-8"}
	for i := range 30 {
		env = append(env, fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("value", 10)))
	}
	r, err := submit.Parse(submit.Input{Args: []string{"-N", "n", "-wd", "/", "-V", "-o", "/dev/null", "-b", "y", "true"}, Cwd: "/", Env: env})
	if err != nil {
		b.Fatal(err)
	}
	r.Binary, r.Command, r.Script = false, "job.sh", []byte("#!/bin/sh\n"+strings.Repeat("# a comment in the script\n", 20)+"true\n")
	o, err := launch.Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		b.Fatal(err)
	}
	o.Owner, o.Privileged, o.Queue.Tmpdir, o.Lookup = w.owner, true, w.tmp, userdb.System().User
	o.SubmitEnv, o.SubmitDir, o.BinaryPath, o.Arch, o.Record = submit.Origin(env), "/", "/usr/sbin", s.Rules.Site.Arch, []byte("{}\n")
	number := 0
	run := func(l launch.Launcher) {
		j, err := l.Prepare(o, job.ID{Job: number}, false)
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Launch("/bin/true"); err != nil {
			b.Fatal(err)
		}
		status, err := j.Wait(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		j.Collect(status)
		if err := j.Files().WriteDurably("ended", []byte(`{"number":1}`)); err != nil {
			b.Fatal(err)
		}
		if err := j.Remove(false); err != nil {
			b.Fatal(err)
		}
		if err := l.RemoveScript(number); err != nil {
			b.Fatal(err)
		}
	}
	ways := map[string]launch.Launcher{"one": launch.Local{Spool: w.spool, Shepherd: s.Shepherd}, "two": client}
	spent := map[string]time.Duration{}
	for b.Loop() {
		for name, l := range ways {
			number++
			o.Submission = fmt.Sprint("key", number)
			if err := s.Rules.Submissions.Add(w.owner.UID, o.Submission, submission.Of(r, "/", o.SubmitEnv).Digest(o.Submission)); err != nil {
				b.Fatal(err)
			}
			before := processorTime(b)
			run(l)
			spent[name] += processorTime(b) - before
		}
	}
	for name, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N), "us-"+name)
	}
	b.ReportMetric(float64(spent["two"])/float64(spent["one"]), "ratio")
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
