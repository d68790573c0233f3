package qstat

import "slices"

// Reason is why a job could not be started: a message of the scheduler.
type Reason struct {
	Text string `json:"text"`
	// Number is the number of sge_schedd's messages of this kind.
	Number int `json:"number"`
	// Shared says that it is a reason for all jobs.
	Shared bool `json:"shared,omitempty"`
}

// AppendSchedulingInfo appends the last part of the output of qstat -j for a job: why it could not
// be started, one line for each reason, in their order. It appends nothing without reasons.
func AppendSchedulingInfo(dst []byte, reasons []Reason) []byte {
	p := page{dst}
	p.schedulingInfo(reasons)
	return p.text
}

func (p *page) schedulingInfo(reasons []Reason) {
	for i, r := range reasons {
		title := ""
		if i == 0 {
			title = "scheduling info:"
		}
		p.left(title, detailWidth)
		p.line(r.Text)
	}
}

// ReasonGroup is a reason that several jobs have in common.
type ReasonGroup struct {
	Text   string `json:"text"` // see GeneralReason
	Number int    `json:"number"`
	Jobs   []int  `json:"jobs"`
}

// generalReasons are the texts for all reasons with the same number.
var generalReasons = map[int]string{
	0:  "Jobs can not run because no host can satisfy the resource requirements",
	1:  "No queue instance with suitable access permissions could be found",
	2:  "Jobs can not run because queue does not provides the job's assigned project",
	3:  "Jobs are not assigned to a project to get a queue instance",
	4:  "Jobs can not run because excluded project list of queue does not allow it",
	6:  "Jobs can not run because queue instance is not contained in its hard queue list",
	8:  "Jobs can not run because queue instance is not in queue list of PE",
	9:  "Jobs can not run because queue instance is not of type checkpointing",
	10: "Jobs can not run because queue instance is not in queue list of ckpt interface definition",
	12: "Jobs can not run because queue instance is not of type batch or transfer",
	14: "Jobs can not run because they do not request 'forced' resource",
	17: "Jobs can not run because the resource requirements can not be satisfied",
	20: "Jobs can not run globally because the resource requirements can not be satisfied",
	21: "Jobs can not run because they do not request 'forced' resource",
	24: "Jobs can not run because available slots combined under PE are not in range of job",
	25: "Jobs can not run because they have no access to PE",
	31: "Jobs can not run because execution time not reached",
	32: "Jobs dropped because of error state",
	33: "Jobs dropped because of hold state",
	34: "Job dropped because of user limitations",
	35: "Job dropped because of job dependencies",
	43: "Parallel job dropped because no matching PE found",
	45: "Not all array tasks may be started due to 'max_aj_instances'",
	50: "Jobs dropped because of exceeding limit in rule",
	51: "Jobs can not run because queue instance was not reserved by advance reservation",
}

// GeneralReason returns the text of a reason that several jobs have: the general text for its
// number, or otherwise its own text.
func GeneralReason(r Reason) string {
	if text, ok := generalReasons[r.Number]; ok {
		return text
	}
	return r.Text
}

// AppendReasons appends the output of qstat -j without a list of jobs: the reasons that concern all
// jobs, and the other reasons grouped by number, each with its jobs.
func AppendReasons(dst []byte, shared []Reason, groups []ReasonGroup) []byte {
	if len(shared) == 0 && len(groups) == 0 {
		shared = []Reason{noReasons}
	}
	p := page{dst}
	if len(shared) > 0 {
		p.schedulingInfo(shared)
		p.end()
	}
	for n, g := range merged(groups) {
		if n > 0 {
			p.end()
		}
		p.value(g.Text)
		p.put("\n\t")
		for i := 0; i < len(g.Jobs); i += jobsPerLine {
			if i > 0 {
				p.put(",\n\t")
			}
			p.numbers(g.Jobs[i:min(i+jobsPerLine, len(g.Jobs))], ",\t")
		}
		p.end()
	}
	return p.text
}

const jobsPerLine = 8

// noReasons is printed if there are no reasons.
var noReasons = Reason{Number: 90, Text: "There are no messages available", Shared: true}

// merged returns groups with different numbers, each job once in each.
func merged(groups []ReasonGroup) []ReasonGroup {
	var list []ReasonGroup
	at := map[int]int{}
	seen := map[[2]int]bool{}
	for _, g := range groups {
		i, ok := at[g.Number]
		if !ok {
			i = len(list)
			at[g.Number] = i
			list = append(list, ReasonGroup{Text: g.Text, Number: g.Number})
		}
		for _, id := range g.Jobs {
			if key := [2]int{g.Number, id}; !seen[key] {
				seen[key] = true
				list[i].Jobs = append(list[i].Jobs, id)
			}
		}
	}
	return list
}

// AppendReasonsXML appends the output of qstat -j -xml without a list of jobs. It prints each group
// separately.
func AppendReasonsXML(dst []byte, shared []Reason, groups []ReasonGroup) []byte {
	e := elements{dst: append(append(dst, xmlHeader...), messageDocument...), indent: 2}
	if len(shared) == 0 && len(groups) == 0 {
		shared = []Reason{noReasons}
	}
	e.messages(shared, groups)
	return append(e.dst, "</message>\n"...)
}

// messages are reasons in XML.
func (e *elements) messages(shared []Reason, groups []ReasonGroup) {
	e.open("element")
	if len(groups) > 0 {
		e.open("SME_message_list")
		for i, g := range groups {
			e.open("element")
			e.open("MES_job_number_list")
			// The original names a copied list "element": all that the same jobs have
			// but the first.
			name := "ulong_sublist"
			if i > 0 && slices.Equal(groups[i-1].Jobs, g.Jobs) {
				name = "element"
			}
			for _, id := range g.Jobs {
				e.open(name)
				e.int("ULNG_value", id)
				e.close(name)
			}
			e.close("MES_job_number_list")
			e.message(g.Number, g.Text)
			e.close("element")
		}
		e.close("SME_message_list")
	}
	if len(shared) > 0 {
		e.open("SME_global_message_list")
		for _, r := range shared {
			e.open("element")
			e.message(r.Number, r.Text)
			e.close("element")
		}
		e.close("SME_global_message_list")
	}
	e.close("element")
}

func (e *elements) message(number int, text string) {
	e.int("MES_message_number", number)
	e.text("MES_message", text)
}

// AppendUnknownJobs appends the output of qstat -j on standard error if none of the named jobs
// exists.
func AppendUnknownJobs(dst []byte, names []string) []byte {
	p := page{dst}
	p.put("Following jobs do not exist: \n")
	p.list(names, ", ")
	p.end()
	return p.text
}

// AppendUnknownJobsXML appends the same for -xml, which is printed on standard output.
func AppendUnknownJobsXML(dst []byte, names []string) []byte {
	e := elements{dst: append(append(dst, xmlHeader...), "<unknown_jobs >\n"...), indent: 4}
	e.texts("ST_name", names)
	return append(e.dst, "</unknown_jobs>\n"...)
}
