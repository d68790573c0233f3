package message

import (
	"slices"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// Report is the report of a daemon: a message with TagReport.
type Report struct {
	Host    string
	Version uint32 // of the GDI, set by EncodeReport; qmaster ignores reports with another one
	// Sequence is the number of the report, which increases from 0 to 9999 and then begins with 0
	// again. qmaster ignores reports that are older than the last one.
	Sequence uint32

	Load           *LoadReport
	Configurations []Configuration // configurations in use, without entries; nil for none
	Licence        *Licence
	Jobs           []JobReport // nil for none
}

// LoadReport are load values.
type LoadReport struct {
	Full   bool // all values; otherwise only those that differ from the last acknowledged report
	Values []LoadValue
}

// LoadValue is a load value of a host.
type LoadValue struct {
	_      struct{} `cull:"LR"`
	Name   string   `cull:"name"`
	Value  string   `cull:"value"`
	Global uint32   `cull:"global"` // 1 for a value of the whole cluster, whose Host is "global"
	Static uint32   `cull:"static"` // 1 for static, 2 for a value that is no longer there
	Host   string   `cull:"host"`
}

// LoadRemoved is LoadValue.Static of a value that is no longer there.
const LoadRemoved = 2

// Licence has the number of processors and the architecture of a host.
type Licence struct {
	_          struct{} `cull:"LIC"`
	Processors uint32   `cull:"processors"`
	Arch       string   `cull:"arch"`
}

// JobReport is the state of a job, a slave job or a task of a parallel job.
type JobReport struct {
	_              struct{} `cull:"JR"`
	Job            uint32   `cull:"job_number"`
	Task           uint32   `cull:"ja_task_number"` // 1 for a job that is not an array job
	PETask         string   `cull:"pe_task_id_str"`
	Queue          string   `cull:"queue_name"` // queue instance
	State          uint32   `cull:"state"`
	Failed         uint32   `cull:"failed"`          // as job.Failed
	GeneralFailure uint32   `cull:"general_failure"` // as the constants
	Error          string   `cull:"err_str"`
	Usage          []Usage  `cull:"usage"`
	PID            uint32   `cull:"job_pid"`
	CkptArena      uint32   `cull:"ckpt_arena"`
	OSJobID        string   `cull:"osjobid"`     // additional group id
	WaitStatus     uint32   `cull:"wait_status"` // see WaitStatus
	Flush          bool     `cull:"flush"`       // bookkeeping of the original, of no effect, as the following
	NoSend         bool     `cull:"no_send"`
	Delay          bool     `cull:"delay_report"`
	// DeletedBy is the daemon, if it has ended the job for a limit; of 9.1 and later.
	DeletedBy string `cull:"deleted_by"`
}

// The states of a JobReport.
const (
	StateRunning uint32 = 0x80    // it was found again after a restart of the daemon
	StateExiting uint32 = 0x1000  // it has ended
	StateWritten uint32 = 0x2000  // it was accepted, or runs
	StateWaiting uint32 = 0x4000  // it runs, and its additional group id is not known
	StateSlave   uint32 = 0x20000 // a slave job; with a usage it has ended
)

// Failures (sge_status(5)) that depend on the release: of a job whose stop procedure or epilog could not be
// started, that its daemon has ended for a limit, and that a signal has ended.
const (
	failedBeforePEStop uint32 = 12
	failedBeforeEpilog uint32 = 14
	failedLimit        uint32 = 37
	failedAfterJob     uint32 = 100
)

// The values of JobReport.GeneralFailure: the job, queue or host to which a failure is attributed.
const (
	FailureNone          uint32 = 0
	FailureQueue         uint32 = 1
	FailureHost          uint32 = 2
	FailureJob           uint32 = 4
	FailureQueueFinished uint32 = 5 // the queue, and the job is not run again
	// FailureByOwner is FailureNone on the wire. Of a JobReport to be sent it says that the owner of the job may have
	// caused the failure: no release attributes it to the queue.
	FailureByOwner uint32 = 1 << 31
)

// Usage is one value of the usage of a job.
type Usage struct {
	_     struct{} `cull:"UA"`
	Name  string   `cull:"name"`
	Value float64  `cull:"value"`
}

// The types of the parts of a report.
const (
	partLoad          = 1
	partConfiguration = 3
	partLicence       = 4
	partJobs          = 5
	partFullLoad      = 6
)

type reportPart struct {
	_        struct{} `cull:"REP"`
	Type     uint32   `cull:"type"`
	Host     string   `cull:"host"`
	Version  uint32   `cull:"version"`
	Sequence uint32   `cull:"seqno"`
}

// EncodeReport packs a report. The lists are named as the original names them.
func (c *Codec) EncodeReport(r *Report) []byte {
	report := &cull.List{Name: "report list", Changed: true, Descriptor: c.format.DescriptorOf("REP")}
	at, _ := c.format.Attribute("REP", "list")
	add := func(kind uint32, list *cull.List) {
		part := c.format.Marshal(&reportPart{Type: kind, Host: r.Host, Version: c.gdi, Sequence: r.Sequence})
		part.Status = cull.InList
		part.Values[at] = list
		report.Elements = append(report.Elements, part)
	}
	if l := r.Load; l != nil {
		kind := uint32(partLoad)
		if l.Full {
			kind = partFullLoad
		}
		add(kind, cull.MarshalList(c.format, "", l.Values))
	}
	if r.Configurations != nil {
		add(partConfiguration, cull.MarshalList(c.format, "execd config list copy", r.Configurations))
	}
	if r.Licence != nil {
		add(partLicence, cull.MarshalList(c.format, "license report list", []Licence{*r.Licence}))
	}
	if r.Jobs != nil {
		jobs := cull.MarshalList(c.format, "jr", c.failures(r.Jobs))
		usage := c.format.ID("JR", "usage")
		for _, j := range jobs.Elements {
			// As the original does for a job that has ended, whose list has io before cpu.
			l, _ := j.Value(usage).(*cull.List)
			if l != nil && c.begins(l, "io", "cpu") {
				l.Name = "usagelist"
			}
		}
		add(partJobs, jobs)
	}
	e := c.begin()
	e.List(report)
	return e.Bytes()
}

// failures returns the jobs with their failures as the release numbers and attributes them.
func (c *Codec) failures(jobs []JobReport) []JobReport {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		j := &jobs[i]
		switch j.Failed {
		case failedLimit:
			if c.limitIsSignal {
				j.Failed = failedAfterJob
			}
		case failedBeforePEStop, failedBeforeEpilog:
			if c.missingFailsQueue && j.GeneralFailure == FailureNone {
				j.GeneralFailure = FailureQueue
			}
		}
		if j.GeneralFailure == FailureByOwner {
			j.GeneralFailure = FailureNone
		}
	}
	return jobs
}

