package standalone

import (
	"io"

	"github.com/execd-project/execd/agent/daemon"
)

// Usage is what --help prints.
const Usage = `Usage: execd standalone [options]

A batch system on this machine: takes jobs (execd qsub), decides which of them starts
when, and runs them. It stays in the foreground; SIGTERM ends it. What waits and what
runs is kept: the next one goes on with it. SIGHUP has the configuration read again.

As root it is for all users of the machine, as anybody else for that user alone.
Without a configuration directory there is one queue, all.q, with a slot for each
processor; execd qconf changes that.

What it is and where it works
  --conf DIR           configuration directory (default: /etc/execd/conf if there is
                       one, else what is built in and what execd qconf has changed)
  --spool DIR          what is kept of jobs (default: /var/spool/execd/agent, without
                       root below XDG_STATE_HOME)
  --host NAME          this host (default: what hostname prints)
  --accounting FILE    records of accounting(5) (default: accounting in the spool
                       directory; none for none)
  --audit FILE         audit log: who has changed what (default: audit in the spool
                       directory, without root none; none for none)
  --audit-required     change nothing while the audit log cannot be written

  --spool-per-user SIZE
                       what scripts and requests of one user's jobs may take there, as
                       a size such as 500M or a part of the file system such as 20%;
                       none for any amount (default: 10%)
  --spool-reserve SIZE
                       what new jobs leave free there (default: 5%, at most 1G)

Who may use it
  --socket PATH        Unix socket for the commands (default: /run/execd/agent.sock,
                       without root below XDG_RUNTIME_DIR)
  --manager USER       manager of the cell (qconf(1), -am); may be repeated

Operation
  --metrics ADDRESS    Prometheus metrics and /healthz (default: none)
  --sensor-user USER   whom load sensors run as (default: nobody, without root the
                       user of the daemon)
  --health-check FILE  script that may take this host out of service
  --health-user USER   whom it runs as (default: nobody)
  --health-interval TIME
                       how often it runs (default: 5m)
  --hang-up TIME       how long an interactive job waits for a client that has gone
                       without a word, until it is terminated; none for ever (default:
                       5m)
  --log-level LEVEL    trace, debug, info, warn or error (default: info); name=LEVEL
                       for one part (agent, api, health, load, mail, master); may be
                       repeated
  --log-json           the log as JSON
  --help               print this text

Exit status: 0 after SIGTERM or an order to shut down, 1 if something else ended it, 2
for wrong usage, 125 if it could not begin.
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
			m, err := newMaster(h)
			if err != nil {
				return nil, err // and no *Master that is nil
			}
			return m, nil
		},
	}
	return d.Run()
}
