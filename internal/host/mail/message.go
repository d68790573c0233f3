package mail

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/job"
)

// Message is one mail.
type Message struct {
	To      []string // user or user@host
	Subject string
	Text    string // lines that end in \n
}

// unknown is printed for a missing time.
const unknown = "<unknown>"

// AtBegin returns the mail for the start of a job, at a time. ok says that -m asks for it.
func AtBegin(d *job.Description, at time.Time) (m Message, ok bool) {
	return newMessage(d, "Started", "", []field{
		{"User      ", d.Owner}, {"Queue     ", d.Queue}, {"Host      ", d.Host}, {"Start Time", date(at)},
	}), d.MailOptions&job.MailAtBegin != 0
}

// AtSuspension returns the mail for a suspension, or with resumed for the end of it, of a
// job that has begun at a time. ok says that -m asks for it.
//
// Grid Engine 8.1.9 intends the same text, but sends two empty lines.
func AtSuspension(d *job.Description, began time.Time, resumed bool) (m Message, ok bool) {
	word := "Suspended"
	if resumed {
		word = "Continued"
	}
	return newMessage(d, word, "", []field{
		{"Master queue   ", d.Queue},
		{"Owner          ", d.Owner},
		{"Submission time", date(d.SubmissionTime)},
		{"Start time     ", date(began)},
	}), d.MailOptions&job.MailAtSuspend != 0
}

// AtIdleGPUs returns the mail for a running job that has not used some of its GPUs for a time. ok says
// that -m asks for any mail: Grid Engine has no letter for it.
func AtIdleGPUs(d *job.Description, ids []string, idle time.Duration) (m Message, ok bool) {
	return newMessage(d, "Idle GPU", fmt.Sprintf("\nThe job has not used GPU %s for %.0f minutes. Other jobs cannot use it until the job finishes.\n",
		strings.Join(ids, ", "), idle.Minutes()), []field{
		{"Master queue   ", d.Queue},
		{"Owner          ", d.Owner},
		{"Submission time", date(d.SubmissionTime)},
	}), d.MailOptions != 0
}

// AtEnd returns the mail for the end or the abortion of a job. ok says that -m asks for it.
//
// scheduled says that a master will restart a failed job or put it into the error state; the mail
// then says so. Otherwise a failed job was aborted.
func AtEnd(d *job.Description, o *job.Outcome, scheduled bool) (m Message, ok bool) {
	if o.Failed == job.FailedNone {
		m = complete(d, o)
		if o.Notice != "" { // a line after the fields: see WithUsage
			m.Text += "Note: " + clean(o.Notice) + "\n"
		}
		return m, d.MailOptions&job.MailAtEnd != 0
	}
	exit, signal := o.ExitStatus, "unknown signal"
	if !o.Ran {
		exit = -1
	}
	if o.Signal != 0 {
		signal = job.SignalName(syscall.Signal(o.Signal))
	}
	text := fmt.Sprintf("failed %s because:\n%s\n", job.FailureOf(o.Failed).Text, clean(o.Because()))
	word := "Aborted"
	if scheduled {
		switch {
		case o.Failed == job.FailedMigrate:
			word = "Migrates"
		case o.Failed == job.FailedReschedule:
			word = "Rescheduled"
		case o.Failed == job.FailedAppError:
			word = "Rescheduled due to application error"
		case o.Class == job.ClassJob:
			word = "Set in error state"
			text += "Use \"qmod -c <jobid>\" to clear job error state\nonce the problem is fixed.\n"
		}
	}
	fields := []field{{"Exit Status     ", fmt.Sprint(exit)}, {"Signal          ", signal}}
	fields = append(fields, place(d, o)...)
	fields = append(fields, field{"CPU             ", cpu(o)}, field{"Max vmem        ", size(o.Usage.MaxVmem)})
	return newMessage(d, word, text, fields), d.MailOptions&(job.MailAtEnd|job.MailAtAbort) != 0
}

// WithDeleter returns the mail for the end of a job that qdel has ended, with a line that names who
// deleted it, as USER@HOST.
//
// 8.1.9 sends this line as a mail of its own when qdel is called.
func WithDeleter(m Message, d *job.Description, who string) Message {
	m.Text += clean(fmt.Sprintf("%s %s (%s) was killed by %s", kindOf(d), d.ID, d.Name, who)) + "\n"
	return m
}

// WithUsage returns the mail for the end of a job with a line about what the job used, and what to
// request next time: see package usagetext.
//
// Programs that read mails of 8.1.9 search for fields, which are lines that begin with a blank and have
// an equals sign. This line comes after them and is not a field.
func WithUsage(m Message, line string) Message {
	m.Text += "Used: " + clean(line) + "\n"
	return m
}

// Files are the files of a job directory that a mail to administrators shows, or the ends of them.
type Files struct{ Trace, Error, PEHosts string }

