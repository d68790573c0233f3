package standalone

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/internal/testenv"
)

// sited is a machine whose daemon serves pages for all users.
type sited struct {
	*site
	issuer *testenv.Issuer
	roots  *x509.CertPool
}

// withPages starts the daemon of a machine with pages. before is called just before the start.
func withPages(m *machine, before func(*testenv.Issuer)) *sited {
	m.Helper()
	i, authority := testenv.NewIssuer(m)
	certificate, key := i.Issue(&x509.Certificate{
		DNSNames: []string{"node1.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	for name, text := range map[string][]byte{"ca.pem": authority, "cert.pem": certificate, "key.pem": key} {
		m.write(name, string(text))
	}
	m.args = append(m.args, "--web", "127.0.0.1:0", "--tls-cert", m.dir+"/cert.pem", "--tls-key", m.dir+"/key.pem", "--tls-ca", m.dir+"/ca.pem")
	if before != nil {
		before(i)
	}
	m.start()
	s := &sited{site: &site{machine: m}, issuer: i, roots: x509.NewCertPool()}
	s.roots.AppendCertsFromPEM(authority)
	where := regexp.MustCompile(`serving pages: address=(\S+)`)
	m.until("the daemon serves pages", func() bool {
		text, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		found := where.FindAllSubmatch(text, -1)
		if found == nil {
			return false
		}
		s.address = string(found[len(found)-1][1])
		return true
	})
	s.base = "https://" + s.address
	return s
}

// client returns a browser, with a certificate of a user or without.
func (s *sited) client(certificates ...tls.Certificate) *http.Client {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots, Certificates: certificates}, ForceAttemptHTTP2: true,
	}}
}

// signIn returns a browser of a user, who has typed execd web --link.
func (s *sited) signIn(u *user.User) *http.Client {
	s.Helper()
	c := s.client()
	if a := s.do(c, "GET", s.linkOf(u), nil); a.status != http.StatusOK {
		s.Fatalf("the link of %s: %+v", u.Username, a)
	}
	return c
}

func (s *sited) linkOf(u *user.User) string {
	s.Helper()
	r := s.as(u, "../execd", "web", "--link")
	if r.status != 0 || !strings.HasPrefix(r.stdout, s.base+"/open?token=") {
		s.Fatalf("execd web --link of %s: %+v", u.Username, r)
	}
	return strings.TrimSpace(r.stdout)
}

// listening returns the TCP sockets on which a process listens.
func listening(t testing.TB, pid int) (list []string) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, f := range files {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
	}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, line := range lines(t, fmt.Sprintf("/proc/%d/net/%s", pid, table)) {
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == "0A" && own[fields[9]] { // TCP_LISTEN
				list = append(list, fields[1])
			}
		}
	}
	return list
}

