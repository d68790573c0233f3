package daemon

// Usage is the output of execd agent --help.
const Usage = `Usage: execd agent [options]

Runs the jobs that a master starts on this host, and reports the host's load. It stays in
the foreground. SIGTERM stops it; jobs continue, and the next agent finds them. SIGHUP
makes it read the configuration again.

Files and names
  --conf DIR           configuration directory (default: /etc/execd/conf if it exists,
                       else built in)
  --spool DIR          spool directory: the state of jobs (default:
                       /var/spool/execd/agent, without root below XDG_STATE_HOME)
  --host NAME          this host, as the master spells it (default: what hostname
                       prints)
  --accounting FILE    accounting file, see accounting(5) (default: accounting in the
                       spool directory; none: no file)
  --audit FILE         audit log: who changed what (default: audit in the spool
                       directory, without root no file; none: no file)
  --procedures FILE    programs that the master may run as users other than the owner
                       of a job (default: /etc/execd/procedures; without it, all,
                       with --front-user none)
  --audit-required     refuse changes while the audit log cannot be written

Access
  --socket PATH        Unix socket for callers on this host (default:
                       /run/execd/agent.sock, without root below XDG_RUNTIME_DIR)
  --manager USER       user with the rights of root on the socket; may be repeated
  --listen ADDRESS     TCP address, host:port, for masters with a certificate
  --tls-cert FILE      certificate of this agent
  --tls-key FILE       key of this certificate
  --tls-ca FILE        authorities that sign certificates of masters
  --master NAME        DNS name in the certificate of a master; may be repeated. The
                       name gridengine is for a real sge_qmaster: the agent joins the
                       cell of SGE_ROOT and SGE_CELL in place of sge_execd
  --master-version VERSION
                       release of the sge_qmaster: 8.1.9, 9.0, 9.1 (default: auto,
                       which tries them)
  --gpu-complex NAME   consumable with which the sge_qmaster counts GPUs: the agent
                       chooses GPUs for jobs that request it, and keeps all jobs
                       from the others (default: none, jobs open all GPUs)
  --listen-loopback ADDRESS
                       TCP without certificates, on a loopback address
  --token-file FILE    file with the token that callers there must send
  --web ADDRESS        TCP address, host:port, of pages for browsers over TLS: see
                       execd-web(1) (default: none). --tls-ca may be missing

Operation
  --front-user USER    run the agent as this user, and only what starts jobs as root:
                       see execd(8) for what is not possible then (default: one
                       process, or as the spool directory was made)
  --only PROCESS       with --front-user: start only the launcher or the front, for
                       a service manager that starts both
  --one-process        do not divide the agent
  --metrics ADDRESS    Prometheus metrics and /healthz (default: none)
  --sensor-user USER   user of load sensors (default: nobody, without root the
                       user of the agent, in a cell of Grid Engine its admin_user)
  --health-check FILE  script that can take this host out of service
  --health-user USER   user of the health check (default: nobody)
  --health-interval TIME
                       interval of the health check (default: 5m)
  --hang-up TIME       how long an interactive job waits for a client that was
                       disconnected before it is terminated; none: forever
                       (default: 5m)
  --gpu-root DIR       find GPUs in DIR/proc and DIR/sys, for tests without GPUs
                       (default: /)
  --log-level LEVEL    trace, debug, info, warn or error (default: info); name=LEVEL
                       for one part (agent, api, gridengine, health, load,
                       mail, master); may be repeated
  --log-json           log as JSON
  --help               print this text

Exit status: 0 after SIGTERM or an order to shut down, 1 after a failure, 2 for wrong
usage, 125 if it could not start.
`

// StandaloneUsage is the output of execd standalone --help.
const StandaloneUsage = `Usage: execd standalone [options]

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
  --web ADDRESS        TCP address, host:port, of pages for browsers over TLS: see
                       execd-web(1) (default: none)
  --tls-cert FILE      certificate of the pages
  --tls-key FILE       key of this certificate
  --tls-ca FILE        authorities that sign certificates of users

Operation
  --front-user USER    run the daemon as this user, and only what starts jobs as root
                       (default: execd with a new spool directory, if there is such
                       a user: see execd-standalone(8), TWO PROCESSES)
  --only PROCESS       with --front-user: start only the launcher or the front, for
                       a service manager that starts both
  --one-process        do not divide the daemon
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
  --gpu-root DIR       find GPUs in DIR/proc and DIR/sys, for tests without GPUs
                       (default: /)
  --log-level LEVEL    trace, debug, info, warn or error (default: info); name=LEVEL
                       for one part (agent, api, health, load, mail, master); may be
                       repeated
  --log-json           log as JSON
  --help               print this text

Exit status: 0 after SIGTERM or an order to shut down, 1 after a failure, 2 for wrong
usage, 125 if it could not start.
`