// AtFailure returns the mail to the administrators for a job that has failed in such a way that a
// master puts the job, its queue or all queues of the host into the error state, or since one of the
// site's procedures after the job could not be run (administrator_mail of sge_conf(5)). ok reports
// whether there is such a failure, and an address.
//
// 8.1.9 says "caused action: none" of all of them.
//
// tag is mail_tag of Open Cluster Scheduler's sge_conf(5), which stands before the subject; empty for none.
func AtFailure(d *job.Description, o *job.Outcome, to []string, tag string, files Files) (m Message, ok bool) {
	action := ""
	switch o.Class {
	case job.ClassJob:
		action = "Job " + d.ID.String() + " set to ERROR"
	case job.ClassQueue, job.ClassQueueFinished:
		action = `Queue "` + d.Queue + "@" + d.Host + `" set to ERROR`
	case job.ClassHost:
		action = `All Queues on host "` + d.Host + `" set to ERROR`
	default:
		if o.Failed == job.FailedBeforeEpilog || o.Failed == job.FailedBeforePEStop {
			action = "none"
		}
	}
	var text strings.Builder
	printer.Fprintf(&text, "Job %d caused action: %s\n", d.ID.Job, strings.TrimSpace(action))
	for _, f := range []field{
		{"User       ", d.Owner},
		{"Queue      ", d.Queue + "@" + d.Host},
		{"Start Time ", date(o.Start)},
		{"End Time   ", date(o.End)},
	} {
		printer.Fprintf(&text, " %s = %s\n", f.name, strings.TrimSpace(f.value))
	}
	printer.Fprintf(&text, "failed %s: %s\n", job.FailureOf(o.Failed).Text, strings.TrimSpace(o.Because()))
	for _, file := range []struct{ name, text string }{
		{"trace", files.Trace}, {"error", files.Error}, {"pe_hostfile", files.PEHosts},
	} {
		if file.text == "" {
			continue
		}
		printer.Fprintf(&text, "Shepherd %s:\n", file.name)
		for line := range strings.Lines(file.text) {
			text.WriteString(printable.Lines(strings.TrimSpace(line)) + "\n") // escaped already
		}
		text.WriteByte('\n')
	}
	for _, address := range to {
		if address != "" && !strings.EqualFold(address, "none") {
			m.To = append(m.To, address)
		}
	}
	m.Subject, m.Text = strings.TrimSpace(fmt.Sprintf("%s SGE 8.1.9: %s %s failed", tag, kindOf(d), d.ID)), text.String()
	return m, o.Failed != job.FailedNone && action != "" && len(m.To) > 0
}

// kindOf returns the word for a job in the subjects of mails.
func kindOf(d *job.Description) string {
	if d.ID.Task != 0 {
		return "Job-array task"
	}
	return "Job"
}

func complete(d *job.Description, o *job.Outcome) Message {
	fields := append(place(d, o),
		field{"User Time       ", clock(o.Usage.UserTime)},
		field{"System Time     ", clock(o.Usage.SystemTime)},
		field{"Wallclock Time  ", clock(o.Usage.Wallclock)},
		field{"CPU             ", cpu(o)},
		field{"Max vmem        ", size(o.Usage.MaxVmem)},
		field{"Exit Status     ", fmt.Sprint(o.ExitStatus)})
	return newMessage(d, "Complete", "", fields)
}

// place returns the fields that both mails for the end have in common.
func place(d *job.Description, o *job.Outcome) []field {
	return []field{
		{"User            ", d.Owner},
		{"Queue           ", d.Queue + "@" + d.Host},
		{"Host            ", d.Host},
		{"Start Time      ", date(o.Start)},
		{"End Time        ", date(o.End)},
	}
}

// field is a line "name = value"; the name has its blanks.
type field struct{ name, value string }

func newMessage(d *job.Description, word, rest string, fields []field) Message {
	var b strings.Builder
	subject := clean(fmt.Sprintf("%s %s (%s) %s", kindOf(d), d.ID, d.Name, word))
	b.WriteString(subject + "\n")
	for _, f := range fields {
		printer.Fprintf(&b, " %s = %s\n", f.name, strings.TrimSpace(f.value))
	}
	m := Message{Subject: subject, Text: b.String() + rest}
	for address := range strings.SplitSeq(d.MailList, ",") {
		if address = strings.TrimSpace(address); address != "" {
			m.To = append(m.To, address)
		}
	}
	return m
}

// clean returns one line without control characters: a mailer could take some for its
// orders, and a line break for the end of a header.
func clean(s string) string { return printable.String(strings.TrimSpace(s)) }

func date(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.Format("01/02/2006 15:04:05")
}

func cpu(o *job.Outcome) string {
	if !o.Ran {
		return "NA"
	}
	return clock(o.Usage.CPU)
}

// clock formats seconds as hh:mm:ss, preceded by days if there are any.
func clock(seconds float64) string {
	n := int(seconds)
	text := fmt.Sprintf("%02d:%02d:%02d", n/3600%24, n/60%60, n%60)
	if days := n / (24 * 3600); days > 0 {
		text = fmt.Sprintf("%d:%s", days, text)
	}
	return text
}

// size returns a number of bytes in the largest unit in which it is at least 1; NA if it was not
// measured.
func size(bytes int64) string {
	if bytes == 0 {
		return "NA"
	}
	value, unit := float64(bytes), ""
	for _, u := range []string{"K", "M", "G"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, u
	}
	return fmt.Sprintf("%.3f%s", value, unit)
}