// TestPagesOfDaemon signs users in at the pages of a daemon: each sees what qstat shows, and acts on own jobs.
func TestPagesOfDaemon(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 2)
	users := someUsers(t, 2)
	me, other := users[0], users[1]
	m.start()
	if open := listening(t, m.daemon.Pid()); open != nil {
		t.Errorf("without --web the daemon listens on %v", open)
	}
	if r := m.as(me, "../execd", "web", "--link"); r.status != 1 || !strings.Contains(r.stderr, "the daemon serves no pages: start it with --web") {
		t.Errorf("a link of a daemon without pages: %+v", r)
	}
	m.daemon.Kill()
	s := withPages(m, nil)
	if open := listening(t, m.daemon.Pid()); len(open) != 1 {
		t.Errorf("with --web the daemon listens on %v", open)
	}
	dir := m.open("out")
	m.write("out/job.sh", "#!/bin/sh\necho output of $USER\nexec sleep 1000\n")
	for _, u := range []*user.User{me, other} {
		if r := m.as(u, "qsub", "-wd", dir, "-j", "y", "-o", dir+"/of."+u.Username, "-v", "SECRET=hunter2", dir+"/job.sh"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.write("secret", "what only root may read\n")
	if err := os.Chmod(filepath.Join(m.dir, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.until("the jobs have written", func() bool {
		return len(lines(t, dir+"/of."+me.Username)) > 0 && len(lines(t, dir+"/of."+other.Username)) > 0
	})

	stranger := s.client()
	for _, path := range []string{"/", "/jobs", "/jobs/1", "/events?of=/", "/open", "/open?token=x"} {
		if a := s.do(stranger, "GET", path, nil); a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			t.Errorf("a stranger gets %s: %d", path, a.status)
		}
	}
	if a := s.do(s.client(), "GET", "http://"+s.address+"/", nil); a.status != http.StatusBadRequest {
		t.Errorf("without TLS: %d", a.status)
	}

	link := s.linkOf(me)
	mine := s.client()
	a := s.do(mine, "GET", link, nil)
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusOK || !strings.HasPrefix(cookie, "__Host-execd=") || !strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("the link: %d %q", a.status, cookie)
	}
	if a := s.do(stranger, "GET", link, nil); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a link works twice: %d %v", a.status, a.header)
	}
	page := s.do(mine, "GET", "/jobs/1", nil)
	if !strings.Contains(page.text, "output of "+me.Username) || !strings.Contains(page.text, "hunter2") || page.formToken() == "" {
		t.Errorf("the owner lacks something:\n%s", page.text)
	}
	theirs := s.do(mine, "GET", "/jobs/2", nil)
	if theirs.status != http.StatusOK || strings.Contains(theirs.text, "hunter2") || strings.Contains(theirs.text, "output of") || strings.Contains(theirs.text, "/jobs/2/") {
		t.Errorf("the job of another user: %d\n%s", theirs.status, theirs.text)
	}
	if a := s.do(mine, "POST", "/jobs/2/delete", url.Values{"csrf": {page.formToken()}}); !strings.Contains(a.text, "you do not have the necessary privileges") {
		t.Errorf("deletion of another user's job: %d\n%s", a.status, a.text)
	}
	others := s.signIn(other)
	for name, attack := range map[string]func() webAnswer{
		"a form of another user": func() webAnswer {
			return s.do(others, "POST", "/jobs/2/delete", url.Values{"csrf": {page.formToken()}})
		},
		"no token": func() webAnswer { return s.do(mine, "POST", "/jobs/1/delete", url.Values{}) },
		"another origin": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {page.formToken()}}, func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") })
		},
		"another site": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {page.formToken()}}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		},
	} {
		if a := attack(); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	for _, host := range []string{"attacker.example", "attacker.example:443", "localhost", "node1.test.attacker.example"} {
		if a := s.do(mine, "GET", "/jobs", nil, func(r *http.Request) { r.Host = host }); a.status != http.StatusMisdirectedRequest {
			t.Errorf("Host %q: %d", host, a.status)
		}
	}
	if a := s.do(mine, "GET", "/jobs", nil, func(r *http.Request) { r.Host = "node1.test:8443" }); a.status != http.StatusUnauthorized { // without the cookie of this name
		t.Errorf("another name of the certificate: %d", a.status)
	}

	// The daemon is root: it must not read for a user what the user cannot read.
	if err := os.Remove(dir + "/of." + me.Username); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.dir+"/secret", dir+"/of."+me.Username); err != nil {
		t.Fatal(err)
	}
	if a := s.do(mine, "GET", "/jobs/1", nil); strings.Contains(a.text, "only root") || !strings.Contains(a.text, "permission denied") {
		t.Errorf("a link in place of the output:\n%s", a.text)
	}

	// Managers act on all jobs.
	manager := s.signIn(self(t))
	token := s.do(manager, "GET", "/jobs/2", nil).formToken()
	if a := s.do(manager, "POST", "/jobs/2/suspend", url.Values{"csrf": {token}}); !strings.Contains(a.text, "suspended job 2") {
		t.Errorf("suspension by a manager: %d\n%s", a.status, a.text)
	}
	found := slices.ContainsFunc(m.audited(), func(r audit.Record) bool {
		return r.Command == "qmod" && r.Caller.Via == "web" && r.Caller.User == "root" && strings.HasPrefix(r.Caller.Remote, "127.0.0.1:")
	})
	if !found {
		t.Errorf("the audit log lacks the suspension: %+v", m.audited())
	}

	// Certificates of users.
	foreign, _ := testenv.NewIssuer(t)
	for name, c := range map[string]struct {
		certificate tls.Certificate
		status      int
	}{
		"of a user":                 {s.issuer.UserCertificate(me.Username), http.StatusOK},
		"of a user who is not here": {s.issuer.UserCertificate("nosuchuser"), http.StatusUnauthorized},
		"of a host":                 {s.issuer.UserCertificate(""), http.StatusUnauthorized},
		"of a foreign authority":    {foreign.UserCertificate(me.Username), 0},
	} {
		response, err := s.client(c.certificate).Get(s.base + "/jobs") //nolint:noctx // the client has a limit
		status := 0
		if err == nil {
			status = response.StatusCode
			response.Body.Close()
		}
		if status != c.status {
			t.Errorf("a certificate %s: %d, expected %d", name, status, c.status)
		}
	}

	if a := s.do(mine, "POST", "/leave", url.Values{"csrf": {page.formToken()}}); a.status != http.StatusUnauthorized {
		t.Errorf("signing out: %d", a.status)
	}
	if a := s.do(mine, "GET", "/jobs", nil); a.status != http.StatusUnauthorized {
		t.Errorf("after signing out: %d", a.status)
	}
}

