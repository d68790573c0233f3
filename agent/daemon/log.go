package daemon

import (
	"bytes"
	"fmt"
	"io"
	"log/syslog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printable"
)

// parts are the parts of the agent that have a log level of their own.
var parts = []string{"agent", "api", "audit", "gridengine", "health", "load", "mail", "master"}

// newLog makes the log, with a level for all and others for parts of it.
func newLog(w io.Writer, s *settings) (log hclog.Logger, levels map[string]hclog.Level, err error) {
	log = hclog.New(&hclog.LoggerOptions{
		Name: "execd", Output: &entries{w, s.logJSON}, JSONFormat: s.logJSON, Level: hclog.Info, IndependentLevels: true,
		DisableTime: os.Getenv("JOURNAL_STREAM") != "" && !s.logJSON, // the journal has its own
		TimeFormat:  logTime,
	})
	levels = map[string]hclog.Level{}
	for _, text := range s.logLevels {
		part, word, ok := strings.Cut(text, "=")
		if !ok {
			part, word = "", text
		}
		level := hclog.LevelFromString(word)
		switch {
		case level == hclog.NoLevel:
			return nil, nil, options.Usagef("--log-level %s: %q is no level, expected trace, debug, info, warn or error", text, word)
		case part == "":
			log.SetLevel(level)
		case !slices.Contains(parts, part):
			return nil, nil, options.Usagef("--log-level %s: there is no part %q, expected one of %s", text, part, strings.Join(parts, ", "))
		default:
			levels[part] = level
		}
	}
	return log, levels, nil
}

// entries receives the entries of hclog, each in one call. Users choose the names, paths and
// reasons in them. hclog escapes strings, but neither messages nor elements of slices, and it
// prints values of several lines on separate lines after " | ". entries adds that prefix to every
// line of an entry except the first, so that no line can look like another entry, and escapes
// control characters.
type entries struct {
	to   io.Writer
	json bool
}

// continued begins the further lines of an entry.
const continued = "  | "

// Write implements io.Writer; hclog calls LevelWrite.
func (e *entries) Write(p []byte) (int, error) { return e.LevelWrite(hclog.Info, p) }

// LevelWrite implements hclog.LevelWriter.
func (e *entries) LevelWrite(level hclog.Level, p []byte) (n int, err error) {
	text := e.safe(p)
	if to, ok := e.to.(hclog.LevelWriter); ok {
		_, err = to.LevelWrite(level, text)
	} else {
		_, err = e.to.Write(text)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// safe returns an entry in the form in which it is written.
func (e *entries) safe(p []byte) []byte {
	if e.json { // one line
		return printable.AppendJSON(nil, p)
	}
	text, end := strings.CutSuffix(printable.Lines(string(p)), "\n")
	first := true
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if !first {
			b.WriteByte('\n')
			if !strings.HasPrefix(line, "  ") {
				b.WriteString(continued)
			}
		}
		b.WriteString(line)
		first = false
	}
	if end {
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// logTime is how times of day are written in the log.
const logTime = "2006-01-02T15:04:05.000Z0700"

// logOf returns the log of a part.
func (d *daemon) logOf(part string) hclog.Logger {
	log := d.log.Named(part)
	if level, ok := d.levels[part]; ok {
		log.SetLevel(level)
	}
	return log
}

// sink is the destination of the log: standard error, or the system logger (USE_SYSLOG of
// sge_conf(5)).
type sink struct {
	stderr io.Writer
	dial   func() (*syslog.Writer, error) // nil is the system logger of this host

	mu     sync.Mutex
	system *syslog.Writer // nil for standard error
}

// use changes the destination of the log. After an error it is standard error.
func (s *sink) use(system bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if system == (s.system != nil) {
		return nil
	}
	if !system {
		err := s.system.Close()
		s.system = nil
		return err
	}
	dial := s.dial
	if dial == nil {
		dial = func() (*syslog.Writer, error) { return syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "execd") }
	}
	w, err := dial()
	if err != nil {
		return fmt.Errorf("cannot use the system logger (USE_SYSLOG): %w", err)
	}
	s.system = w
	return nil
}

// Write writes to standard error; the log is written with LevelWrite.
func (s *sink) Write(p []byte) (int, error) { return s.LevelWrite(hclog.Info, p) }

// LevelWrite writes a line of the log.
func (s *sink) LevelWrite(level hclog.Level, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.system == nil {
		return s.stderr.Write(p)
	}
	if err := toSystem(s.system, level, string(withoutTime(p))); err != nil {
		return s.stderr.Write(p) // the connection to the system logger is lost; the next line tries again
	}
	return len(p), nil
}

func toSystem(w *syslog.Writer, level hclog.Level, line string) error {
	switch {
	case level >= hclog.Error:
		return w.Err(line)
	case level == hclog.Warn:
		return w.Warning(line)
	case level == hclog.Info:
		return w.Info(line)
	}
	return w.Debug(line)
}

// withoutTime takes the time from a line: the system logger has its own.
func withoutTime(p []byte) []byte {
	first, rest, ok := bytes.Cut(p, []byte(" "))
	if !ok {
		return p
	}
	if _, err := time.Parse(logTime, string(first)); err != nil {
		return p
	}
	return rest
}