// begins reports whether a usage list begins with these two values.
func (c *Codec) begins(l *cull.List, first, second string) bool {
	for _, e := range l.Elements {
		switch e.Value(c.format.ID("UA", "name")) {
		case first:
			return true
		case second:
			return false
		}
	}
	return false
}

// DecodeReport reads a report.
func (c *Codec) DecodeReport(payload []byte) (*Report, error) {
	d := c.open(payload)
	l := d.List()
	if err := d.End(); err != nil {
		return nil, within("report", err)
	}
	r := &Report{}
	if l == nil {
		return r, nil
	}
	for _, x := range l.Elements {
		var part reportPart
		if err := c.format.Unmarshal(x, &part); err != nil {
			return nil, within("report", err)
		}
		list, _ := x.Value(c.format.ID("REP", "list")).(*cull.List)
		r.Host, r.Version, r.Sequence = part.Host, part.Version, part.Sequence
		if err := r.take(c.format, part.Type, list); err != nil {
			return nil, within("report", err)
		}
	}
	return r, nil
}

func (r *Report) take(f *cull.Format, kind uint32, list *cull.List) error {
	var err error
	switch kind {
	case partLoad, partFullLoad:
		r.Load = &LoadReport{Full: kind == partFullLoad}
		r.Load.Values, err = cull.UnmarshalList[LoadValue](f, list)
	case partConfiguration:
		r.Configurations, err = cull.UnmarshalList[Configuration](f, list)
	case partLicence:
		var all []Licence
		if all, err = cull.UnmarshalList[Licence](f, list); len(all) > 0 {
			r.Licence = &all[0]
		}
	case partJobs:
		r.Jobs, err = cull.UnmarshalList[JobReport](f, list)
	}
	return err
}

// WaitStatus returns the encoded end of a job's processes: its exit status, or for a signal other
// than 0, Grid Engine's number of that signal. It is 0 for a job that never began.
func WaitStatus(exitStatus int, signal uint32, coreDumped, ran bool) uint32 {
	const exited, signalled, core = 1, 2, 4
	switch {
	case !ran:
		return 0
	case signal == 0:
		return exited | uint32(exitStatus)<<4
	case coreDumped:
		return signalled | core | signal<<12
	default:
		return signalled | signal<<12
	}
}
