package standalone

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// TestSoakAgentPages shows the pages of execd agent in Chromium, and uses their buttons with the keyboard.
func TestSoakAgentPages(t *testing.T) {
	testenv.Soak(t)
	b := newBrowser(t, "--ignore-certificate-errors") // of the authority of the test
	script := axe(t)
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	i, _ := testenv.NewIssuer(t)
	certificate, key := i.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	m.write("cert.pem", string(certificate))
	m.write("key.pem", string(key))
	var agent testenv.Daemon
	agent.Start(t, exec.Command(filepath.Join(m.bin, "execd"), "agent", "--host", hostName, "--spool", filepath.Join(m.dir, "spool"), "--socket", m.socket(), //nolint:noctx // it is killed by the test
		"--conf", filepath.Join(m.dir, "conf"), "--web", "127.0.0.1:0", "--tls-cert", m.dir+"/cert.pem", "--tls-key", m.dir+"/key.pem"), filepath.Join(m.dir, "log"))
	defer agent.Kill()
	client, err := api.Dial(api.Options{Socket: m.socket(), RetryFor: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	is := func(job int, state api.State) {
		t.Helper()
		for {
			j, err := client.Job(ctx, api.ID{Job: job})
			if err != nil {
				t.Fatal(err)
			}
			if j.State == state {
				return
			}
		}
	}
	for number, name := range map[int]string{7: "<b>assemble", 8: "short"} {
		script := "#!/bin/sh\nexec sleep 1000\n"
		if name == "short" {
			script = "#!/bin/sh\nexit 3\n"
		}
		m.until("the agent has taken the job", func() bool { // it takes none before it knows the load of the host
			_, err := client.Start(ctx, api.Start{
				Job: number, Owner: u.Username, Script: script, Command: []string{"-N", name, "-S", "/bin/sh", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh"},
				Grants: []api.Grant{{Queue: "all.q", Host: hostName, Slots: 1}},
			})
			if e, ok := errors.AsType[*api.Error](err); err != nil && (!ok || e.Code != api.Unavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	is(7, api.Running)
	is(8, api.Ended)
	found := regexp.MustCompile(`serving pages: address=(\S+)`).FindStringSubmatch(strings.Join(lines(t, filepath.Join(m.dir, "log")), "\n"))
	if found == nil {
		t.Fatal("the agent serves no pages")
	}
	base := "https://" + found[1]
	link := m.as(u, "../execd", "web", "--link")
	page := b.open(base)
	page.visit(strings.TrimSpace(link.stdout))
	page.until(`document.querySelector("h1").textContent === "Overview"`)
	for _, view := range []struct{ path, shows string }{{"/", "<b>assemble"}, {"/jobs/7", "Suspend"}, {"/jobs/8", "Exit status 3"}, {"/jobs/9", "is not on this host"}} {
		for _, look := range []struct {
			colours string
			width   int
		}{{"light", 1100}, {"dark", 1100}, {"light", 360}} {
			page.look(look.width, look.colours)
			page.visit(base + view.path)
			if text := page.text("document.body.innerText"); !strings.Contains(text, view.shows) {
				t.Errorf("%s: no %q in\n%s", view.path, view.shows, text)
			}
			page.accessible(script, "", view.path+", "+look.colours)
		}
	}
	page.visit(base + "/jobs/7")
	for _, step := range []struct {
		button, confirm string
		state           api.State
	}{{"Suspend", "", api.Suspended}, {"Resume", "", api.Running}, {"Terminate...", "Terminate job 7 now", api.Ended}} {
		page.until(`[...document.querySelectorAll("button, summary")].some((e) => e.textContent === "` + step.button + `")`)
		page.focus(step.button)
		if step.confirm != "" {
			page.press("Enter")
			page.focus(step.confirm)
		}
		page.loads(func() { page.press("Enter") })
		is(7, step.state)
	}
	page.until(`document.querySelector(".lead").textContent.includes("ended")`)
	page.quiet()
}
