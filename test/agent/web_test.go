package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// formToken finds the token of the forms on a page.
var formToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// TestWeb serves the pages of an agent: its owner and managers act on a job, others see it.
func TestWeb(t *testing.T) {
	n := newNode(t, "")
	i, authority := testenv.NewIssuer(t)
	certificate, key := i.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for name, text := range map[string][]byte{"ca.pem": authority, "cert.pem": certificate, "key.pem": key} {
		n.write(name, string(text))
	}
	n.args = []string{"--web", "127.0.0.1:0", "--tls-cert", n.dir + "/cert.pem", "--tls-key", n.dir + "/key.pem", "--tls-ca", n.dir + "/ca.pem", "--audit", n.dir + "/audit"}
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.mustStart(ctx, n.job(7, "exec sleep 1000\n"))
	is := func(state api.State) {
		t.Helper()
		for {
			j, err := n.client.Job(ctx, api.ID{Job: 7})
			if err != nil {
				t.Fatalf("%v\n%s", err, n.log())
			}
			if j.State == state {
				return
			}
		}
	}
	is(api.Running)

	found := regexp.MustCompile(`serving pages: address=(\S+)`).FindStringSubmatch(strings.Join(lines(t, filepath.Join(n.dir, "log")), "\n"))
	if found == nil {
		t.Fatalf("the agent serves no pages:\n%s", n.log())
	}
	base := "https://" + found[1]
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	browser := func(certificates ...tls.Certificate) *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}}
	}
	do := func(c *http.Client, address string, form url.Values) (int, string) {
		t.Helper()
		var answer *http.Response
		var err error
		if strings.HasPrefix(address, "/") {
			address = base + address
		}
		if form == nil {
			answer, err = c.Get(address) //nolint:noctx // the client has a limit
		} else {
			answer, err = c.PostForm(address, form) //nolint:noctx // likewise
		}
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	token := func(page string) url.Values {
		t.Helper()
		m := formToken.FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no form on\n%s", page)
		}
		return url.Values{"csrf": {m[1]}}
	}

	for _, path := range []string{"/", "/jobs/7", "/events?of=/"} {
		if status, _ := do(browser(), path, nil); status != http.StatusUnauthorized {
			t.Errorf("a stranger gets %s: %d", path, status)
		}
	}
	if status, _ := do(browser(), "/jobs/7/delete", url.Values{}); status != http.StatusUnauthorized {
		t.Errorf("a stranger may end a job: %d", status)
	}
	if os.Getuid() == 0 {
		other := browser(i.UserCertificate("daemon"))
		status, page := do(other, "/jobs/7", nil)
		if status != http.StatusOK || strings.Contains(page, "/jobs/7/") || !strings.Contains(page, n.owner.Username) {
			t.Errorf("another user: %d\n%s", status, page)
		}
		if _, page := do(other, "/jobs/7/delete", token(page)); !strings.Contains(page, "job 7 is of "+n.owner.Username) {
			t.Errorf("another user ends a job:\n%s", page)
		}
		if _, page := do(browser(i.UserCertificate("root")), "/jobs/7", nil); !strings.Contains(page, "/jobs/7/delete") {
			t.Errorf("root:\n%s", page)
		}
	}

	// The owner enters with a link, which works once.
	cmd := exec.CommandContext(ctx, filepath.Join(n.bin, "execd"), "web", "--link")
	cmd.Env = append(os.Environ(), "EXECD_SOCKET="+n.socket)
	link, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, n.log())
	}
	address := strings.TrimSpace(string(link))
	if status, text := do(browser(), address, nil); status != http.StatusOK {
		t.Errorf("the link: %d\n%s", status, text)
	}
	if status, _ := do(browser(), address, nil); status != http.StatusForbidden {
		t.Errorf("the link works twice: %d", status)
	}
	owner := browser(i.UserCertificate(n.owner.Username))
	if _, page := do(owner, "/", nil); !strings.Contains(page, `href="/jobs/7"`) || !strings.Contains(page, "1 of 2000") || strings.Contains(page, "Share tree") {
		t.Errorf("the overview:\n%s", page)
	}
	_, page := do(owner, "/jobs/7", nil)
	for _, step := range []struct {
		action string
		state  api.State
	}{{"suspend", api.Suspended}, {"resume", api.Running}} {
		if _, text := do(owner, "/jobs/7/"+step.action, token(page)); !strings.Contains(text, "has received the order") {
			t.Errorf("%s:\n%s", step.action, text)
		}
		is(step.state)
	}
	if status, _ := do(owner, "/jobs/7/delete", url.Values{}); status != http.StatusForbidden {
		t.Errorf("without the token of the form: %d", status)
	}
	for _, path := range []string{"/jobs/8", "/jobs/x", "/jobs/7.1.", "/shares", "/jobs"} {
		if status, _ := do(owner, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	do(owner, "/jobs/7/delete", token(page))
	is(api.Ended)
	if _, text := do(owner, "/jobs/7", nil); !strings.Contains(text, "Run time") || strings.Contains(text, "/jobs/7/") {
		t.Errorf("the finished job:\n%s", text)
	}
	if records := strings.Join(lines(t, filepath.Join(n.dir, "audit")), "\n"); strings.Count(records, `"via":"web"`) < 3 || !strings.Contains(records, `"remote":"127.0.0.1:`) {
		t.Errorf("the audit log:\n%s", records)
	}
}
