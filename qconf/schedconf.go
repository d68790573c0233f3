package qconf

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// SchedulerConfig is sched_conf(5).
type SchedulerConfig struct {
	Text
	Algorithm               string // always "default"
	ScheduleInterval        time.Duration
	MaxUJobs                int // running jobs of each user; 0 for any number
	QueueSortMethod         QueueSortMethod
	JobLoadAdjustments      []Setting     // amounts added to load values when a job starts
	LoadAdjustmentDecayTime time.Duration // until nothing is left of that; 0 switches it off
	LoadFormula             string        // without blanks
	ScheddJobInfo           JobInfo
	// FlushSubmit and FlushFinish are how long after the submission or the end
	// of a job the scheduler runs; 0 for at its interval only.
	FlushSubmit, FlushFinish time.Duration
	Params                   SchedulerParams
	ReprioritizeInterval     time.Duration

	Halftime           time.Duration // in which usage decays to half of it; 0 for no decay
	UsageWeights       []Weight      // usage_weight_list
	CompensationFactor float64       // 0 for no compensation
	// The weights of the shares of the functional policy.
	WeightUser, WeightProject, WeightDepartment, WeightJob float64
	WeightTicketsFunctional, WeightTicketsShare            int // the tickets of a policy; 0 switches it off
	ShareOverrideTickets, ShareFunctionalShares            bool
	MaxFunctionalJobsToSchedule                            int
	ReportPJobTickets                                      bool
	MaxPendingTasksPerJob                                  int        // at least 1
	HalflifeDecayList                                      []HalfLife // overrides Halftime for the listed kinds of usage
	PolicyHierarchy                                        string     // letters O, F and S; empty for NONE

	WeightTicket, WeightWaitingTime, WeightDeadline, WeightUrgency, WeightPriority float64

	MaxReservation  int           // reservations in a run; 0 switches them off
	DefaultDuration time.Duration // of jobs that say nothing; Forever for INFINITY
}

// QueueSortMethod is queue_sort_method of sched_conf(5).
type QueueSortMethod string

// The values of queue_sort_method.
const (
	SortByLoad  QueueSortMethod = "load"
	SortBySeqNo QueueSortMethod = "seqno"
)

// JobInfo is schedd_job_info of sched_conf(5): the jobs for which the scheduler records why they do
// not start.
type JobInfo struct {
	All  bool
	Jobs []Range // with All false, these only
}

// HalfLife is an element of halflife_decay_list.
type HalfLife struct {
	Usage string
	// Time is in which the usage decays to half of it: 0 for no decay, and
	// negative where the usage of running jobs only counts.
	Time time.Duration
}

// PERangeAlgorithm is PE_RANGE_ALG of params: the search for the number of slots of a parallel job
// that requests a range.
type PERangeAlgorithm string

// The values of PE_RANGE_ALG.
const (
	PERangeAuto    PERangeAlgorithm = "auto"
	PERangeLeast   PERangeAlgorithm = "least"
	PERangeBin     PERangeAlgorithm = "bin"
	PERangeHighest PERangeAlgorithm = "highest"
)

// SchedulerParams is params of sched_conf(5).
type SchedulerParams struct {
	Profile, Monitor, JCFilter bool
	DurationOffset             time.Duration // planned in addition to the run time of each job
	PERangeAlg                 PERangeAlgorithm
	// BindingAware, which only execd has, makes jobs with -binding wait for hosts with free cores.
	BindingAware bool
}

// defaultDurationOffset is DURATION_OFFSET where params does not have it.
const defaultDurationOffset = 60 * time.Second

var schedulerTable = table[SchedulerConfig]{
	object: "scheduler configuration",
	manual: "sched_conf(5)",
	layout: layout{column: 34},
	rows:   schedulerRows(),
}

