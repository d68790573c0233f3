package agent

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// sayIneffective writes to the log which parameters are set and have no effect here, each once.
func (a *Agent) sayIneffective(c *qconf.Configuration) {
	p := &c.ExecdParams
	names := append([]string(nil), p.Unknown...)
	names = append(names, p.Ineffective...)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, "=")
	}
	for _, name := range a.settings.unsaid(names) {
		a.log.Warn("a parameter of execd_params has no effect here, see execd-conf(5)", "parameter", name)
	}
}

// executionParams returns the present execd_params.
func (a *Agent) executionParams() *qconf.ExecdParams {
	return &a.Cluster().Config(a.options.Host).ExecdParams
}

// accounts reports whether accounting records are enabled (sge_conf(5), reporting_params).
func (a *Agent) accounts() bool { return a.Cluster().Config(a.options.Host).ReportingParams.Accounting }

// accounted returns an outcome for the accounting record: if so configured, with the reserved
// instead of the actual usage.
func (a *Agent) accounted(d *job.Description, o *job.Outcome) *job.Outcome {
	if !a.executionParams().AcctReservedUsage || !o.Ran {
		return o
	}
	changed := *o
	accounting.Reserve(d, &changed.Usage)
	return &changed
}

// reserve replaces the usage in a report by the reserved usage if the share tree uses that
// (SHARETREE_RESERVED_USAGE). The caller holds the lock of the table.
func (a *Agent) reserve(e *entry, r *JobReport) {
	if e.run == nil || !a.executionParams().SharetreeReservedUsage {
		return
	}
	if !r.Usage.At.IsZero() {
		u := job.Usage{Wallclock: r.Usage.Wallclock}
		accounting.Reserve(e.run.Description, &u)
		r.Usage.CPU, r.Usage.Mem, r.Usage.Vmem, r.Usage.MaxVmem = u.CPU, u.Mem, u.MaxVmem, u.MaxVmem
	}
	if r.Outcome != nil && r.Outcome.Ran {
		changed := *r.Outcome
		accounting.Reserve(e.run.Description, &changed.Usage)
		r.Outcome = &changed
	}
}

// submitGroup returns the primary group of the submission; 0 if it is not used (USE_QSUB_GID).
func (a *Agent) submitGroup(s *Start, c *qconf.Configuration) (int, error) {
	if !c.ExecdParams.UseQsubGID || s.Group == "" {
		return 0, nil
	}
	gid, err := a.groupID(s.Group)
	if err != nil {
		return 0, fmt.Errorf("cannot run job %s with the primary group of its submission, %s (USE_QSUB_GID): %w", s.ID, s.Group, err)
	}
	return int(gid), nil
}