// TestManyPages opens 1,000 pages, of which some go away in the middle of an event, and as many connections of
// strangers. The pages go on.
func TestManyPages(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	if os.Getuid() != 0 {
		m.own(u)
	}
	s := withPages(m, nil)
	c := s.signIn(u)
	const browsers, pages = 5, 200
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, browsers*pages)
	for range browsers {
		other := s.client()
		other.Jar = c.Jar
		other.Timeout = 0
		if a := s.do(other, "GET", "/jobs", nil); a.status != http.StatusOK { // the streams share its connection
			t.Fatal(a.status)
		}
		for i := range pages {
			wait.Go(func() {
				r, err := http.NewRequestWithContext(ctx, "GET", s.base+"/events?of=/jobs", nil)
				if err != nil {
					first <- err
					return
				}
				response, err := other.Do(r)
				if err != nil {
					first <- err
					return
				}
				defer response.Body.Close()
				if i%2 == 0 {
					_, err = io.ReadFull(response.Body, make([]byte, 20))
					first <- err
					return // in the middle of an event
				}
				events := bufio.NewScanner(response.Body)
				for events.Scan() && !strings.Contains(events.Text(), "There are no such jobs") {
				}
				first <- events.Err()
				_, _ = io.Copy(io.Discard, response.Body)
			})
		}
	}
	for range browsers * pages {
		if err := <-first; err != nil {
			t.Fatal(err)
		}
	}
	// Strangers who connect and send nothing.
	for range 300 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	same := false
	traced := func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { same = info.Reused },
		}))
	}
	if a := s.do(c, "GET", "/jobs", nil, traced); a.status != http.StatusOK {
		t.Errorf("with 1,000 pages: %d", a.status)
	}
	if !same {
		t.Error("the connection of a browser that has only signed in was closed to make room for strangers")
	}
	if a := s.do(s.signIn(u), "GET", "/jobs", nil); a.status != http.StatusOK {
		t.Errorf("another browser: %d", a.status)
	}
}

// TestPagesOfFront has the front of two processes serve the pages: no TCP port is open in the launcher, and the
// front says what it cannot read.
func TestPagesOfFront(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 2)
	u := someUsers(t, 3)[2]
	front := someUsers(t, 2)[1]
	m.args = append(m.args, "--front-user", front.Username)
	s := withPages(m, nil)
	if open := listening(t, m.daemon.Pid()); open != nil {
		t.Errorf("the launcher listens on %v", open)
	}
	dir := m.open("out")
	if r := m.as(u, "qsub", "-b", "y", "-wd", dir, "-N", "napper", "sleep", "1000"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the job runs", func() bool { return strings.Contains(m.as(u, "qstat").stdout, " r ") })
	c := s.signIn(u)
	page := s.do(c, "GET", "/jobs/1", nil)
	if !strings.Contains(page.text, "napper") || !strings.Contains(page.text, "type execd tail 1 on the host") {
		t.Errorf("%d\n%s", page.status, page.text)
	}
	if log := m.log(); !strings.Contains(log, "do not show the output of jobs") {
		t.Errorf("the log does not say what the pages lack:\n%s", log)
	}
	if a := s.do(c, "POST", "/jobs/1/suspend", url.Values{"csrf": {page.formToken()}}); !strings.Contains(a.text, "suspended job 1") {
		t.Errorf("suspension: %d\n%s", a.status, a.text)
	}
}

// self returns the user of the test.
func self(t testing.TB) *user.User {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u
}