// schedulerRows are the parameters of sched_conf(5) with the values of a new
// cluster, in the order of qconf -ssconf.
func schedulerRows() []attribute[SchedulerConfig] {
	type conf = *SchedulerConfig
	return []attribute[SchedulerConfig]{
		row("algorithm", "default", kind[SchedulerConfig]{read: readAlgorithm}),
		row("schedule_interval", "0:0:15", duration(0, func(c conf) *time.Duration { return &c.ScheduleInterval })),
		row("maxujobs", "0", unsigned(0, func(c conf) *int { return &c.MaxUJobs })),
		// Other words, which the original takes for "load", are refused.
		row("queue_sort_method", "load", keyword(func(c conf) *QueueSortMethod { return &c.QueueSortMethod }, SortByLoad, SortBySeqNo)),
		row("job_load_adjustments", "np_load_avg=0.50", kind[SchedulerConfig]{breaks: betweenItems, read: readLoadAdjustments}),
		row("load_adjustment_decay_time", "0:7:30", duration(0, func(c conf) *time.Duration { return &c.LoadAdjustmentDecayTime })),
		row("load_formula", "np_load_avg", kind[SchedulerConfig]{read: readLoadFormula}),
		row("schedd_job_info", "true", kind[SchedulerConfig]{read: readJobInfo}),
		row("flush_submit_sec", "0", units(time.Second, func(c conf) *time.Duration { return &c.FlushSubmit })),
		row("flush_finish_sec", "0", units(time.Second, func(c conf) *time.Duration { return &c.FlushFinish })),
		row("params", "none", kind[SchedulerConfig]{breaks: betweenItems, read: readSchedulerParams}),
		row("reprioritize_interval", "0:0:0", duration(0, func(c conf) *time.Duration { return &c.ReprioritizeInterval })),
		row("halftime", "168", units(time.Hour, func(c conf) *time.Duration { return &c.Halftime })),
		row("usage_weight_list", "cpu=1.000000,mem=0.000000,io=0.000000", weights(CheckName, func(c conf) *[]Weight { return &c.UsageWeights })),
		row("compensation_factor", "5.000000", float(func(c conf) *float64 { return &c.CompensationFactor })),
		row("weight_user", "0.250000", float(func(c conf) *float64 { return &c.WeightUser })),
		row("weight_project", "0.250000", float(func(c conf) *float64 { return &c.WeightProject })),
		row("weight_department", "0.250000", float(func(c conf) *float64 { return &c.WeightDepartment })),
		row("weight_job", "0.250000", float(func(c conf) *float64 { return &c.WeightJob })),
		row("weight_tickets_functional", "0", unsigned(0, func(c conf) *int { return &c.WeightTicketsFunctional })),
		row("weight_tickets_share", "0", unsigned(0, func(c conf) *int { return &c.WeightTicketsShare })),
		row("share_override_tickets", "TRUE", boolean(func(c conf) *bool { return &c.ShareOverrideTickets })),
		row("share_functional_shares", "TRUE", boolean(func(c conf) *bool { return &c.ShareFunctionalShares })),
		row("max_functional_jobs_to_schedule", "200", unsigned(0, func(c conf) *int { return &c.MaxFunctionalJobsToSchedule })),
		row("report_pjob_tickets", "TRUE", boolean(func(c conf) *bool { return &c.ReportPJobTickets })),
		row("max_pending_tasks_per_job", "50", unsigned(1, func(c conf) *int { return &c.MaxPendingTasksPerJob })),
		row("halflife_decay_list", "none", kind[SchedulerConfig]{breaks: betweenItems, read: readHalflives}),
		row("policy_hierarchy", "OFS", kind[SchedulerConfig]{read: readPolicyHierarchy}),
		row("weight_ticket", "0.500000", float(func(c conf) *float64 { return &c.WeightTicket })),
		row("weight_waiting_time", "0.278000", float(func(c conf) *float64 { return &c.WeightWaitingTime })),
		row("weight_deadline", "3600000.000000", float(func(c conf) *float64 { return &c.WeightDeadline })),
		row("weight_urgency", "0.500000", float(func(c conf) *float64 { return &c.WeightUrgency })),
		row("weight_priority", "0.000000", float(func(c conf) *float64 { return &c.WeightPriority })),
		row("max_reservation", "0", unsigned(0, func(c conf) *int { return &c.MaxReservation })),
		row("default_duration", "INFINITY", durationOrForever(func(c conf) *time.Duration { return &c.DefaultDuration })),
	}
}

// ParseSchedulerConfig reads sched_conf(5). file is only used in errors, which
// are all *Error, joined. Nil data gives the values of a new cluster.
func ParseSchedulerConfig(file string, data []byte) (*SchedulerConfig, error) {
	return whole(newSchedulerConfig(schedulerTable.parse(file, data)))
}

// With returns the configuration with one parameter changed, or the reason why
// it cannot have that value.
func (c *SchedulerConfig) With(parameter, value string) (*SchedulerConfig, error) {
	return whole(newSchedulerConfig(schedulerTable.with(c.Text, parameter, value)))
}

