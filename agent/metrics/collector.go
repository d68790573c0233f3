package metrics

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/protocol"
)

// desc describes a metric without constant labels.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	buildInfo = desc("execd_build_info", "Always 1; the labels say which execd it is.", "version", "goversion")
	startTime = desc("execd_start_time_seconds", "When the agent was started.")
	jobs      = desc("execd_jobs", "Jobs in the agent's table, by state.", "state")
	slots     = desc("execd_slots", "Slots of all queue instances of this host; 0 where they are not known.")
	slotsUsed = desc("execd_slots_used", "Slots that are in use.")
	draining  = desc("execd_draining", "1 while the agent takes no jobs.")
	troubles  = desc("execd_troubles", "Current faults; /healthz names them.")
	confError = desc("execd_configuration_error", "1 while there is a configuration that cannot be used.")
	confInfo  = desc("execd_configuration_info", "Always 1; the label is the version of the configuration in use.", "version")
	epoch     = desc("execd_master_epoch", "The largest number of a master that has started a job.")
)

var (
	auditErrors = desc("execd_audit_errors_total", "How often the audit log could not be written.")
	auditLost   = desc("execd_audit_records_lost_total", "Records of the audit log that are lost, because it could not be written for too long.")
)

// One series for each job that holds slots, and for each task of a parallel job.
var (
	jobLabels = []string{"job_id", "task", "pe_task", "owner"}

	jobStart  = desc("execd_job_start_time_seconds", "When the job began to run.", jobLabels...)
	jobSlots  = desc("execd_job_slots", "Slots of the job on this host.", jobLabels...)
	jobCPU    = desc("execd_job_cpu_seconds_total", "CPU time of all processes of the job.", jobLabels...)
	jobMemory = desc("execd_job_memory_bytes", "RAM and swap of all processes of the job.", jobLabels...)
	jobMax    = desc("execd_job_memory_max_bytes", "The most RAM and swap that the job has had.", jobLabels...)

	// Only of jobs with GPUs. What is not measured has no series.
	jobGPUs       = desc("execd_job_gpus", "GPUs of the job.", jobLabels...)
	jobGPUBusy    = desc("execd_job_gpu_busy_seconds_total", "Time in which the GPUs of the job computed, as far as it is measured.", jobLabels...)
	jobGPUTime    = desc("execd_job_gpu_measured_seconds_total", "Time for which the use of the job's GPUs is measured.", jobLabels...)
	jobGPUMemory  = desc("execd_job_gpu_memory_max_bytes", "The most memory of its GPUs that the job has had.", jobLabels...)
	jobGPUsUnused = desc("execd_job_gpus_idle", "GPUs that the job has not used for ten minutes or longer.", jobLabels...)
)

var (
	sensorUp         = desc("execd_load_sensor_up", "0 while the load sensor is not as it should be: it was not started, ended, or does not answer.", "path")
	sensorStarts     = desc("execd_load_sensor_starts_total", "How often the load sensor was started.", "path")
	sensorReports    = desc("execd_load_sensor_reports_total", "Whole reports of the load sensor.", "path")
	sensorViolations = desc("execd_load_sensor_violations_total", "Lines of the load sensor that are not what its protocol says.", "path")
	sensorLast       = desc("execd_load_sensor_last_report_timestamp_seconds", "When the last report of the load sensor came.", "path")
	sensorTook       = desc("execd_load_sensor_report_duration_seconds", "How long the load sensor took for its last report.", "path")
)

// collector queries the agent at each scrape.
type collector struct{ Options }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, startTime, jobs, slots, slotsUsed, draining, troubles, confError, confInfo, epoch,
		jobStart, jobSlots, jobCPU, jobMemory, jobMax,
		jobGPUs, jobGPUBusy, jobGPUTime, jobGPUMemory, jobGPUsUnused,
		auditErrors, auditLost,
		sensorUp, sensorStarts, sensorReports, sensorViolations, sensorLast, sensorTook,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := sink{ch}
	h := c.Agent.Health()
	s.gauge(buildInfo, 1, h.Version, runtime.Version())
	s.gauge(startTime, seconds(h.Started.UnixNano()))
	for _, state := range protocol.States() {
		s.gauge(jobs, float64(h.Jobs[state]), string(state))
	}
	s.gauge(slots, float64(h.Slots))
	s.gauge(slotsUsed, float64(h.Used))
	s.gauge(draining, truth(h.Draining != ""))
	s.gauge(troubles, float64(len(c.troubles(&h))))
	s.gauge(confError, truth(h.ConfigurationError != ""))
	s.gauge(confInfo, 1, h.Configuration)
	s.gauge(epoch, float64(h.Epoch))
	for _, r := range c.Agent.Jobs() {
		if r.State.Live() {
			s.job(&r)
		}
	}
	if c.Audit != nil {
		failures, lost := c.Audit()
		s.counter(auditErrors, float64(failures))
		s.counter(auditLost, float64(lost))
	}
	if c.Sensors != nil {
		s.sensors(c.Options)
	}
}

// troubles returns the problems of the agent and those of Options.Unhealthy.
func (o *Options) troubles(h *agent.Health) []string {
	all := append([]string{}, h.Troubles...)
	if o.Unhealthy != nil {
		all = append(all, o.Unhealthy()...)
	}
	return all
}

// sink makes metrics of values.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.value(d, prometheus.GaugeValue, value, labels)
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.value(d, prometheus.CounterValue, value, labels)
}

func (s sink) value(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD") // names of users and paths are bytes
	}
	m, err := prometheus.NewConstMetric(d, kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s.ch <- m
}

func (s sink) job(r *agent.JobReport) {
	task := ""
	if r.ID.Task != 0 {
		task = strconv.Itoa(r.ID.Task)
	}
	labels := func() []string { return []string{strconv.Itoa(r.ID.Job), task, r.ID.PETask, r.Owner} }
	if !r.Started.IsZero() {
		s.gauge(jobStart, seconds(r.Started.UnixNano()), labels()...)
	}
	s.gauge(jobSlots, float64(r.Slots), labels()...)
	s.counter(jobCPU, r.Usage.CPU, labels()...)
	s.gauge(jobMemory, float64(r.Usage.Vmem), labels()...)
	s.gauge(jobMax, float64(r.Usage.MaxVmem), labels()...)
	g := r.GPU
	if g == nil {
		return
	}
	s.gauge(jobGPUs, float64(g.Count), labels()...)
	if g.Measured > 0 {
		s.counter(jobGPUBusy, g.Busy, labels()...)
		s.counter(jobGPUTime, g.Measured, labels()...)
		s.gauge(jobGPUsUnused, float64(len(g.Idle)), labels()...)
	}
	if g.MaxMemory > 0 {
		s.gauge(jobGPUMemory, float64(g.MaxMemory), labels()...)
	}
}

func (s sink) sensors(o Options) {
	seen := map[string]bool{}
	for _, st := range o.Sensors() {
		if seen[st.Path] { // a sensor that is ending, and its successor
			continue
		}
		seen[st.Path] = true
		s.gauge(sensorUp, truth(st.Fault == ""), st.Path)
		s.counter(sensorStarts, float64(st.Starts), st.Path)
		s.counter(sensorReports, float64(st.Reports), st.Path)
		s.counter(sensorViolations, float64(st.Violations), st.Path)
		if st.Reports > 0 {
			s.gauge(sensorLast, seconds(st.LastReport.UnixNano()), st.Path)
			s.gauge(sensorTook, st.Took.Seconds(), st.Path)
		}
	}
}

func seconds(nano int64) float64 { return float64(nano) / 1e9 }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
