package metrics

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor/external"
)

// An agent.Commands is a Source.
var _ Source = agent.Commands(nil)

var began = time.Unix(1790000000, 500_000_000)

// fake is an agent with answers that the test sets.
type fake struct {
	mu     sync.Mutex
	health agent.Health
	jobs   []agent.JobReport
}

func (f *fake) Health() agent.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

func (f *fake) Jobs() []agent.JobReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs
}

func busy() *fake {
	return &fake{
		health: agent.Health{
			Host: "h", Version: "v1", Started: began, Epoch: 7, Slots: 8, Used: 3, Configuration: "abc",
			Jobs: map[agent.State]int{agent.Running: 2, agent.Reported: 1},
		},
		jobs: []agent.JobReport{
			{
				ID: job.ID{Job: 1}, State: agent.Running, Owner: "alice", Slots: 2, Started: began,
				Usage: jobdir.Online{CPU: 12.5, Vmem: 1 << 20, MaxVmem: 2 << 20},
				GPU:   &agent.GPUReport{GPUUsage: job.GPUUsage{Count: 2, Measured: 30, Busy: 2.5}, Idle: map[string]time.Time{"0": began}},
			},
			{ID: job.ID{Job: 1, PETask: "1.h"}, State: agent.Running, Owner: "alice", Slots: 1, Started: began},
			{ID: job.ID{Job: 2, Task: 3}, State: agent.Accepted, Owner: "b\xff\"\n", Slots: 1, GPU: &agent.GPUReport{GPUUsage: job.GPUUsage{Count: 1}}},
			{ID: job.ID{Job: 4}, State: agent.Reported, Owner: "carol", Slots: 1, Started: began},
		},
	}
}

func sensors() []external.Status {
	return []external.Status{
		{Path: "/s/good", Starts: 1, Reports: 2, LastReport: began, Took: 250 * time.Millisecond, Violations: 3},
		{Path: "/s/bad", Starts: 9, Fault: "it does not answer"},
		{Path: "/s/good", State: external.Ending},
	}
}

// ofJobs are the names of the series that a job has.
var ofJobs = []string{
	"execd_job_start_time_seconds", "execd_job_slots", "execd_job_cpu_seconds_total", "execd_job_memory_bytes", "execd_job_memory_max_bytes",
	"execd_job_gpus", "execd_job_gpu_busy_seconds_total", "execd_job_gpu_measured_seconds_total", "execd_job_gpu_memory_max_bytes", "execd_job_gpus_idle",
}