func newSchedulerConfig(text Text, c SchedulerConfig, err error) (*SchedulerConfig, error) {
	c.Text = text
	if c.MaxReservation > 0 && c.DefaultDuration == 0 {
		v, _ := c.Value("default_duration")
		err = errJoin(problems(err), c.errorAt("default_duration", v, fmt.Sprintf("%q is not possible with max_reservation %d, expected a time above 0, or INFINITY", v, c.MaxReservation), nil))
	}
	return &c, err
}

// units returns a number of seconds or hours.
func units(unit time.Duration, field func(*SchedulerConfig) *time.Duration) kind[SchedulerConfig] {
	return kind[SchedulerConfig]{read: func(c *SchedulerConfig, s string) (string, error) {
		var n int
		normal, err := number(0, min(math.MaxUint32, int(Forever/unit)), func(n *int) *int { return n }).read(&n, s)
		*field(c) = time.Duration(n) * unit
		return normal, err
	}}
}

func readAlgorithm(c *SchedulerConfig, s string) (string, error) {
	c.Algorithm = s
	if s != "default" && s != "simple_sched" && !strings.HasPrefix(s, "ext_") {
		return s, fmt.Errorf("%q is not an algorithm, expected default", s)
	}
	return s, nil
}

// readLoadAdjustments reads name=number,... and keeps the numbers as they are
// written: qconf prints them like that.
func readLoadAdjustments(c *SchedulerConfig, s string) (string, error) {
	normal, err := settings(func(c *SchedulerConfig) *[]Setting { return &c.JobLoadAdjustments }).read(c, s)
	errs := problems(err)
	for _, a := range c.JobLoadAdjustments {
		if _, bad := complexNumber(a.Value); bad != nil {
			errs = addError(errs, fmt.Errorf("%q is not a number in %s=%s, expected one like 0.5", a.Value, a.Name, a.Value))
		}
	}
	return normal, errJoin(errs)
}

// formulaOperators stand between the terms and factors of load formulas and
// dynamic limits.
const formulaOperators = "+-*/&|^"

func readLoadFormula(c *SchedulerConfig, s string) (string, error) {
	s = strings.Join(strings.Fields(s), "")
	c.LoadFormula = s
	if isWord(s, none) {
		return s, fmt.Errorf("%q is not a load formula, expected one like np_load_avg", s)
	}
	return s, checkFormula(s)
}

// checkFormula refuses text that is not a sum of terms like np_load_avg*2, as far as possible
// without the complexes.
func checkFormula(s string) error {
	for _, t := range formulaTerms(s) {
		if len(t) > 2 {
			return fmt.Errorf("%q has a term with more than one weight", s)
		}
		for i, factor := range t {
			_, notNumber := complexNumber(factor)
			switch name := strings.TrimPrefix(factor, "$"); {
			case notNumber == nil && factor != "":
			case i > 0:
				return fmt.Errorf("%q has the weight %q, expected a number after the operator", s, factor)
			default:
				if err := CheckName(name); err != nil {
					return fmt.Errorf("%q is not a formula: %w", s, err)
				}
			}
		}
	}
	return nil
}

// formulaTerms splits a formula into its terms, and these into their factors.
// A sign at the beginning of a factor belongs to it.
func formulaTerms(s string) [][]string {
	terms, from := [][]string{nil}, 0
	last := func() *[]string { return &terms[len(terms)-1] }
	for i := range len(s) {
		if i == from && (s[i] == '-' || s[i] == '+') || strings.IndexByte(formulaOperators, s[i]) < 0 {
			continue
		}
		if (s[i] == '-' || s[i] == '+') && beforeExponent(s[from:i]) {
			continue
		}
		*last() = append(*last(), s[from:i])
		if s[i] == '+' || s[i] == '-' {
			terms = append(terms, nil)
		}
		from = i + 1
	}
	*last() = append(*last(), s[from:])
	if first := terms[0]; len(first[0]) > 1 && first[0][0] == '-' {
		first[0] = first[0][1:]
	}
	return terms
}

// beforeExponent reports whether s is a number that lacks its exponent: "1e".
func beforeExponent(s string) bool {
	number, ok := strings.CutSuffix(strings.ToLower(s), "e")
	_, err := decimal(number)
	return ok && err == nil
}

