package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// office is an observer with a mailer that keeps what it gets.
type office struct {
	*testing.T
	o   *observer
	box string
}

func newOffice(t *testing.T, config string) *office {
	t.Helper()
	dir, err := os.MkdirTemp("", "execd-office-") //nolint:usetesting // other users must come in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &office{T: t, box: filepath.Join(dir, "box")}
	mailer := filepath.Join(dir, "mailer")
	for path, text := range map[string]string{
		"mailer": "#!/bin/sh\nf=$(mktemp " + f.box + "/XXXXXX)\n{ id -un; printf '<%s>' \"$@\"; echo; cat; } >$f.mail && rm $f\n",
		// The kind of mail, and who gets it, is what matters here.
		"conf/queues/all.q": "qname all.q\nhostlist node1\nslots 4\n", "conf/conf/global": config + "mailer " + mailer + "\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, mailer: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(f.box, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.box, 0o777); err != nil {
		t.Fatal(err)
	}
	d := &daemon{Command: &Command{}, settings: &settings{host: "node1"}, log: hclog.NewNullLogger()}
	if d.spool, err = jobdir.OpenSpool(filepath.Join(dir, "spool")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.spool.Close)
	c := &configuration{dir: filepath.Join(dir, "conf"), spool: dir}
	if d.agent, err = agent.New(agent.Options{
		Host: "node1", Spool: d.spool, Log: d.log, Configuration: func() (*qconf.Cluster, string, error) { return c.read() },
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.agent.Close)
	f.o = newObserver(d)
	return f
}

// mails are those that were sent, sorted. No other one can be.
func (f *office) mails() (all []string) {
	f.Helper()
	f.o.close()
	names, err := filepath.Glob(f.box + "/*.mail")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, string(b))
	}
	slices.Sort(all)
	return all
}

// owners returns two users that are not root: the owner of a job, and the user of mailers. Without
// root both are the user of the test.
func owners(t *testing.T) (owner, mailer string) {
	t.Helper()
	if os.Getuid() == 0 {
		if _, err := userdb.System().User("daemon"); err != nil {
			t.Fatal(err) // every distribution has it
		}
		return "daemon", mail.DefaultUser
	}
	me, err := userdb.System().UserID(uint32(os.Getuid())) //nolint:gosec // it is one
	if err != nil {
		t.Fatal(err)
	}
	return me.Name, me.Name
}

func letter(owner string, options job.MailOptions) *job.Description {
	return &job.Description{ID: job.ID{Job: 10}, Name: "letter", Owner: owner, Queue: "all.q", Host: "node1", MailList: "alice@site", MailOptions: options}
}

// TestMailToOwners checks that owners get the mail that they requested, and no other.
func TestMailToOwners(t *testing.T) {
	owner, as := owners(t)
	at := time.Date(2026, 11, 21, 9, 8, 59, 0, time.UTC)
	for options, want := range map[job.MailOptions][]string{
		0:                 nil,
		job.MailAtBegin:   {"Started"},
		job.MailAtSuspend: {"Continued", "Suspended"},
		job.MailAtEnd:     {"Complete"},
	} {
		f := newOffice(t, "")
		d := letter(owner, options)
		f.o.Began(nil, d, at)
		f.o.Suspended(d, at, false)
		f.o.Suspended(d, at, true)
		f.o.Ended(&agent.Record{}, d, &job.Outcome{ID: d.ID, Ran: true})
		mails := f.mails()
		if len(mails) != len(want) {
			t.Errorf("options %v: %q, expected %q", options, mails, want)
			continue
		}
		for i, word := range want {
			if !strings.HasPrefix(mails[i], as+"\n<-s><Job 10 (letter) "+word+"><alice@site>\n") {
				t.Errorf("options %v: %q, expected %q, sent as %s", options, mails[i], word, as)
			}
		}
	}
}

// TestMailNamesUsage checks the last line of the mail about the end of a job that ran, and that a job that
// did not run has none.
func TestMailNamesUsage(t *testing.T) {
	owner, _ := owners(t)
	f := newOffice(t, "")
	d := letter(owner, job.MailAtEnd)
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	r := &agent.Record{Category: "-l h_vmem=4G", Grants: []agent.Grant{{Slots: 2}}}
	f.o.Ended(r, d, &job.Outcome{ID: d.ID, Ran: true, Start: start, End: start.Add(time.Hour), Usage: job.Usage{Wallclock: 3600, CPU: 5400, MaxVmem: 1 << 30}})
	f.o.Ended(r, d, &job.Outcome{ID: d.ID, Failed: job.FailedProlog, Class: job.ClassJob})
	mails := f.mails()
	if len(mails) != 3 { // one of them to the administrator
		t.Fatalf("%q", mails)
	}
	const want = " Exit Status      = 0\nUsed: 1:30:00 of CPU time, 75 % of 2 slots, and 1.0G of memory, 12 % of the request (h_vmem=4G); next time request -l h_vmem=640M\n"
	for _, m := range mails {
		if complete := strings.Contains(m, " Complete>"); complete != strings.HasSuffix(m, want) || complete != strings.Contains(m, "Used: ") {
			t.Errorf("%s", m)
		}
	}
}

// TestMailToAdministrators checks that administrators get mail about failures that the job did not
// cause, sent as another user than the owner, with the ends of the supervisor's files if these are
// regular files.
func TestMailToAdministrators(t *testing.T) {
	owner, as := owners(t)
	f := newOffice(t, "administrator_mail ops@site\n")
	d := letter(owner, 0)
	dir, err := f.o.daemon.spool.Begin(d.ID, jobdir.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	line := strings.Repeat("x", 99) + "\n"
	if err := dir.WriteFile(jobdir.FileTrace, []byte("first\n"+strings.Repeat(line, 100)+"last\n")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir.Path(), jobdir.FileError), 0o600); err != nil {
		t.Fatal(err)
	}
	// The test keeps the pipe open, so that a reader would wait instead of failing.
	pipe, err := os.OpenFile(filepath.Join(dir.Path(), jobdir.FileError), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, failed := range []job.Failed{job.FailedNone, job.FailedAfterJob, job.FailedProlog} {
		row := job.FailureOf(failed)
		f.o.Ended(&agent.Record{}, d, &job.Outcome{ID: d.ID, Failed: failed, Class: row.Class, Effect: row.Effect})
	}
	mails := f.mails()
	if len(mails) != 1 {
		t.Fatalf("%d mails: %q", len(mails), mails)
	}
	if !strings.HasPrefix(mails[0], as+"\n<-s><SGE 8.1.9: Job 10 failed><ops@site>\n") || !strings.Contains(mails[0], "failed in prolog") {
		t.Errorf("the mail is %.300q", mails[0])
	}
	_, trace, _ := strings.Cut(mails[0], "Shepherd trace:\n")
	if n := strings.Count(trace, line); n < 70 || n > mostEnding/len(line) || !strings.HasPrefix(trace, line) || !strings.HasSuffix(trace, line+"last\n\n") {
		t.Errorf("the trace has %d lines: %.200q", n, trace)
	}
	if strings.Contains(mails[0], "Shepherd error:") {
		t.Error("a pipe was read")
	}

	// Who is being shut down sends no more.
	var refused error
	f.o.outbox = mail.NewOutbox(nil, func(_ string, _ mail.Message, err error) { refused = err })
	f.o.close()
	f.o.Began(nil, letter(owner, job.MailAtBegin), time.Now())
	if refused == nil || len(f.mails()) != 1 {
		t.Errorf("after the end: %v", refused)
	}
}
