package daemon

import (
	"bytes"
	"log/syslog"
	"net"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestLevels(t *testing.T) {
	log, levels, err := newLog(&bytes.Buffer{}, &settings{logLevels: list{"warn", "api=debug"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{log: log, levels: levels}
	if d.logOf("agent").GetLevel() != hclog.Warn || d.logOf("api").GetLevel() != hclog.Debug {
		t.Errorf("agent has %v, api %v", d.logOf("agent").GetLevel(), d.logOf("api").GetLevel())
	}
}

// The log goes to the system logger where that is wanted and there, and back.
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
