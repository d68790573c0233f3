package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/options"
)

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood      = 0
	ExitFailed    = 1   // it ran and ended because of an error
	ExitCannotRun = 125 // it could not begin
)

type settings struct {
	conf, spool, host, accounting  string
	socket                         string
	managers                       []string
	listen, tlsCert, tlsKey, tlsCA string
	web                            string // address of pages for browsers; empty for none
	masters                        []string
	loopback, tokenFile            string
	metrics, sensorUser            string
	healthCheck, healthUser        string
	healthIntervalText             string
	healthInterval                 time.Duration // 0 for the default
	hangUpText                     string
	hangUp                         time.Duration
	logLevels                      []string
	logJSON                        bool
	audit                          string           // file, empty for none
	ownMaster                      bool             // it is in this process
	procedures                     string           // the name of the file; empty for none
	proceduresRequired             bool             // --procedures names the file, which must exist
	permitted                      *procedures.File // programs that may run as other users; nil for all programs
	auditRequired                  bool
	perUserText, reserveText       string
	memoryText                     string
	memory                         Share // of the memory of the host, for a user
	perUser, reserve               Share // of the file system of the spool area, with a master for users
	gpuRoot                        string
	gpuComplex                     string // with which an sge_qmaster counts GPUs; empty for none
	gridengine                     bool   // the master is an sge_qmaster
	masterVersion                  string // of the sge_qmaster; empty to find it out
	protocol                       *message.Protocol
	frontUser                      string // of a front; empty for one process
	chosen                         bool   // frontUser is a default, and not an option
	oneProcess                     bool   // --one-process
	only                           string // --only: which of the two processes to start; empty for both
	launcher                       int    // the descriptor of the launcher of this front; -1 for none
}

const none = "none"

// The values of --only.
const (
	onlyFront    = "front"
	onlyLauncher = "launcher"
)

// standalone is the name of the command that has a master for users.
const standalone = "standalone"

// The default limits for users on the file system of the spool area: a tenth of it for each user,
// and a reserve of a twentieth.
var (
	defaultPerUser = Percent(10, 0)
	defaultReserve = Percent(5, 1<<30)
	// A share of the host's memory. Small requests take up to three times the memory that they
	// count.
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
		return s, options.Usagef("--%s: %v; expected a percentage such as 10%%, a size such as 500M, or %s", option, err, none)
	}
	return s, nil
}

// usageOf returns the help text of a command.
func usageOf(name string) string {
	if name == standalone {
		return StandaloneUsage
	}
	return Usage
}

