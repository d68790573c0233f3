package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/nearest"
)

// The exit statuses of the command.
const (
	ExitGood      = 0
	ExitFailed    = 1   // it ran, and something ended it
	ExitUsage     = 2   // wrong usage
	ExitCannotRun = 125 // it could not begin
)

// Usage is what --help prints.
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
                       of a job (default: /etc/execd/procedures; without it, all)
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
  --listen-loopback ADDRESS
                       TCP without certificates, on a loopback address
  --token-file FILE    file with the token that callers there must send

Operation
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
  --log-level LEVEL    trace, debug, info, warn or error (default: info); name=LEVEL
                       for one part (agent, api, gridengine, health, load,
                       mail, master); may be repeated
  --log-json           log as JSON
  --help               print this text

Exit status: 0 after SIGTERM or an order to shut down, 1 after a failure, 2 for wrong
usage, 125 if it could not start.
`

// UsageError is a command that was said wrongly.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

var errHelp = errors.New("help was asked for")

type settings struct {
	conf, spool, host, accounting  string
	socket                         string
	managers                       list
	listen, tlsCert, tlsKey, tlsCA string
	masters                        list
	loopback, tokenFile            string
	metrics, sensorUser            string
	healthCheck, healthUser        string
	healthIntervalText             string
	healthInterval                 time.Duration // 0 for the default
	hangUpText                     string
	hangUp                         time.Duration
	logLevels                      list
	logJSON                        bool
	audit                          string           // file, empty for none
	ownMaster                      bool             // it is in this process
	procedures                     string           // the name of the file; empty for none
	permitted                      *procedures.File // what may run as other users; nil for all
	auditRequired                  bool
	perUserText, reserveText       string
	memoryText                     string
	memory                         Share // of the memory of the host, for a user
	perUser, reserve               Share // of the file system of the spool area, where there is a master for users
	gridengine                     bool  // the master is an sge_qmaster
}

// list is an option that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

const none = "none"

// standalone is the name of the command that has a master for users.
const standalone = "standalone"

// What users may take of the file system of the spool area by default: a tenth each, and
// nothing of the last twentieth.
var (
	defaultPerUser = Percent(10, 0)
	defaultReserve = Percent(5, 1<<30)
	// Of the memory of the host. Small requests take up to three times what they count.
	defaultMemory = Percent(5, 0)
)

// share reads the value of an option.
func share(option, text string, otherwise Share) (Share, error) {
	switch text {
	case "":
		return otherwise, nil
	case none:
		return Share{}, nil
	}
	s, err := ParseShare(text)
	if err != nil {
		return s, &UsageError{fmt.Sprintf("--%s: %v; expected a percentage such as 10%%, a size such as 500M, or %s", option, err, none)}
	}
	return s, nil
}

func parse(name string, args []string) (*settings, error) {
	s := &settings{ownMaster: name == standalone}
	flags := flag.NewFlagSet("execd "+name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, to := range map[string]*string{
		"conf": &s.conf, "spool": &s.spool, "host": &s.host, "accounting": &s.accounting, "audit": &s.audit, "socket": &s.socket,
		"metrics":     &s.metrics,
		"sensor-user": &s.sensorUser, "health-check": &s.healthCheck, "health-user": &s.healthUser, "health-interval": &s.healthIntervalText,
		"hang-up": &s.hangUpText,
	} {
		flags.StringVar(to, name, "", "")
	}
	// How other masters than the daemon itself get to it.
	others := flag.NewFlagSet("", flag.ContinueOnError)
	if name != standalone {
		others = flags
	} else {
		flags.StringVar(&s.perUserText, "spool-per-user", "", "")
		flags.StringVar(&s.reserveText, "spool-reserve", "", "")
		flags.StringVar(&s.memoryText, "memory-per-user", "", "")
	}
	for name, to := range map[string]*string{
		"listen": &s.listen, "tls-cert": &s.tlsCert, "tls-key": &s.tlsKey, "tls-ca": &s.tlsCA,
		"listen-loopback": &s.loopback, "token-file": &s.tokenFile, "procedures": &s.procedures,
	} {
		others.StringVar(to, name, "", "")
	}
	others.Var(&s.masters, "master", "")
	flags.Var(&s.managers, "manager", "")
	flags.Var(&s.logLevels, "log-level", "")
	flags.BoolVar(&s.logJSON, "log-json", false, "")
	flags.BoolVar(&s.auditRequired, "audit-required", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, errHelp
	case err != nil:
		problem := nearest.Option(flags, err)
		option, unknown := strings.CutPrefix(problem, "unknown option --")
		if option, _, _ = strings.Cut(option, " "); unknown && others.Lookup(option) != nil {
			problem = "--" + option + " is an option of execd agent: execd standalone is the only master of this host, and has commands come to its socket"
		}
		return nil, &UsageError{problem}
	case flags.NArg() > 0:
		return nil, &UsageError{fmt.Sprintf("unexpected argument %q", flags.Arg(0))}
	}
	return s, s.complete()
}

// masterGridengine is the --master that is no name in a certificate.
const masterGridengine = "gridengine"

// complete fills in the defaults, and refuses what does not go together.
func (s *settings) complete() error {
	before := len(s.masters)
	s.masters = slices.DeleteFunc(s.masters, func(name string) bool { return name == masterGridengine })
	s.gridengine = len(s.masters) < before
	switch {
	case s.gridengine && (len(s.masters) > 0 || s.listen != ""):
		return &UsageError{"--master gridengine: the sge_qmaster is the only master, and takes no --listen"}
	case s.gridengine && s.accounting == "":
		s.accounting = none // qmaster writes it
	}
	tls := s.tlsCert != "" || s.tlsKey != "" || s.tlsCA != "" || len(s.masters) > 0
	switch {
	case s.listen == "" && tls:
		return &UsageError{"--tls-cert, --tls-key, --tls-ca and --master are for --listen, which is missing"}
	case s.listen != "" && (s.tlsCert == "" || s.tlsKey == "" || s.tlsCA == "" || len(s.masters) == 0):
		return &UsageError{"--listen needs --tls-cert, --tls-key, --tls-ca and --master; without certificates there is --listen-loopback"}
	case (s.loopback == "") != (s.tokenFile == ""):
		return &UsageError{"--listen-loopback and --token-file need each other"}
	}
	switch s.hangUpText {
	case "":
	case none:
		s.hangUp = -1
	default:
		var err error
		if s.hangUp, err = time.ParseDuration(s.hangUpText); err != nil || s.hangUp <= 0 {
			return &UsageError{fmt.Sprintf("--hang-up %q, expected a time such as 5m or 90s, or %s", s.hangUpText, none)}
		}
	}
	var err error
	if s.perUser, err = share("spool-per-user", s.perUserText, defaultPerUser); err != nil {
		return err
	}
	if s.reserve, err = share("spool-reserve", s.reserveText, defaultReserve); err != nil {
		return err
	}
	if s.memory, err = share("memory-per-user", s.memoryText, defaultMemory); err != nil {
		return err
	}
	if s.healthIntervalText != "" {
		var err error
		if s.healthInterval, err = time.ParseDuration(s.healthIntervalText); err != nil || s.healthInterval <= 0 {
			return &UsageError{fmt.Sprintf("--health-interval %q, expected a time such as 5m or 90s", s.healthIntervalText)}
		}
	}
	root := os.Getuid() == 0
	if s.host == "" && !s.gridengine {
		var err error
		if s.host, err = os.Hostname(); err != nil {
			return err
		}
	}
	if s.spool == "" {
		var ok bool
		if s.spool, ok = paths.Spool(root); !ok {
			return errors.New("no place for what is kept of jobs: give --spool, or set XDG_STATE_HOME or HOME to an absolute path")
		}
	}
	if s.spool, err = filepath.Abs(s.spool); err != nil {
		return err
	}
	if s.healthCheck != "" {
		if s.healthCheck, err = filepath.Abs(s.healthCheck); err != nil {
			return err
		}
	}
	if s.socket == "" {
		s.socket = paths.Socket(root, s.spool)
	}
	if s.conf == "" {
		if _, err := os.Stat(paths.Conf); err == nil && root {
			s.conf = paths.Conf
		}
	} else if _, err := os.ReadDir(s.conf); err != nil {
		return fmt.Errorf("--conf: %w", err)
	}
	if s.sensorUser == "" && root && !s.gridengine {
		s.sensorUser = "nobody"
	}
	switch {
	case s.audit == "" && root:
		s.audit = filepath.Join(s.spool, "audit")
	case s.audit == none:
		s.audit = ""
	case s.audit != "":
		if s.audit, err = filepath.Abs(s.audit); err != nil {
			return err
		}
	}
	if s.auditRequired && s.audit == "" {
		return &UsageError{"--audit-required needs an audit log: give --audit FILE"}
	}
	switch s.accounting {
	case "":
		s.accounting = filepath.Join(s.spool, "accounting")
	case none:
		s.accounting = ""
	default:
		if s.accounting, err = filepath.Abs(s.accounting); err != nil {
			return err
		}
	}
	return errors.Join(s.trustPlaces(), s.trustFiles(), s.readProcedures(root))
}
