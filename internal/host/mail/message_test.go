package mail

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
)

// at is the time of the mails below.
var at = time.Date(2026, 11, 21, 9, 8, 59, 0, time.UTC)

func description(task int, options job.MailOptions) *job.Description {
	return &job.Description{
		ID: job.ID{Job: 10, Task: task}, Name: "letter", Owner: "alice", Queue: "all.q", Host: "cellhost",
		SubmissionTime: at.Add(-time.Minute), MailList: "alice@cellhost,bob", MailOptions: options,
	}
}

// TestTexts compares the texts with those that an sge_execd 8.1.9 has sent for similar jobs.
func TestTexts(t *testing.T) {
	failed := func(code job.Failed, change func(*job.Outcome)) *job.Outcome {
		row := job.FailureOf(code)
		o := &job.Outcome{ID: job.ID{Job: 10}, Failed: code, Class: row.Class, Effect: row.Effect}
		change(o)
		return o
	}
	tests := map[string]struct {
		message func() (Message, bool)
		subject string
		text    string // without its first line, the subject
	}{
		"a job begins": {
			func() (Message, bool) { return AtBegin(description(0, job.MailAtBegin), at) },
			"Job 10 (letter) Started",
			` User       = alice
 Queue      = all.q
 Host       = cellhost
 Start Time = 11/21/2026 09:08:59
`,
		},
		"a task is suspended": {
			func() (Message, bool) { return AtSuspension(description(2, job.MailAtSuspend), at, false) },
			"Job-array task 10.2 (letter) Suspended",
			` Master queue    = all.q
 Owner           = alice
 Submission time = 11/21/2026 09:07:59
 Start time      = 11/21/2026 09:08:59
`,
		},
		"a job leaves a GPU idle": {
			func() (Message, bool) {
				return AtIdleGPUs(description(0, job.MailAtEnd), []string{"0", "3"}, 10*time.Minute)
			},
			"Job 10 (letter) Idle GPU",
			` Master queue    = all.q
 Owner           = alice
 Submission time = 11/21/2026 09:07:59

The job has not used GPU 0, 3 for 10 minutes. Other jobs cannot use it until the job finishes.
`,
		},
		"a job goes on": {
			func() (Message, bool) { return AtSuspension(description(0, job.MailAtSuspend), time.Time{}, true) },
			"Job 10 (letter) Continued",
			` Master queue    = all.q
 Owner           = alice
 Submission time = 11/21/2026 09:07:59
 Start time      = <unknown>
`,
		},
		"a job is complete": {
			func() (Message, bool) {
				o := &job.Outcome{Ran: true, ExitStatus: 3, Start: at, End: at.Add(93784 * time.Second)}
				o.Usage = job.Usage{UserTime: 59.9, SystemTime: 60, Wallclock: 93784, CPU: 3600}
				return AtEnd(description(0, job.MailAtEnd), o, true)
			},
			"Job 10 (letter) Complete",
			` User             = alice
 Queue            = all.q@cellhost
 Host             = cellhost
 Start Time       = 11/21/2026 09:08:59
 End Time         = 11/22/2026 11:12:03
 User Time        = 00:00:59
 System Time      = 00:01:00
 Wallclock Time   = 1:02:03:04
 CPU              = 01:00:00
 Max vmem         = NA
 Exit Status      = 3
`,
		},
		"a job dies": {
			func() (Message, bool) {
				return AtEnd(description(0, job.MailAtAbort), failed(job.FailedAfterJob, func(o *job.Outcome) {
					o.Ran, o.ExitStatus, o.Signal, o.Reason = true, 137, 9, "died through signal KILL"
					o.Start, o.End, o.Usage.MaxVmem = at, at.Add(8*time.Second), 3326083
				}), true)
			},
			"Job 10 (letter) Aborted",
			` Exit Status      = 137
 Signal           = KILL
 User             = alice
 Queue            = all.q@cellhost
 Host             = cellhost
 Start Time       = 11/21/2026 09:08:59
 End Time         = 11/21/2026 09:09:07
 CPU              = 00:00:00
 Max vmem         = 3.172M
failed assumedly after job because:
job 10.1 died through signal KILL (9)
`,
		},
		"a job goes into the error state": {
			func() (Message, bool) {
				return AtEnd(description(0, job.MailAtAbort), failed(job.FailedCwd, func(o *job.Outcome) {
					o.FailedText = "error: can't chdir to /nonexistent: No such file or directory"
				}), true)
			},
			"Job 10 (letter) Set in error state",
			` Exit Status      = -1
 Signal           = unknown signal
 User             = alice
 Queue            = all.q@cellhost
 Host             = cellhost
 Start Time       = <unknown>
 End Time         = <unknown>
 CPU              = NA
 Max vmem         = NA
failed changing into working directory because:
error: can't chdir to /nonexistent: No such file or directory
Use "qmod -c <jobid>" to clear job error state
once the problem is fixed.
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, ok := test.message()
			want := Message{To: []string{"alice@cellhost", "bob"}, Subject: test.subject, Text: test.subject + "\n" + test.text}
			if diff := cmp.Diff(want, m); !ok || diff != "" {
				t.Errorf("sent: %v; want (-) and got (+):\n%s", ok, diff)
			}
		})
	}
}

func TestNoticeInMail(t *testing.T) {
	m, _ := AtEnd(description(0, job.MailAtEnd), &job.Outcome{ID: job.ID{Job: 10}, Ran: true, ExitStatus: 1, Notice: "TMPDIR was full\n Exit Status = 0"}, true)
	if !strings.HasSuffix(m.Text, " Exit Status      = 1\nNote: TMPDIR was full\\x0a Exit Status = 0\n") {
		t.Errorf("the text ends with\n%s", m.Text)
	}
}

func TestWordsForFailures(t *testing.T) {
	tests := map[job.Failed]string{
		job.FailedMigrate: "Migrates", job.FailedReschedule: "Rescheduled", job.FailedLimit: "Aborted",
		job.FailedAppError: "Rescheduled due to application error", job.FailedOpenOutput: "Set in error state",
		job.FailedProlog: "Aborted",
	}
	for code, word := range tests {
		row := job.FailureOf(code)
		o := &job.Outcome{Failed: code, Class: row.Class, Effect: row.Effect}
		if m, _ := AtEnd(description(0, 0), o, true); m.Subject != "Job 10 (letter) "+word {
			t.Errorf("failed %d: the subject is %q, want %q at its end", code, m.Subject, word)
		}
		if m, _ := AtEnd(description(0, 0), o, false); m.Subject != "Job 10 (letter) Aborted" || strings.Contains(m.Text, "qmod") {
			t.Errorf("failed %d, with nobody who schedules: %q\n%s", code, m.Subject, m.Text)
		}
	}
}

// TestMailOptionLetters checks each letter of -m.
func TestMailOptionLetters(t *testing.T) {
	good, bad := &job.Outcome{Ran: true}, &job.Outcome{Failed: job.FailedLimit}
	got := map[string]string{}
	for letter, option := range map[string]job.MailOptions{
		"n": 0, "b": job.MailAtBegin, "e": job.MailAtEnd, "a": job.MailAtAbort, "s": job.MailAtSuspend,
	} {
		d := description(0, option)
		say := func(what string, m Message, ok bool) {
			if ok {
				got[letter] += what
			}
		}
		m, ok := AtBegin(d, at)
		say("begin ", m, ok)
		m, ok = AtSuspension(d, at, false)
		say("suspended ", m, ok)
		m, ok = AtSuspension(d, at, true)
		say("continued ", m, ok)
		m, ok = AtEnd(d, good, true)
		say("complete ", m, ok)
		m, ok = AtEnd(d, bad, true)
		say("aborted ", m, ok)
	}
	want := map[string]string{"b": "begin ", "e": "complete aborted ", "a": "aborted ", "s": "suspended continued "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
}

func TestUsersWriteNoHeaders(t *testing.T) {
	d := description(0, job.MailAtEnd)
	d.Name, d.MailList = "a\nBcc: everybody\r", " x , ,y"
	m, _ := AtEnd(d, &job.Outcome{Failed: job.FailedLimit, Reason: "one\n~!rm\x1b"}, false)
	for line := range strings.SplitSeq(m.Text, "\n") {
		if strings.HasPrefix(line, "Bcc") || strings.HasPrefix(line, "~") || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("a line is %q", line)
		}
	}
	if strings.ContainsAny(m.Subject, "\r\n") {
		t.Errorf("the subject is %q", m.Subject)
	}
	if diff := cmp.Diff([]string{"x", "y"}, m.To); diff != "" {
		t.Error(diff)
	}
}

// TestMailToAdministratorsAboutFailures checks the mails that tell administrators which queue or
// host has an error, and why.
func TestMailToAdministratorsAboutFailures(t *testing.T) {
	d := description(2, 0)
	o := &job.Outcome{
		ID: d.ID, Failed: job.FailedProlog, Class: job.ClassQueue,
		Stamp: "11/23/2026 05:05:42 [103:6766]: ", FailedText: "exit_status of prolog\x1b= 1", Reason: "exit_status of prolog\x1b= 1",
	}
	m, ok := AtFailure(d, o, []string{"root", "", "none", "ops@site"}, "[lab]", Files{Trace: "one\ntwo\r\n", PEHosts: "cellhost 1 all.q@cellhost UNDEFINED\n"})
	want := Message{To: []string{"root", "ops@site"}, Subject: "[lab] SGE 8.1.9: Job-array task 10.2 failed", Text: `Job 10 caused action: Queue "all.q@cellhost" set to ERROR
 User        = alice
 Queue       = all.q@cellhost
 Start Time  = <unknown>
 End Time    = <unknown>
failed in prolog: 11/23/2026 05:05:42 [103:6766]: exit_status of prolog\x1b= 1
Shepherd trace:
one
two

Shepherd pe_hostfile:
cellhost 1 all.q@cellhost UNDEFINED

`}
	if diff := cmp.Diff(want, m); diff != "" || !ok {
		t.Error(ok, diff)
	}
	for class, want := range map[job.Class]string{
		job.ClassJob: "caused action: Job 10.2 set to ERROR\n", job.ClassHost: "caused action: All Queues on host \"cellhost\" set to ERROR\n",
		job.ClassQueueFinished: "caused action: Queue \"all.q@cellhost\" set to ERROR\n", job.ClassNone: "",
	} {
		o.Class = class
		m, ok := AtFailure(d, o, []string{"root"}, "", Files{})
		if ok && !strings.HasPrefix(m.Subject, "SGE 8.1.9: Job") {
			t.Errorf("without a tag the subject is %q", m.Subject)
		}
		if ok != (want != "") || ok && !strings.Contains(m.Text, want) {
			t.Errorf("%v: %v, %q", class, ok, m.Text)
		}
	}
	// A procedure after the job that cannot be run, although that job is finished.
	o.Class, o.Failed = job.ClassNone, job.FailedBeforeEpilog
	if _, ok := AtFailure(d, o, []string{"root"}, "", Files{}); !ok {
		t.Error("no mail for an epilog that is missing")
	}
	if _, ok := AtFailure(d, o, []string{"none"}, "", Files{}); ok {
		t.Error("there is nobody, and a mail")
	}
}
