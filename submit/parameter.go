package submit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// Parameter is a parameter of a job as a job submission verifier sees it (jsv(1),
// jsv_script_interface(3)).
type Parameter struct{ Name, Value string }

// Submitter describes the submitting user and the submission for a verifier.
type Submitter struct {
	Context           string // client, or server
	Command           string // qsub, ...; qmaster if Context is server
	User, Group, Host string
	Job               uint32 // the job's number, 0 if it has none yet
}

// Parameters returns the parameters of a job, in the original's order. Times are correct; Grid
// Engine passes the wrong month, the previous one, in a and dl.
func (r *Request) Parameters(by Submitter) []Parameter {
	p := &parameters{}
	p.add("VERSION", "1.0")
	p.add("CONTEXT", by.Context)
	p.add("CLIENT", by.Command)
	p.add("USER", by.User)
	p.add("GROUP", by.Group)
	if by.Job != 0 {
		p.add("JOB_ID", strconv.FormatUint(uint64(by.Job), 10))
	}
	p.add("CMDNAME", cmp.Or(r.Command, "NONE")) // for qlogin
	p.add("CMDARGS", strconv.Itoa(len(r.Args)))
	for i, a := range r.Args {
		p.list = append(p.list, Parameter{"CMDARG" + strconv.Itoa(i), a})
	}
	p.time("a", r.Start)
	p.add("ac", joined(r.Context, func(v Variable) string { return strings.TrimSuffix(v.String(), "=") }))
	p.number("ar", r.Reservation)
	if by.Context == "server" {
		p.add("A", cmp.Or(r.Account, "sge"))
	} else {
		p.add("A", r.Account)
	}
	p.flag("b", r.Binary, "y")
	if r.CheckpointInterval > 0 {
		s := int(r.CheckpointInterval / time.Second)
		p.add("c_interval", fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60))
	}
	p.add("c_occasion", r.CheckpointWhen)
	p.add("ckpt", r.Checkpoint)
	p.add("cwd", r.WorkingDir)
	p.time("dl", r.Deadline)
	p.add("e", joined(r.Error, HostPath.String))
	p.add("hold_jid", strings.Join(r.PrecedingJobs, ","))
	p.add("hold_jid_ad", strings.Join(r.PrecedingTasks, ","))
	p.flag("h", r.Hold, "u")
	p.add("i", joined(r.Input, HostPath.String))
	p.flag("j", r.Join, "y")
	p.number("js", r.JobShare)
	p.add("l_hard", joined(r.resources(false), ResourceRequest.String))
	p.add("l_soft", joined(r.resources(true), ResourceRequest.String))
	p.add("m", mailLetters(r.MailOptions))
	if len(r.Mail) > 0 {
		p.add("M", strings.Join(r.Mail, ","))
	} else {
		p.add("M", by.User+"@"+by.Host)
	}
	p.add("masterq", strings.Join(r.MasterQueues, ","))
	p.flag("notify", r.Notify, "y")
	p.add("N", r.Name)
	p.add("o", joined(r.Output, HostPath.String))
	p.add("P", r.Project)
	p.number("p", r.Priority)
	p.number("tc", r.TaskLimit)
	p.binding(r.Binding)
	if r.PE != nil && len(r.PE.Ranges) > 0 {
		low, high := r.PE.Ranges[0].Min, r.PE.Ranges[0].Max
		for _, s := range r.PE.Ranges {
			low, high = min(low, s.Min), max(high, s.Max)
		}
		p.add("pe_name", r.PE.Name)
		p.add("pe_min", strconv.Itoa(low))
		p.add("pe_max", strconv.Itoa(high))
	}
	p.add("q_hard", joined(r.queues(false), queueName))
	p.add("q_soft", joined(r.queues(true), queueName))
	p.flag("R", r.Reserve, "y")
	p.flag("r", r.Rerun == job.Yes, "y")
	p.flag("shell", r.NoShell, "n")
	p.add("S", joined(r.Shell, HostPath.String))
	if a := r.Array; a != nil {
		p.add("t_min", strconv.Itoa(a.First))
		p.add("t_max", strconv.Itoa(a.Last))
		p.add("t_step", strconv.Itoa(a.Step))
	}
	if r.Validation != ValidateNone {
		p.add("w", string(rune(r.Validation)))
	}
	return p.list
}

// parameters builds a list of parameters.
type parameters struct{ list []Parameter }

func (p *parameters) add(name, value string) {
	if value != "" {
		p.list = append(p.list, Parameter{name, value})
	}
}

func (p *parameters) flag(name string, set bool, value string) {
	if set {
		p.add(name, value)
	}
}

func (p *parameters) number(name string, n int) {
	if n != 0 {
		p.add(name, strconv.Itoa(n))
	}
}

func (p *parameters) time(name string, t DateTime) {
	if !t.IsZero() {
		text := t.String()
		if t.Second == 0 {
			text += ".00"
		}
		p.add(name, text)
	}
}

func (p *parameters) binding(b *Binding) {
	if b == nil {
		return
	}
	p.add("binding_strategy", string(b.Strategy))
	p.add("binding_type", string(b.Instance))
	p.number("binding_amount", b.Amount)
	p.number("binding_step", b.Step)
	if b.Start != nil {
		p.add("binding_socket", strconv.Itoa(b.Start.Socket))
		p.add("binding_core", strconv.Itoa(b.Start.Core))
	}
	p.number("binding_exp_n", len(b.Cores))
	for i, c := range b.Cores {
		p.add("binding_exp_socket"+strconv.Itoa(i), strconv.Itoa(c.Socket))
		p.add("binding_exp_core"+strconv.Itoa(i), strconv.Itoa(c.Core))
	}
}

func joined[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = text(x)
	}
	return strings.Join(texts, ",")
}

func queueName(q QueueRequest) string { return q.Reference }

func (r *Request) resources(soft bool) []ResourceRequest {
	return slices.DeleteFunc(slices.Clone(r.Resources), func(x ResourceRequest) bool { return x.Soft != soft })
}

func (r *Request) queues(soft bool) []QueueRequest {
	return slices.DeleteFunc(slices.Clone(r.Queues), func(x QueueRequest) bool { return x.Soft != soft })
}

// mailLetters returns the letters of -m, in the order of the manual.
func mailLetters(o job.MailOptions) string {
	var text strings.Builder
	for _, x := range []struct {
		bit    job.MailOptions
		letter string
	}{{job.MailAtBegin, "b"}, {job.MailAtEnd, "e"}, {job.MailAtAbort, "a"}, {job.MailAtSuspend, "s"}} {
		if o&x.bit != 0 {
			text.WriteString(x.letter)
		}
	}
	return text.String()
}
