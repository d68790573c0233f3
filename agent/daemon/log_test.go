package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/syslog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

func TestLevels(t *testing.T) {
	log, levels, err := newLog(&bytes.Buffer{}, &settings{logLevels: []string{"warn", "api=debug"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{log: log, levels: levels}
	if d.logOf("agent").GetLevel() != hclog.Warn || d.logOf("api").GetLevel() != hclog.Debug {
		t.Errorf("agent has %v, api %v", d.logOf("agent").GetLevel(), d.logOf("api").GetLevel())
	}
}

// TestHostileLog checks that a user's text cannot forge a log entry or control a terminal, in any
// part of an entry.
func TestHostileLog(t *testing.T) {
	for _, text := range []string{"\x1b]0;owned\a", "x\n2026-11-22T00:00:00.000Z [ERROR] execd: forged", "\x9b2J", "\u009b2J", "\u202e", "a\rb", "\x7f", "a\n\nb\n", "a\u2028b"} {
		for _, format := range []bool{false, true} {
			var out bytes.Buffer
			log, _, err := newLog(&out, &settings{logJSON: format})
			if err != nil {
				t.Fatal(err)
			}
			log.Warn(text)
			log.Warn("message", "key", text)
			log.Warn("message", "key", errors.New(text), "next", 1)
			log.Warn("message", "key", []string{text}, "other", []error{errors.New(text)}, text, 1)
			log.Named(text).With("key", text).Warn("message")
			shown := out.String()
			if entries := strings.Count(shown, "[WARN]") + strings.Count(shown, `"@level":"warn"`); entries != 5 {
				t.Errorf("%q makes %d entries of 5:\n%s", text, entries, shown)
			}
			for line := range strings.Lines(shown) {
				if !format && !strings.HasPrefix(line, "  ") && !strings.Contains(line, "[WARN]  execd") || format && !json.Valid([]byte(line)) {
					t.Errorf("%q makes the line %q", text, line)
				}
			}
			if i := strings.IndexFunc(shown, func(r rune) bool {
				return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl))
			}); i >= 0 || !utf8.ValidString(shown) {
				t.Errorf("%q is written as %q", text, shown)
			}
		}
	}
}

// TestSyslog switches the log to the system logger and back.
func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	there := func() *net.UnixConn {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	var stderr bytes.Buffer
	s := &sink{stderr: &stderr, dial: func() (*syslog.Writer, error) {
		return syslog.Dial("unixgram", path, syslog.LOG_DAEMON|syslog.LOG_INFO, "execd")
	}}
	log, _, err := newLog(s, &settings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.use(true); err == nil {
		t.Error("there is a system logger where there is none")
	}
	log.Info("one")
	l := there()
	if err := s.use(true); err != nil {
		t.Fatal(err)
	}
	for want, say := range map[string]func(string, ...any){
		`^<27>.*execd\[\d+\]: \[ERROR\] execd: two: x=1\n$`: log.Error, // daemon, error
		`^<28>.*execd\[\d+\]: \[WARN\]  execd: two: x=1\n$`: log.Warn,
		`^<30>.*execd\[\d+\]: \[INFO\]  execd: two: x=1\n$`: log.Info,
	} {
		say("two", "x", 1)
		b := make([]byte, 1000)
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Read(b); err != nil || !regexp.MustCompile(want).Match(b[:n]) {
			t.Errorf("%q, %v, expected %s", b[:n], err, want)
		}
	}
	l.Close()
	log.Info("three") // nobody listens
	if err := s.use(false); err != nil {
		t.Error(err)
	}
	log.Info("four")
	const times = `\d{4}-\d\d-\d\dT\S+ \[INFO\]  execd: `
	if want := `^` + times + `one\n` + times + `three\n` + times + `four\n$`; !regexp.MustCompile(want).Match(stderr.Bytes()) {
		t.Errorf("standard error has %q, expected %s", stderr.String(), want)
	}
}