func TestJobs(t *testing.T) {
	f := busy()
	m := New(Options{Agent: f})
	want := `
# HELP execd_job_cpu_seconds_total CPU time of all processes of the job.
# TYPE execd_job_cpu_seconds_total counter
execd_job_cpu_seconds_total{job_id="1",owner="alice",pe_task="",task=""} 12.5
execd_job_cpu_seconds_total{job_id="1",owner="alice",pe_task="1.h",task=""} 0
execd_job_cpu_seconds_total{job_id="2",owner="b` + "\uFFFD" + `\"\n",pe_task="",task="3"} 0
# HELP execd_job_gpu_busy_seconds_total Time in which the GPUs of the job computed, as far as it is measured.
# TYPE execd_job_gpu_busy_seconds_total counter
execd_job_gpu_busy_seconds_total{job_id="1",owner="alice",pe_task="",task=""} 2.5
# HELP execd_job_gpu_measured_seconds_total Time for which the use of the job's GPUs is measured.
# TYPE execd_job_gpu_measured_seconds_total counter
execd_job_gpu_measured_seconds_total{job_id="1",owner="alice",pe_task="",task=""} 30
# HELP execd_job_gpus GPUs of the job.
# TYPE execd_job_gpus gauge
execd_job_gpus{job_id="1",owner="alice",pe_task="",task=""} 2
execd_job_gpus{job_id="2",owner="b` + "\uFFFD" + `\"\n",pe_task="",task="3"} 1
# HELP execd_job_gpus_idle GPUs that the job has not used for ten minutes or longer.
# TYPE execd_job_gpus_idle gauge
execd_job_gpus_idle{job_id="1",owner="alice",pe_task="",task=""} 1
# HELP execd_job_memory_max_bytes The most RAM and swap that the job has had.
# TYPE execd_job_memory_max_bytes gauge
execd_job_memory_max_bytes{job_id="1",owner="alice",pe_task="",task=""} 2.097152e+06
execd_job_memory_max_bytes{job_id="1",owner="alice",pe_task="1.h",task=""} 0
execd_job_memory_max_bytes{job_id="2",owner="b` + "\uFFFD" + `\"\n",pe_task="",task="3"} 0
# HELP execd_job_start_time_seconds When the job began to run.
# TYPE execd_job_start_time_seconds gauge
execd_job_start_time_seconds{job_id="1",owner="alice",pe_task="",task=""} 1.7900000005e+09
execd_job_start_time_seconds{job_id="1",owner="alice",pe_task="1.h",task=""} 1.7900000005e+09
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want),
		"execd_job_cpu_seconds_total", "execd_job_memory_max_bytes", "execd_job_start_time_seconds", "execd_job_gpus", "execd_job_gpu_busy_seconds_total",
		"execd_job_gpu_measured_seconds_total", "execd_job_gpu_memory_max_bytes", "execd_job_gpus_idle"); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	f.jobs = nil
	f.mu.Unlock()
	if n, err := testutil.GatherAndCount(m.registry, ofJobs...); n != 0 || err != nil {
		t.Errorf("%d series of jobs are left (%v)", n, err)
	}
}

func TestAgent(t *testing.T) {
	f := busy()
	f.health.Draining, f.health.Troubles, f.health.ConfigurationError = "by order", []string{"one"}, "x:1: bad"
	m := New(Options{Agent: f, Sensors: sensors, Unhealthy: func() []string { return []string{"two"} }})
	want := `
# HELP execd_configuration_error 1 while there is a configuration that cannot be used.
# TYPE execd_configuration_error gauge
execd_configuration_error 1
# HELP execd_configuration_info Always 1; the label is the version of the configuration in use.
# TYPE execd_configuration_info gauge
execd_configuration_info{version="abc"} 1
# HELP execd_draining 1 while the agent takes no jobs.
# TYPE execd_draining gauge
execd_draining 1
# HELP execd_jobs Jobs in the agent's table, by state.
# TYPE execd_jobs gauge
execd_jobs{state="accepted"} 0
execd_jobs{state="acknowledged"} 0
execd_jobs{state="ended"} 0
execd_jobs{state="ending"} 0
execd_jobs{state="received"} 0
execd_jobs{state="reported"} 1
execd_jobs{state="running"} 2
execd_jobs{state="starting"} 0
execd_jobs{state="suspended"} 0
# HELP execd_load_sensor_last_report_timestamp_seconds When the last report of the load sensor came.
# TYPE execd_load_sensor_last_report_timestamp_seconds gauge
execd_load_sensor_last_report_timestamp_seconds{path="/s/good"} 1.7900000005e+09
# HELP execd_load_sensor_report_duration_seconds How long the load sensor took for its last report.
# TYPE execd_load_sensor_report_duration_seconds gauge
execd_load_sensor_report_duration_seconds{path="/s/good"} 0.25
# HELP execd_load_sensor_up 0 while the load sensor is not as it should be: it was not started, ended, or does not answer.
# TYPE execd_load_sensor_up gauge
execd_load_sensor_up{path="/s/bad"} 0
execd_load_sensor_up{path="/s/good"} 1
# HELP execd_load_sensor_violations_total Lines of the load sensor that are not what its protocol says.
# TYPE execd_load_sensor_violations_total counter
execd_load_sensor_violations_total{path="/s/bad"} 0
execd_load_sensor_violations_total{path="/s/good"} 3
# HELP execd_master_epoch The largest number of a master that has started a job.
# TYPE execd_master_epoch gauge
execd_master_epoch 7
# HELP execd_slots Slots of all queue instances of this host; 0 where they are not known.
# TYPE execd_slots gauge
execd_slots 8
# HELP execd_slots_used Slots that are in use.
# TYPE execd_slots_used gauge
execd_slots_used 3
# HELP execd_start_time_seconds When the agent was started.
# TYPE execd_start_time_seconds gauge
execd_start_time_seconds 1.7900000005e+09
# HELP execd_troubles Current faults; /healthz names them.
# TYPE execd_troubles gauge
execd_troubles 2
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want),
		"execd_configuration_error", "execd_configuration_info", "execd_draining", "execd_jobs", "execd_load_sensor_last_report_timestamp_seconds",
		"execd_load_sensor_report_duration_seconds", "execd_load_sensor_up", "execd_load_sensor_violations_total",
		"execd_master_epoch", "execd_slots", "execd_slots_used", "execd_start_time_seconds", "execd_troubles"); err != nil {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	m := New(Options{Agent: busy()})
	m.Started()
	m.Started()
	m.Refused(agent.FailedPrecondition)
	m.Ended(job.FailedNone, 5)
	m.Ended(job.FailedLimit, 1)
	m.MailFailed()
	want := `
# HELP execd_job_ends_total Jobs that have ended, by the failure code of sge_status(5); 0 is for those that ran.
# TYPE execd_job_ends_total counter
execd_job_ends_total{failed="0"} 5
execd_job_ends_total{failed="37"} 1
# HELP execd_job_refusals_total Starts that were refused, by the code of the error.
# TYPE execd_job_refusals_total counter
execd_job_refusals_total{code="already_exists"} 0
execd_job_refusals_total{code="failed_precondition"} 1
execd_job_refusals_total{code="internal"} 0
execd_job_refusals_total{code="invalid_argument"} 0
execd_job_refusals_total{code="permission_denied"} 0
execd_job_refusals_total{code="resource_exhausted"} 0
execd_job_refusals_total{code="unavailable"} 0
# HELP execd_job_starts_total Jobs that were accepted, tasks of parallel jobs included.
# TYPE execd_job_starts_total counter
execd_job_starts_total 2
# HELP execd_mails_failed_total Notification mails that could not be sent.
# TYPE execd_mails_failed_total counter
execd_mails_failed_total 1
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want),
		"execd_job_ends_total", "execd_job_refusals_total", "execd_job_starts_total", "execd_mails_failed_total"); err != nil {
		t.Error(err)
	}
}

// TestMetricNamesPassPrometheusLinter checks names, units and texts with Prometheus's own linter.
func TestMetricNamesPassPrometheusLinter(t *testing.T) {
	m := New(Options{Agent: busy(), Sensors: sensors})
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "execd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	// What is described is all there is.
	pedantic := prometheus.NewPedanticRegistry()
	pedantic.MustRegister(&collector{Options{Agent: busy(), Sensors: sensors}})
	if _, err := pedantic.Gather(); err != nil {
		t.Error(err)
	}
}

func TestHealth(t *testing.T) {
	tests := map[string]struct {
		change    func(*agent.Health)
		unhealthy []string
		code      int
		want      Status
	}{
		"it takes jobs": {
			func(*agent.Health) {}, nil, 200,
			Status{Status: "ok", Host: "h", Version: "v1", Jobs: 2},
		},
		"it is drained by order": {
			func(h *agent.Health) { h.Draining = "administrator: disks" }, nil, 200,
			Status{Status: "draining", Host: "h", Version: "v1", Jobs: 2, Draining: "administrator: disks"},
		},
		"something does not work": {
			func(h *agent.Health) { h.Draining, h.Troubles = "x", []string{"spool: full"} }, nil, 503,
			Status{Status: "trouble", Host: "h", Version: "v1", Jobs: 2, Draining: "x", Troubles: []string{"spool: full"}},
		},
		"the health check has found something": {
			func(h *agent.Health) { h.Troubles = []string{"a"} },
			[]string{"b"},
			503,
			Status{Status: "trouble", Host: "h", Version: "v1", Jobs: 2, Troubles: []string{"a", "b"}},
		},
		"a configuration that cannot be used": {
			func(h *agent.Health) { h.ConfigurationError = "queues/a:1: bad" }, nil, 503,
			Status{Status: "trouble", Host: "h", Version: "v1", Jobs: 2, Troubles: []string{"the configuration cannot be used: queues/a:1: bad"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := busy()
			test.change(&f.health)
			m := New(Options{Agent: f, Unhealthy: func() []string { return test.unhealthy }})
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			var got Status
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); w.Code != test.code || diff != "" {
				t.Errorf("status %d, want %d; want (-) and got (+):\n%s", w.Code, test.code, diff)
			}
		})
	}
}

// TestAgentThatHangs asks more often than there may be questions at a time.
func TestAgentThatHangs(t *testing.T) {
	f := busy()
	m := New(Options{Agent: f})
	handler := m.health(time.Millisecond)
	ask := func(h http.Handler) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		return w.Code, w.Body.String()
	}
	f.mu.Lock()
	for range 3 * maxRequests {
		if code, body := ask(handler); code != 503 || !strings.Contains(body, "the agent has not answered within 1ms") {
			t.Errorf("status %d, %s", code, body)
		}
	}
	f.mu.Unlock()
	if code, body := ask(m.health(time.Minute)); code != 200 {
		t.Errorf("afterwards: status %d, %s", code, body)
	}
}

func TestOnlyMetricsAndHealthAreServed(t *testing.T) {
	server := httptest.NewServer(New(Options{Agent: busy(), Sensors: sensors}).Handler())
	defer server.Close()
	for path, want := range map[string]int{
		"/metrics": 200, "/healthz": 200, "/": 404, "/metrics/x": 404, "/debug/pprof/": 404, "/healthz/../metrics": 200,
	} {
		r, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != want || err != nil {
			t.Errorf("%s: status %d, want %d\n%s (%v)", path, r.StatusCode, want, body, err)
		}
		if path == "/metrics" && !strings.Contains(string(body), "\nprocess_open_fds ") {
			t.Errorf("%s says nothing of the process:\n%s", path, body)
		}
	}
	r, err := server.Client().Post(server.URL+"/metrics", "text/plain", strings.NewReader("x"))
	if err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", r, err)
	}
	r.Body.Close()
}