func readJobInfo(c *SchedulerConfig, s string) (string, error) {
	c.ScheddJobInfo = JobInfo{}
	switch s {
	case "true":
		c.ScheddJobInfo.All = true
		return s, nil
	case "false":
		return s, nil
	}
	list, ok := strings.CutPrefix(s, "job_list ")
	if !ok || isWord(strings.Trim(list, blanks), none) {
		return s, fmt.Errorf("%q is unknown, expected true, false, or job_list with job numbers like 7,10-12", s)
	}
	if _, err := ranges(1, math.MaxUint32, func(c *SchedulerConfig) *[]Range { return &c.ScheddJobInfo.Jobs }).read(c, list); err != nil {
		return s, err
	}
	return s, nil
}

func readSchedulerParams(c *SchedulerConfig, s string) (string, error) {
	c.Params = SchedulerParams{DurationOffset: defaultDurationOffset, PERangeAlg: PERangeAuto}
	if isWord(s, none) {
		return s, nil
	}
	type params = *SchedulerParams
	flag := func(field func(params) *bool) kind[SchedulerParams] {
		return kind[SchedulerParams]{read: func(p params, s string) (string, error) {
			*field(p) = isWord(s, "1", "true")
			if !*field(p) && !isWord(s, "0", "false") {
				return s, fmt.Errorf("%q is unknown, expected 0, 1, false or true", s)
			}
			return s, nil
		}}
	}
	known := []struct {
		name string
		kind[SchedulerParams]
	}{
		{"PROFILE", flag(func(p params) *bool { return &p.Profile })},
		{"MONITOR", flag(func(p params) *bool { return &p.Monitor })},
		{"JC_FILTER", flag(func(p params) *bool { return &p.JCFilter })},
		{"DURATION_OFFSET", duration(0, func(p params) *time.Duration { return &p.DurationOffset })},
		{"PE_RANGE_ALG", keyword(func(p params) *PERangeAlgorithm { return &p.PERangeAlg }, PERangeAuto, PERangeLeast, PERangeBin, PERangeHighest)},
		{"BINDING_AWARE", flag(func(p params) *bool { return &p.BindingAware })},
	}
	var errs []error
	for _, item := range words(s) {
		key, value, _ := strings.Cut(item, "=")
		found := false
		for _, k := range known {
			if !strings.EqualFold(key, k.name) {
				continue
			}
			found = true
			_, err := k.read(&c.Params, value)
			errs = append(errs, within(k.name, err))
		}
		if !found {
			errs = addError(errs, fmt.Errorf("%q is unknown, expected NONE or PROFILE, MONITOR, JC_FILTER, DURATION_OFFSET, PE_RANGE_ALG, BINDING_AWARE, each with =value", item))
		}
	}
	// qconf prints them as they were written, including the separators. A blank after a comma comes
	// from a line break.
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), ", ", ","), errJoin(errs)
}

// readHalflives reads usage=minutes:usage=minutes...
func readHalflives(c *SchedulerConfig, s string) (string, error) {
	c.HalflifeDecayList = nil
	if isWord(s, none) {
		return s, nil
	}
	var errs []error
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(":, \t", r) }) {
		usage, minutes, ok := strings.Cut(item, "=")
		v, err := decimal(minutes)
		if !ok || err != nil || math.Abs(v) > float64(Forever/time.Minute/2) {
			errs = addError(errs, fmt.Errorf("%q is not an element of the list, expected usage=minutes like cpu=60:mem=-1, or NONE", item))
			continue
		}
		if err := CheckName(usage); err != nil {
			errs = addError(errs, err)
			continue
		}
		c.HalflifeDecayList = append(c.HalflifeDecayList, HalfLife{Usage: usage, Time: time.Duration(v * float64(time.Minute))})
	}
	if c.HalflifeDecayList == nil && errs == nil {
		errs = addError(errs, fmt.Errorf("%q is an empty list, expected usage=minutes like cpu=60:mem=-1, or NONE", s))
	}
	return s, errJoin(errs)
}

func readPolicyHierarchy(c *SchedulerConfig, s string) (string, error) {
	c.PolicyHierarchy = ""
	if isWord(s, none) {
		return s, nil
	}
	for i := range len(s) {
		if strings.IndexByte("OFS", s[i]) < 0 || strings.IndexByte(s[:i], s[i]) >= 0 {
			return s, fmt.Errorf("%q is not a policy hierarchy, expected the letters O, F, S, each once at most, or NONE", s)
		}
	}
	c.PolicyHierarchy = s
	return s, nil
}
