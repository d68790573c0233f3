package gridengine

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/gridengine/pinned"
	"github.com/execd-project/execd/submit"
)

// certificateOf makes the certificate of a daemon of the cell.
func certificateOf(t *testing.T, c *Cell, component string) *pinned.Own {
	t.Helper()
	o := &pinned.Own{
		Certificate: c.certificatePath(component, "localhost"), Key: filepath.Join(t.TempDir(), "key"),
		Host: "localhost", Lifetime: time.Hour, Now: time.Now,
	}
	if _, err := o.Renew(); err != nil {
		t.Fatal(err)
	}
	return o
}

// withTLS makes a world whose cell has security_mode tls.
func withTLS(t *testing.T) *world {
	t.Helper()
	keys := t.TempDir()
	var master *pinned.Own
	w := newWorld(t, func(o *Options) {
		o.Cell.Security = Security{TLS: true, Lifetime: time.Hour}
		o.KeyDirectory = keys
		master = certificateOf(t, o.Cell, commlib.Qmaster)
	})
	w.qmaster = tls.NewListener(w.qmaster, master.Server())
	w.codec.Protocol = message.OCS91
	w.accept()
	return w
}

// TestTLS checks that in a cell with security_mode tls both connections to sge_qmaster and those of
// qrsh -inherit are encrypted, with the certificates that the cell has for the daemons.
func TestTLS(t *testing.T) {
	w := withTLS(t)
	w.register()
	w.full()
	w.deliver(7, 1)
	w.told("start 7")
	w.jobReport(7, message.StateWritten)

	from := commlib.Endpoint{Host: "localhost", Component: commlib.ExecdHandle}
	if conn, err := w.dial(from); err == nil {
		conn.Abort()
		t.Error("a connection without encryption was taken")
	}
	text, err := os.ReadFile(w.cell.certificatePath(commlib.Execd, "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := pinned.Client(text)
	if err != nil {
		t.Fatal(err)
	}
	w.encrypt = func(nc net.Conn) net.Conn { return tls.Client(nc, settings) }
	conn, err := w.dial(from)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Abort()
	if _, err := w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.Qmaster, ID: 1}); err == nil || !strings.Contains(err.Error(), "only the daemon opens") {
		t.Errorf("a connection of qmaster was taken: %v", err)
	}
	for certificate, refused := range map[string]bool{"": true, string(text): false} {
		r := &message.TaskRequest{Job: 7, Task: 1, Owner: "alice", Cwd: "/", Certificate: certificate}
		if _, err := conn.Send(w.codec.Number(message.TagJobExecution), 0, w.codec.EncodeTaskRequest(r)); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if id, err := w.codec.DecodeTaskID(m.Payload); err != nil || (id == message.TaskRefused) != refused {
			t.Errorf("a request with a certificate of %d bytes is answered %q, %v", len(certificate), id, err)
		}
	}
}

// TestTLSWithAnotherMaster checks that the link sends nothing to a program on the port of sge_qmaster
// that does not have the certificate of the cell, and names the file.
func TestTLSWithAnotherMaster(t *testing.T) {
	cell := &Cell{Root: t.TempDir(), Name: "default", Security: Security{TLS: true}}
	certificateOf(t, cell, commlib.Qmaster)
	s := &session{Link: &Link{options: Options{Cell: cell}, own: &pinned.Own{}}}
	here, there := net.Pipe()
	other := certificateOf(t, &Cell{Root: t.TempDir(), Name: "default"}, commlib.Qmaster)
	go func() { _ = tls.Server(there, other.Server()).Handshake() }()
	nc, err := s.encrypt(here, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "differs from its certificate") {
		t.Errorf("it was written to: %v", err)
	}
	there.Close()
	here, _ = net.Pipe()
	if _, err := s.encrypt(here, "node9"); err == nil || !strings.Contains(err.Error(), "certs/qmaster_node9.pem") {
		t.Errorf("without a certificate: %v", err)
	}
}

func TestCertificateOfClients(t *testing.T) {
	cell := &Cell{Root: t.TempDir(), Name: "default"}
	text, err := os.ReadFile(certificateOf(t, cell, commlib.Execd).Certificate)
	if err != nil {
		t.Fatal(err)
	}
	word, err := pinned.Word(text)
	if err != nil {
		t.Fatal(err)
	}
	here := around("h")
	here.security.TLS = true
	j := minimal()
	j.Type, j.ScriptFile, j.Certificate = message.TypeQrsh|message.TypeBinary, "cat", string(text)
	start, err := startOf(j, false, here)
	if err != nil {
		t.Fatal(err)
	}
	if want := (submit.Variable{Name: interactive.CertificateVariable, Value: word}); !slices.Contains(start.Request.Env, want) {
		t.Errorf("the environment is %v, want %v", start.Request.Env, want)
	}
	j.Certificate = ""
	if _, err := startOf(j, false, here); err == nil || !strings.Contains(err.Error(), "the client has sent no certificate") {
		t.Errorf("without a certificate: %v", err)
	}
}

func TestSecurityMode(t *testing.T) {
	for mode, want := range map[string]Security{
		"": {}, "none": {}, "munge": {Munge: true}, "tls": {TLS: true}, "munge,tls": {Munge: true, TLS: true}, "TLS": {TLS: true},
	} {
		want.Lifetime = pinned.DefaultLifetime
		if got, err := securityOf(mode, "none"); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", mode, got, err, want)
		}
	}
	for params, want := range map[string]time.Duration{
		"certificate_lifetime=3600": time.Hour, "x=1,certificate_lifetime=5": pinned.LeastLifetime, "certificate_lifetime=1000000000": pinned.DefaultLifetime, "certificate_lifetime=x": pinned.DefaultLifetime,
	} {
		if got, err := securityOf("tls", params); err != nil || got.Lifetime != want {
			t.Errorf("%q: %v, %v, want %v", params, got.Lifetime, err, want)
		}
	}
	for _, mode := range []string{"csp", "kerberos", "tls,afs"} {
		if _, err := securityOf(mode, ""); err == nil || !strings.Contains(err.Error(), mode) {
			t.Errorf("%q: %v", mode, err)
		}
	}
}
