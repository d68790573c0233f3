package pinned

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// own returns a certificate in a directory of its own, whose times are those of a clock.
func own(t *testing.T, now *time.Time) *Own {
	t.Helper()
	dir := t.TempDir()
	o := &Own{
		Certificate: filepath.Join(dir, "certs", "execd_node1.pem"), Key: filepath.Join(dir, "private", "execd_node1.pem"),
		Host: "node1", Lifetime: time.Hour, Now: func() time.Time { return *now },
	}
	renew(t, o)
	return o
}

func renew(t *testing.T, o *Own) (due time.Time) {
	t.Helper()
	due, err := o.Renew()
	if err != nil {
		t.Fatal(err)
	}
	return due
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// connect connects a client with these settings with the daemon, and returns the client's error.
func connect(t *testing.T, o *Own, settings *tls.Config) error {
	t.Helper()
	here, there := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		c := tls.Server(there, o.Server())
		_, _ = io.WriteString(c, "hello")
		there.Close()
	}()
	defer func() {
		here.Close()
		<-served
	}()
	text, err := io.ReadAll(tls.Client(here, settings))
	if string(text) == "hello" { // the connection ends without notice
		return nil
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

func TestRenew(t *testing.T) {
	now := time.Now()
	o := own(t, &now)
	first := read(t, o.Certificate)
	for path, want := range map[string]os.FileMode{o.Certificate: 0o644, o.Key: 0o600, filepath.Dir(o.Key): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	due := renew(t, o)
	if left := due.Sub(now); left < 44*time.Minute || left > 46*time.Minute {
		t.Errorf("a certificate of an hour is renewed after %v", left)
	}
	if read(t, o.Certificate) != first {
		t.Error("it was renewed at once")
	}
	again := &Own{Certificate: o.Certificate, Key: o.Key, Host: o.Host, Lifetime: o.Lifetime, Now: o.Now}
	if renew(t, again); read(t, o.Certificate) != first {
		t.Error("the next daemon has made another one")
	}
	other := &Own{Certificate: o.Certificate, Key: o.Key, Host: "node2", Lifetime: o.Lifetime, Now: o.Now}
	if renew(t, other); read(t, o.Certificate) == first {
		t.Error("a host of another name has used it")
	}
	first = read(t, o.Certificate)
	now = due.Add(time.Second)
	if renew(t, o); read(t, o.Certificate) == first {
		t.Error("it was not renewed when it was due")
	}
	if err := os.WriteFile(o.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	first = read(t, o.Certificate)
	fresh := &Own{Certificate: o.Certificate, Key: o.Key, Host: o.Host, Lifetime: o.Lifetime, Now: o.Now}
	if renew(t, fresh); read(t, o.Certificate) == first {
		t.Error("a certificate without its key was used")
	}
}

func TestClient(t *testing.T) {
	now := time.Now()
	a, b := own(t, &now), own(t, &now)
	settings, err := Client([]byte(read(t, a.Certificate)))
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, a, settings); err != nil {
		t.Error(err)
	}
	if err := connect(t, b, settings); err == nil || !strings.Contains(err.Error(), "differs from its certificate") {
		t.Errorf("another daemon was accepted: %v", err)
	}
	word, err := Word([]byte(read(t, a.Certificate)))
	if err != nil || strings.ContainsAny(word, "\n ") {
		t.Fatalf("%q, %v", word, err)
	}
	if settings, err = ClientOfWord(word); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, a, settings); err != nil {
		t.Error(err)
	}
}

func TestClientChecksTheTime(t *testing.T) {
	for _, c := range []struct {
		made time.Duration
		want string
	}{{-2 * time.Hour, "expired at"}, {time.Hour, "compare the clocks"}} {
		now := time.Now().Add(c.made)
		o := own(t, &now)
		settings, err := Client([]byte(read(t, o.Certificate)))
		if err != nil {
			t.Fatal(err)
		}
		if err := connect(t, o, settings); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("made %v from now: %v, want %q", c.made, err, c.want)
		}
	}
}

func TestBadText(t *testing.T) {
	for _, text := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := Client([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for _, word := range []string{"!", "AAAA"} {
		if _, err := ClientOfWord(word); err == nil {
			t.Errorf("%q was taken", word)
		}
	}
	if _, err := Word([]byte("x")); err == nil {
		t.Error("a text that is no certificate was taken")
	}
}
