package serve

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/clock"
)

func lockThread() { runtime.LockOSThread() }

func chains(leaf *x509.Certificate) [][]*x509.Certificate { return [][]*x509.Certificate{{leaf}} }

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificate describes a certificate that an authority is to issue.
type certificate struct {
	names       []string
	from, until time.Time // if zero, an hour before and after the current time
	server      bool      // for servers; otherwise for clients
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) issue(t *testing.T, c certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	usage := x509.ExtKeyUsageClientAuth
	if c.server {
		usage = x509.ExtKeyUsageServerAuth
	}
	if c.from.IsZero() {
		c.from = time.Now().Add(-time.Hour)
	}
	if c.until.IsZero() {
		c.until = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: c.from, NotAfter: c.until, DNSNames: c.names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// write writes a certificate with its key, and those of the authorities, to a directory.
func write(t *testing.T, dir string, c tls.Certificate, authorities ...*authority) certfile.Paths {
	t.Helper()
	p := certfile.Paths{CA: filepath.Join(dir, "ca.pem"), Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	var ca []byte
	for _, a := range authorities {
		ca = append(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		p.CA: ca, p.Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		p.Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
	} {
		// Another file in its place, as programs that renew certificates do it.
		if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func clientFiles(p certfile.Paths) *api.TLS {
	return &api.TLS{CA: p.CA, Certificate: p.Certificate, Key: p.Key, ServerName: "n1"}
}

// runTLS runs a server whose certificate is for n1.
func runTLS(t *testing.T, a *authority) (r *running, address, dir string) {
	t.Helper()
	dir = t.TempDir()
	files := write(t, dir, a.issue(t, certificate{names: []string{"n1"}, server: true}), a)
	r = run(t, func(o *Options) {
		o.TLS = &TLS{Address: "127.0.0.1:0", Files: files, Masters: []string{"master.example", "standby.example"}}
	})
	return r, r.Addresses()[1].String(), dir
}

func TestTLS(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	r, address, _ := runTLS(t, a)
	master := []string{"master.example"}
	past := time.Now().Add(-time.Minute)
	for name, test := range map[string]struct {
		by   *authority
		cert certificate
		code api.Code // none for a call that succeeds
		want string
	}{
		"a master":                         {a, certificate{names: master}, "", ""},
		"the other master":                 {a, certificate{names: []string{"x", "standby.example"}}, "", ""},
		"another authority":                {b, certificate{names: master}, api.Unauthenticated, "tls: unknown certificate authority"},
		"one that has expired":             {a, certificate{names: master, until: past}, api.Unauthenticated, "tls: expired certificate"},
		"one that is not valid yet":        {a, certificate{names: master, from: time.Now().Add(time.Minute)}, api.Unauthenticated, "tls: "},
		"one for servers":                  {a, certificate{names: master, server: true}, api.Unauthenticated, "tls: bad certificate"},
		"another name":                     {a, certificate{names: []string{"n2"}}, api.PermissionDenied, `the certificate is for ["n2"]`},
		"a pattern that fits":              {a, certificate{names: []string{"*.example"}}, api.PermissionDenied, `["*.example"]`},
		"no name":                          {a, certificate{}, api.PermissionDenied, "for no DNS name"},
		"a name of which it is the ending": {a, certificate{names: []string{"x.master.example"}}, api.PermissionDenied, "none of that"},
	} {
		t.Run(name, func(t *testing.T) {
			files := write(t, t.TempDir(), test.by.issue(t, test.cert), a)
			c := dial(t, api.Options{Address: address, TLS: clientFiles(files)}) // what cannot succeed is not tried again
			_, err := c.Start(t.Context(), aStart(1))
			if test.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantCode(t, "Start", err, test.code, test.want)
			wantCode(t, "Reports", c.Reports(t.Context(), 0, func(api.Report) error { return nil }), test.code, "")
		})
	}
	good := write(t, t.TempDir(), a.issue(t, certificate{names: master}), a)
	t.Run("an agent of another authority", func(t *testing.T) {
		files := write(t, t.TempDir(), a.issue(t, certificate{names: master}), b)
		_, err := dial(t, api.Options{Address: address, TLS: clientFiles(files)}).Version(t.Context())
		wantCode(t, "Version", err, api.Unauthenticated, "unknown authority")
	})
	t.Run("an agent of another name", func(t *testing.T) {
		files := clientFiles(good)
		files.ServerName = ""
		_, err := dial(t, api.Options{Address: address, TLS: files}).Version(t.Context())
		wantCode(t, "Version", err, api.Unauthenticated, "127.0.0.1")
	})
	t.Run("no TLS at all", func(t *testing.T) {
		_, err := dial(t, api.Options{Address: address, Token: secret, RetryFor: -1}).Version(t.Context())
		if err == nil {
			t.Error("it succeeds")
		}
	})
	t.Run("raw", func(t *testing.T) {
		for name, config := range map[string]*tls.Config{
			"no certificate": {ServerName: "n1", RootCAs: pool(a)},
			"TLS 1.2":        {ServerName: "n1", RootCAs: pool(a), MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t, certificate{names: master})}},
		} {
			transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
			request, err := http.NewRequest(http.MethodPost, "https://"+address+"/execd.v1.Agent/Version", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				response.Body.Close()
				t.Errorf("%s: %s", name, response.Status)
			} else if !strings.Contains(err.Error(), "certificate required") && !strings.Contains(err.Error(), "protocol version") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("a token on TLS", func(t *testing.T) {
		_, err := api.Dial(api.Options{Address: address, TLS: clientFiles(good), Token: secret})
		if err == nil {
			t.Error("it is accepted")
		}
	})
	if got := len(r.agent.starts); got != 2 {
		t.Errorf("%d starts have arrived, want 2", got)
	}
}

func pool(a *authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// TestTLSRenewed checks that a stream over TLS ends with the server, and that the client resumes it
// with the next server, whose certificates differ.
func TestTLSRenewed(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	r, address, dir := runTLS(t, a)
	files := t.TempDir()
	write(t, files, a.issue(t, certificate{names: []string{"master.example"}}), a)
	paths := certfile.Paths{CA: filepath.Join(files, "ca.pem"), Certificate: filepath.Join(files, "cert.pem"), Key: filepath.Join(files, "key.pem")}
	c := dial(t, api.Options{Address: address, TLS: clientFiles(paths), RetryFor: -1})
	ask := func() error {
		_, err := c.Version(t.Context())
		c.Close() // the next call makes a connection of its own
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, b.issue(t, certificate{names: []string{"n1"}, server: true}), b)
	wantCode(t, "the agent has gone ahead", ask(), api.Unauthenticated, "")
	write(t, files, b.issue(t, certificate{names: []string{"master.example"}}), b)
	if err := ask(); err != nil {
		t.Errorf("both have new certificates: %v", err)
	}
	// What cannot be used changes nothing.
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("after a mistake: %v", err)
	}
	r.stop()
}

func TestTLSRefused(t *testing.T) {
	a := newAuthority(t, "a")
	files := write(t, t.TempDir(), a.issue(t, certificate{names: []string{"n1"}, server: true}), a)
	for name, test := range map[string]struct {
		options TLS
		want    string
	}{
		"no masters":  {TLS{Address: "127.0.0.1:0", Files: files}, "no names of masters"},
		"no files":    {TLS{Address: "127.0.0.1:0", Masters: []string{"m"}}, "three files"},
		"no such":     {TLS{Address: "127.0.0.1:0", Masters: []string{"m"}, Files: certfile.Paths{CA: "/no", Certificate: files.Certificate, Key: files.Key}}, "/no: no such file"},
		"no port":     {TLS{Address: "127.0.0.1", Masters: []string{"m"}, Files: files}, "missing port"},
		"a wrong key": {TLS{Address: "127.0.0.1:0", Masters: []string{"m"}, Files: certfile.Paths{CA: files.CA, Certificate: files.Certificate, Key: files.CA}}, "key"},
	} {
		s, err := New(Options{TLS: &test.options})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "cannot listen for masters on ") {
			t.Errorf("%s: got %v; want ...%s...", name, err, test.want)
		}
	}
}

// TestTLSErrorsDoNotFillTheLog checks that the number of log entries about failed handshakes is
// limited.
func TestTLSErrorsDoNotFillTheLog(t *testing.T) {
	a := newAuthority(t, "a")
	files := write(t, t.TempDir(), a.issue(t, certificate{names: []string{"n1"}, server: true}), a)
	var mu sync.Mutex
	var said []string
	r := run(t, func(o *Options) {
		o.TLS = &TLS{Address: "127.0.0.1:0", Files: files, Masters: []string{"m"}}
		o.Clock = clock.NewManual(began)
		o.Notify = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, err.Error())
		}
	})
	for range 5 * errorBurst {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.Addresses()[1].String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until it is closed
		conn.Close()
	}
	if !soon(func() bool { mu.Lock(); defer mu.Unlock(); return len(said) >= errorBurst }) {
		t.Error("errors are not said")
	}
	r.stop()
	mu.Lock()
	defer mu.Unlock()
	if len(said) != errorBurst || !strings.Contains(said[0], "TLS handshake error") {
		t.Errorf("%d lines, expected %d: %q", len(said), errorBurst, said)
	}
}

func TestErrorLog(t *testing.T) {
	const handshake, other = "http: TLS handshake error from x: y", "http: Accept error: z"
	var said []string
	c := clock.NewManual(began)
	l := newErrorLog(c, func(err error) { said = append(said, err.Error()) })
	say := func(times int, text string, want ...string) {
		t.Helper()
		said = nil
		for range times {
			if n, err := l.Write([]byte(text + "\n")); n != len(text)+1 || err != nil {
				t.Error(n, err)
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("got %q, expected %q", said, want)
		}
	}
	more := func(n int) string {
		return fmt.Sprintf("%s (%d more errors like this one were not written down)", handshake, n)
	}
	c.Advance(time.Hour) // what was not used is not saved up
	say(errorBurst+25, handshake, slices.Repeat([]string{handshake}, errorBurst)...)
	say(1, other, other)
	c.Advance(errorPause - 1)
	say(1, handshake)
	c.Advance(1)
	say(2, handshake, more(26))
	c.Advance(2*errorPause + errorPause/2)
	say(5, handshake, more(1), handshake)
	c.Advance(errorPause / 2)
	say(1, handshake, more(3))
	c.Advance(-24 * time.Hour) // the clock was set
	say(1, handshake)
	c.Advance(errorPause)
	say(1, handshake, more(1))
}

// TestTLSSlow checks that the server closes connections whose handshake does not finish, and that
// they do not keep others from connecting.
func TestTLSSlow(t *testing.T) {
	a := newAuthority(t, "a")
	files := write(t, t.TempDir(), a.issue(t, certificate{names: []string{"n1"}, server: true}), a)
	r := run(t, func(o *Options) {
		o.TLS = &TLS{Address: "127.0.0.1:0", Files: files, Masters: []string{"m"}}
		o.Limits.Header, o.Limits.Connections = 200*time.Millisecond, 2
	})
	address := r.Addresses()[1].String()
	var conns []net.Conn
	for range 3 {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for i, conn := range conns { // the third has one connection too many
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d: %d bytes, %v", i, n, err)
		}
	}
}

// TestMasterConnectsWhileStrangersHoldAllConnections opens as many silent connections of strangers
// as the server allows. It checks that masters can still connect, and that strangers close no
// connection of a master.
func TestMasterConnectsWhileStrangersHoldAllConnections(t *testing.T) {
	a := newAuthority(t, "a")
	dir := t.TempDir()
	files := write(t, dir, a.issue(t, certificate{names: []string{"n1"}, server: true}), a)
	const all = 6
	r := run(t, func(o *Options) {
		o.TLS = &TLS{Address: "127.0.0.1:0", Files: files, Masters: []string{"m"}}
		o.Limits.Header, o.Limits.AllConnections = patience, all
	})
	address := r.Addresses()[1].String()
	own := write(t, t.TempDir(), a.issue(t, certificate{names: []string{"m"}}), a)
	pair, err := tls.LoadX509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "n1"}
	strangers := func() {
		t.Helper()
		for range 2 * all {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
	}
	ask := func(conn net.Conn) {
		t.Helper()
		request := "POST /execd.v1.Agent/Health HTTP/1.1\r\nHost: n1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		_, err := io.WriteString(conn, request)
		if err == nil {
			err = conn.SetReadDeadline(time.Now().Add(patience))
		}
		var answer *http.Response
		if err == nil {
			answer, err = http.ReadResponse(bufio.NewReader(conn), nil)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("a master among strangers: %v, %v", answer, err)
		}
	}
	strangers()
	master, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	ask(master)
	strangers()
	second, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	ask(second)
	ask(master)
}
