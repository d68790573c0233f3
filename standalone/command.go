package standalone

import (
	"io"

	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/internal/clock"
)

// Usage is what --help prints.
const Usage = `Usage: execd standalone [options]

Runs a batch system on this machine: takes jobs (execd qsub), schedules and runs them. It
stays in the foreground. SIGTERM stops it; pending and running jobs are not lost, and the
next daemon continues with them. SIGHUP makes it read the configuration again.

A daemon of root serves all users of the machine, a daemon of a user that user only.
Without a configuration directory there is one queue, all.q, with one slot per
processor; change it with execd qconf.

Files and names
  --conf DIR           configuration directory (default: /etc/execd/conf if it exists,
                       else built in, with the changes of execd qconf)
  --spool DIR          spool directory: the state of jobs (default:
                       /var/spool/execd/agent, without root below XDG_STATE_HOME)
  --host NAME          this host (default: what hostname prints)
  --accounting FILE    accounting file, see accounting(5) (default: accounting in the
                       spool directory; none: no file)
  --audit FILE         audit log: who changed what (default: audit in the spool
                       directory, without root no file; none: no file)
  --audit-required     refuse changes while the audit log cannot be written

  --spool-per-user SIZE
                       limit for scripts and requests of one user's jobs in the spool
                       directory: a size such as 500M, a part of the file system such
                       as 20%, or none (default: 10%)
  --memory-per-user SIZE
                       limit for what the daemon keeps in memory for one user's jobs: a
                       size, a part of the host's memory, or none (default: 5%)
  --spool-reserve SIZE
                       space in the spool directory that new jobs leave free
                       (default: 5%, at most 1G)

Access
  --socket PATH        Unix socket for the commands (default: /run/execd/agent.sock,
                       without root below XDG_RUNTIME_DIR)
  --manager USER       manager of the cell (qconf(1), -am); may be repeated

Operation
  --metrics ADDRESS    Prometheus metrics and /healthz (default: none)
  --sensor-user USER   user of load sensors (default: nobody, without root the
                       user of the daemon)
  --health-check FILE  script that can take this host out of service
  --health-user USER   user of the health check (default: nobody)
  --health-interval TIME
                       interval of the health check (default: 5m)
  --hang-up TIME       how long an interactive job waits for a client that was
                       disconnected before it is terminated; none: forever
                       (default: 5m)
  --log-level LEVEL    trace, debug, info, warn or error (default: info); name=LEVEL
                       for one part (agent, api, health, load, mail, master); may be
                       repeated
  --log-json           log as JSON
  --help               print this text

Exit status: 0 after SIGTERM or an order to shut down, 1 after a failure, 2 for wrong
usage, 125 if it could not start.
`

// Command is one call of execd standalone.
type Command struct {
	Args           []string // words after "execd standalone"
	Stdout, Stderr io.Writer
	Executable     string // path of execd itself: the supervisor lies beside it
	Version        string
}

// Run carries the command out and returns the exit status. The error, if there is one, has
// not been shown yet; that of a wrong usage is a *daemon.UsageError.
func (c *Command) Run() (int, error) {
	d := daemon.Command{
		Args: c.Args, Stdout: c.Stdout, Stderr: c.Stderr, Executable: c.Executable, Version: c.Version,
		Name: "standalone", Usage: Usage,
		Master: func(h *daemon.Host) (daemon.Master, error) {
			m, err := New(h, clock.System())
			if err != nil {
				return nil, err // and no *Master that is nil
			}
			return m, nil
		},
	}
	return d.Run()
}
