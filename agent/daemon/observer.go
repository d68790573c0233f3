package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/agent/metrics"
	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/internal/usagetext"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor/external"
)

// mailPatience is how long mail that waits at the end of the agent has.
const mailPatience = 10 * time.Second

// observer sends mail and counts.
type observer struct {
	daemon  *daemon
	metrics *metrics.Metrics
	outbox  *mail.Outbox
}

var _ agent.Observer = (*observer)(nil)

func newObserver(d *daemon) *observer {
	o := &observer{daemon: d}
	o.metrics = metrics.New(metrics.Options{
		Agent:   source{d},
		Sensors: func() []external.Status { return d.load.Status().Sensors },
		Audit:   d.auditCounts(),
		Unhealthy: func() (list []string) {
			if err := d.audit.Err(); err != nil {
				list = append(list, err.Error())
			}
			if d.health != nil && d.health.Status().Reason != "" {
				list = append(list, "health check "+d.health.Status().Path+": "+d.health.Status().Reason)
			}
			return list
		},
	})
	o.outbox = mail.NewOutbox(nil, o.mailFailed)
	if d.client != nil {
		// The mailer may need set-group-ID programs, which a front cannot run. If root's configuration has another mailer than
		// that of the master, the front runs the latter by itself.
		o.outbox.Through = func(mailer string, m mail.Message) (bool, error) {
			err := d.client.Mail(mailer, m)
			if errors.Is(err, launcher.ErrMailer) {
				return false, nil
			}
			return true, err
		}
	}
	return o
}

func (o *observer) mailFailed(owner string, m mail.Message, err error) {
	o.daemon.logOf("mail").Warn("a mail was not sent", "owner", owner, "subject", m.Subject, "error", err)
	o.metrics.MailFailed()
}

// source is the agent, which is made after the observer.
type source struct{ d *daemon }

func (s source) Health() agent.Health    { return s.d.agent.Health() }
func (s source) Jobs() []agent.JobReport { return s.d.agent.Jobs() }

func (o *observer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), mailPatience)
	defer cancel()
	o.outbox.Close(ctx)
}

// post sends a mail with the mailer of this host.
func (o *observer) post(owner string, m mail.Message, wanted bool) {
	if !wanted {
		return
	}
	mailer := o.daemon.agent.Cluster().Config(o.daemon.host).Mailer
	if mailer == "" {
		return
	}
	if user, _ := job.Procedure(mailer); user != "" && user != owner {
		if err := o.daemon.permit(user, mailer); err != nil {
			o.mailFailed(owner, m, fmt.Errorf("mailer: %w", err))
			return
		}
	}
	o.outbox.Post(mailer, owner, m)
}

func (o *observer) Started()             { o.metrics.Started() }
func (o *observer) Refused(c agent.Code) { o.metrics.Refused(c) }

func (o *observer) Began(_ *agent.Record, d *job.Description, at time.Time) {
	m, wanted := mail.AtBegin(d, at)
	o.post(d.Owner, m, wanted)
}

func (o *observer) Suspended(d *job.Description, began time.Time, resumed bool) {
	m, wanted := mail.AtSuspension(d, began, resumed)
	o.post(d.Owner, m, wanted)
}

func (o *observer) IdleGPUs(d *job.Description, ids []string) {
	m, wanted := mail.AtIdleGPUs(d, ids, agent.IdleGPU)
	o.post(d.Owner, m, wanted)
	o.daemon.logOf("agent").Info("a job does not use its GPUs", "job", d.ID.String(), "owner", d.Owner, "gpus", strings.Join(ids, " "), "for", agent.IdleGPU)
}

func (o *observer) Ended(r *agent.Record, d *job.Description, outcome *job.Outcome) {
	o.metrics.Ended(outcome.Failed, 1)
	m, wanted := mail.AtEnd(d, outcome, true)
	if wanted && outcome.Ran {
		var used accounting.Efficiency
		used.Add(recordOf(r, d, outcome))
		m = mail.WithUsage(m, usagetext.Line(&used))
	}
	if wanted && outcome.Failed != job.FailedNone && o.daemon.master != nil {
		if who := o.daemon.master.DeletedBy(d.ID); who != "" {
			m = mail.WithDeleter(m, d, who)
		}
	}
	o.post(d.Owner, m, wanted)
	o.tellAdministrators(d, outcome)
}

// tellAdministrators sends mail for a failure that is not the job's own matter.
func (o *observer) tellAdministrators(d *job.Description, outcome *job.Outcome) {
	if outcome.Failed == job.FailedNone {
		return
	}
	dir := o.daemon.jobPath(d.ID)
	c := o.daemon.agent.Cluster().Config(o.daemon.host)
	m, wanted := mail.AtFailure(d, outcome, c.AdministratorMail, c.MailTag, mail.Files{
		Trace: ending(dir, jobdir.FileTrace), Error: ending(dir, jobdir.FileError), PEHosts: ending(dir, jobdir.FilePEHosts),
	})
	as := mail.DefaultUser // also if the owner of the job is not known any more
	if os.Getuid() != 0 {
		as = d.Owner
	}
	o.post(as, m, wanted)
}

// mostEnding is how much of a file of a job is sent to administrators.
const mostEnding = 8 << 10

// ending returns the last complete lines of a file of a job directory; "" if it cannot be read.
func ending(dir, name string) string {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b := make([]byte, min(info.Size(), mostEnding))
	n, err := f.ReadAt(b, info.Size()-int64(len(b)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	text := string(b[:n])
	if info.Size() > mostEnding {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// serveMetrics listens where --metrics says.
func (d *daemon) serveMetrics(ctx context.Context) error {
	if d.metrics == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.metrics)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	d.beside.Go(func() {
		if err := d.observer.metrics.Serve(ctx, l); err != nil {
			d.log.Error("cannot continue to serve metrics", "error", err)
		}
	})
	return nil
}