func parse(name string, args []string) (*settings, error) {
	s := &settings{ownMaster: name == standalone, launcher: launcherDescriptor()}
	to := options.Values{
		"conf": &s.conf, "spool": &s.spool, "host": &s.host, "accounting": &s.accounting, "audit": &s.audit, "socket": &s.socket,
		"metrics": &s.metrics, "sensor-user": &s.sensorUser, "health-check": &s.healthCheck, "health-user": &s.healthUser,
		"health-interval": &s.healthIntervalText, "hang-up": &s.hangUpText, "gpu-root": &s.gpuRoot, "manager": &s.managers, "log-level": &s.logLevels,
		"log-json": &s.logJSON, "audit-required": &s.auditRequired, "front-user": &s.frontUser, "one-process": &s.oneProcess, "only": &s.only,
		"web": &s.web, "tls-cert": &s.tlsCert, "tls-key": &s.tlsKey, "tls-ca": &s.tlsCA,
	}
	// How other masters than the daemon itself get to it.
	others := options.Values{
		"listen":          &s.listen,
		"listen-loopback": &s.loopback, "token-file": &s.tokenFile, "procedures": &s.procedures, "master": &s.masters, "master-version": &s.masterVersion,
		"gpu-complex": &s.gpuComplex,
	}
	if s.ownMaster {
		to["spool-per-user"], to["spool-reserve"], to["memory-per-user"] = &s.perUserText, &s.reserveText, &s.memoryText
	} else {
		maps.Copy(to, others)
	}
	line, err := options.Parse(usageOf(name), args, to)
	if e, ok := errors.AsType[*options.UsageError](err); ok && s.ownMaster && others[e.Unknown] != nil {
		err = options.Usagef("--%s is an option of execd agent: execd standalone is the only master of this host, and has commands come to its socket", e.Unknown)
	}
	if err != nil {
		return nil, err
	}
	if len(line.Operands) > 0 {
		return nil, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	return s, s.complete()
}

// complexName matches the names of complex attributes. The name becomes a part of a variable's name.
var complexName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// auto is the --master-version that has the agent find out which it is.
const auto = "auto"

// masterGridengine is the --master that is not a name in a certificate.
const masterGridengine = "gridengine"

// complete fills in the defaults, and refuses options that contradict each other.
func (s *settings) complete() error {
	before := len(s.masters)
	s.masters = slices.DeleteFunc(s.masters, func(name string) bool { return name == masterGridengine })
	s.gridengine = len(s.masters) < before
	switch {
	case s.gridengine && (len(s.masters) > 0 || s.listen != ""):
		return options.Usagef("--master gridengine: the sge_qmaster is the only master, and takes no --listen")
	case s.gridengine && s.accounting == "":
		s.accounting = none // qmaster writes it
	}
	if s.masterVersion != "" && s.masterVersion != auto {
		if s.protocol = message.ProtocolNamed(s.masterVersion); s.protocol == nil {
			return options.Usagef("--master-version %q, expected %s, or %s", s.masterVersion, auto, strings.Join(message.ProtocolNames(), ", "))
		}
	}
	if s.masterVersion != "" && !s.gridengine {
		return options.Usagef("--master-version is for --master gridengine, which is missing")
	}
	switch {
	case s.gpuComplex != "" && !s.gridengine:
		return options.Usagef("--gpu-complex is for --master gridengine, which is missing: other masters know the GPUs of a host")
	case s.gpuComplex != "" && !complexName().MatchString(s.gpuComplex):
		return options.Usagef("--gpu-complex %q, expected the name of a complex attribute", s.gpuComplex)
	}
	switch {
	case s.oneProcess && s.frontUser != "":
		return options.Usagef("--one-process and --front-user contradict each other: give one of them")
	case s.only != "" && s.frontUser == "":
		return options.Usagef("--only is for --front-user, which is missing")
	case s.only != "" && s.only != onlyFront && s.only != onlyLauncher:
		return options.Usagef("--only %q, expected %s or %s", s.only, onlyFront, onlyLauncher)
	}
	tls := s.tlsCert != "" || s.tlsKey != "" || s.tlsCA != "" || len(s.masters) > 0
	switch {
	case s.listen == "" && len(s.masters) > 0:
		return options.Usagef("--master is for --listen, which is missing")
	case s.listen == "" && s.web == "" && tls:
		return options.Usagef("--tls-cert, --tls-key and --tls-ca are for %s, which is missing", map[bool]string{true: "--web", false: "--listen or --web"}[s.ownMaster])
	case s.listen != "" && (s.tlsCert == "" || s.tlsKey == "" || s.tlsCA == "" || len(s.masters) == 0):
		return options.Usagef("--listen needs --tls-cert, --tls-key, --tls-ca and --master; without certificates there is --listen-loopback")
	case (s.loopback == "") != (s.tokenFile == ""):
		return options.Usagef("--listen-loopback and --token-file need each other")
	}
	if err := s.checkWeb(); err != nil {
		return err
	}
	switch s.hangUpText {
	case "":
	case none:
		s.hangUp = -1
	default:
		var err error
		if s.hangUp, err = time.ParseDuration(s.hangUpText); err != nil || s.hangUp <= 0 {
			return options.Usagef("--hang-up %q, expected a time such as 5m or 90s, or %s", s.hangUpText, none)
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
			return options.Usagef("--health-interval %q, expected a time such as 5m or 90s", s.healthIntervalText)
		}
	}
	root := os.Getuid() == 0 || s.isFront()
	if s.host == "" && !s.gridengine {
		var err error
		if s.host, err = os.Hostname(); err != nil {
			return err
		}
	}
	if s.spool == "" {
		var ok bool
		if s.spool, ok = paths.Spool(root); !ok {
			return errors.New("cannot determine the spool directory: give --spool, or set XDG_STATE_HOME or HOME to an absolute path")
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
	if s.gpuRoot == "" {
		s.gpuRoot = "/"
	}
	if s.gpuRoot, err = filepath.Abs(s.gpuRoot); err != nil {
		return err
	}
	if s.sensorUser == "" && os.Getuid() == 0 && !s.gridengine {
		s.sensorUser = "nobody"
	}
	switch {
	case s.audit == "" && root:
		s.audit = filepath.Join(s.place(), "audit")
	case s.audit == none:
		s.audit = ""
	case s.audit != "":
		if s.audit, err = filepath.Abs(s.audit); err != nil {
			return err
		}
	}
	if s.auditRequired && s.audit == "" {
		return options.Usagef("--audit-required needs an audit log: give --audit FILE")
	}
	switch s.accounting {
	case "":
		s.accounting = filepath.Join(s.place(), "accounting")
	case none:
		s.accounting = ""
	default:
		if s.accounting, err = filepath.Abs(s.accounting); err != nil {
			return err
		}
	}
	return s.readProcedures(root)
}

// trust refuses files and directories that others could change.
func (s *settings) trust() error { return errors.Join(s.trustPlaces(), s.trustFiles()) }
