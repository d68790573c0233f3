package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/loadsensor/external"
)

// Source is the agent; agent.Commands is one.
type Source interface {
	Health() agent.Health
	Jobs() []agent.JobReport
}

// Options are the sources of the metrics.
type Options struct {
	Agent Source
	// Sensors says how load sensors fare; nil for none.
	Sensors func() []external.Status
	// Audit says how often the audit log could not be written, and how many of its records are
	// lost; nil for none.
	Audit func() (failures, lost uint64)
	// Unhealthy returns problems that are not in agent.Health.Troubles, one sentence each. It may
	// be nil.
	Unhealthy func() []string
}

// Metrics holds the metrics of an agent. Make one with New.
type Metrics struct {
	options  Options
	registry *prometheus.Registry

	starts, lost prometheus.Counter
	refusals     *prometheus.CounterVec // code
	ends         *prometheus.CounterVec // failed
}

// codes are the codes of refused starts.
var codes = []agent.Code{
	agent.InvalidArgument, agent.AlreadyExists, agent.PermissionDenied, agent.FailedPrecondition,
	agent.ResourceExhausted, agent.Unavailable, agent.Internal,
}

// New makes the metrics of an agent.
func New(o Options) *Metrics {
	m := &Metrics{
		options: o, registry: prometheus.NewRegistry(),
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "execd_job_starts_total", Help: "Jobs that were accepted, tasks of parallel jobs included.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "execd_job_refusals_total", Help: "Starts that were refused, by the code of the error.",
		}, []string{"code"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "execd_job_ends_total", Help: "Jobs that have ended, by the failure code of sge_status(5); 0 is for those that ran.",
		}, []string{"failed"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "execd_mails_failed_total", Help: "Notification mails that could not be sent.",
		}),
	}
	// Events that have not occurred yet are 0, not missing.
	for _, c := range codes {
		m.refusals.WithLabelValues(string(c))
	}
	m.Ended(job.FailedNone, 0)
	m.registry.MustRegister(m.starts, m.refusals, m.ends, m.lost, &collector{o},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Started counts a job that was accepted, for the first time.
func (m *Metrics) Started() { m.starts.Inc() }

// Refused counts a start that was refused.
func (m *Metrics) Refused(code agent.Code) { m.refusals.WithLabelValues(string(code)).Inc() }

// Ended counts jobs that have ended.
func (m *Metrics) Ended(failed job.Failed, jobs int) {
	m.ends.WithLabelValues(strconv.Itoa(int(failed))).Add(float64(jobs))
}

// MailFailed counts a notification mail that could not be sent.
func (m *Metrics) MailFailed() { m.lost.Inc() }
