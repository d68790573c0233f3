package standalone

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// roam lets the tab load from all origins.
func (t *tab) roam() {
	t.Helper()
	t.quiet()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.origin = ""
}

// TestSoakAttackedPages opens pages in Chromium with what hostile users and web sites can do: names, contexts and
// output of jobs with HTML and control characters; forms, frames and requests of another site; a name that
// resolves to the server (DNS rebinding); a link that was used before; jobs of another user.
func TestSoakAttackedPages(t *testing.T) {
	testenv.Soak(t)
	testenv.Require(t, testenv.Root)
	b := newBrowser(t, "--host-resolver-rules=MAP *.example 127.0.0.1")
	m := newMachine(t, 4)
	users := someUsers(t, 2)
	me, other := users[0], users[1]
	m.start()
	dir := m.open("out")
	m.write("out/job.sh", "#!/bin/sh\nprintf '\\033]0;title\\007\\033[31m<script>alert(2)</script>\\377\\n</pre><img src=x onerror=alert(3)>\\n'\nexec sleep 1000\n")
	for _, u := range []string{me.Username, other.Username} {
		by := me
		if u == other.Username {
			by = other
		}
		r := m.as(by, "qsub", "-wd", dir, "-j", "y", "-o", dir+"/of."+u, "-N", "<img>x", "-ac", "a=<script>alert(4)</script>", "-v", "SECRET=<i>hunter2\u202e", dir+"/job.sh")
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.until("the jobs have written", func() bool {
		return len(lines(t, dir+"/of."+me.Username)) > 1 && len(lines(t, dir+"/of."+other.Username)) > 1
	})
	s := m.web(me)
	page := s.enter(b)
	for _, path := range []string{"/", "/jobs", "/jobs/1", "/jobs/2", "/log", "/shares", "/quotas", "/jobs?show=%3Cscript%3Ealert(5)%3C/script%3E", "/hosts/%3Cimg%20src=x%20onerror=alert(6)%3E"} {
		page.visit(s.base + path)
		if found := page.text(`[...document.querySelectorAll("img, i, script:not([src])")].map((e) => e.outerHTML).join("\n")`); found != "" {
			t.Errorf("%s has elements of a job: %s", path, found)
		}
		page.quiet()
	}
	page.visit(s.base + "/jobs/1")
	if text := page.text("document.body.innerText"); !strings.Contains(text, `\x1b]0;title\x07\x1b[31m<script>alert(2)</script>\xff`) || !strings.Contains(text, "a=<script>alert(4)</script>") || !strings.Contains(text, `<img>x of `+me.Username) {
		t.Errorf("the page of a job lacks what its owner has chosen:\n%s", text)
	}
	token := page.text(`document.querySelector("[name=csrf]").value`)
	page.visit(s.base + "/jobs/2")
	if text := page.text("document.documentElement.outerHTML"); strings.Contains(text, "hunter2") || strings.Contains(text, "/jobs/2/") || strings.Contains(text, "alert(2)") {
		t.Errorf("the job of another user shows secrets, buttons or output:\n%s", text)
	}
	answer := page.text(`fetch("/jobs/2/delete", {method: "POST", body: new URLSearchParams({csrf: "` + token + `"})}).then((r) => r.text())`)
	if !strings.Contains(answer, "you do not have the necessary privileges") {
		t.Errorf("deletion of another user's job:\n%s", answer)
	}
	page.visit(s.link)
	if text := page.text("document.body.innerText"); !strings.Contains(text, "This link was used before") {
		t.Errorf("a link works twice:\n%s", text)
	}

	// Another web site in the same browser, which has the cookie of the pages.
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/form" {
			fmt.Fprintf(w, `<form method="post" action="%s/jobs/1/delete"><input name="csrf" value="x"></form><script>document.forms[0].submit()</script>`, s.base)
			return
		}
		fmt.Fprintf(w, `<h1>other</h1><iframe src="%[1]s/jobs/1"></iframe><img src="%[1]s/icon.svg"><script src="%[1]s/live.js"></script>`, s.base)
	}))
	defer site.Close()
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	attacker := "http://attacker.example:" + port
	page.roam()
	page.visit(attacker + "/")
	got := page.text(`Promise.all([
		fetch("` + s.base + `/jobs/1", {credentials: "include"}).then((r) => r.text(), (e) => "refused"),
		fetch("` + s.base + `/jobs/1/delete", {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({csrf: "` + token + `"})}).then((r) => r.type, (e) => "refused"),
		document.images[0].decode().then(() => "loaded", () => "refused"),
	]).then((list) => list.join(" "))`)
	if got != "refused opaque refused" && got != "refused refused refused" {
		t.Errorf("another site gets %q", got)
	}
	page.visit(attacker + "/form")
	page.until(`location.origin === "` + s.base + `"`)
	page.until(`document.body.innerText.includes("Another web site sent this request")`)
	// The name of the site now leads to the server.
	_, served, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	page.visit("http://attacker.example:" + served + "/jobs/1")
	if text := page.text("document.body.innerText"); !strings.Contains(text, "This server does not have the name in the address") || strings.Contains(text, "alert") {
		t.Errorf("a name of another site:\n%s", text)
	}
	for _, job := range []string{"1", "2"} {
		if r := m.as(me, "qstat", "-j", job); r.status != 0 {
			t.Errorf("job %s is gone after the attacks: %+v", job, r)
		}
	}
	page.visit(s.base + "/jobs/1") // the session goes on
	if title := page.text("document.title"); title != "Job 1 - execd" {
		t.Errorf("after the attacks the page is %q", title)
	}
}

// TestSoakSignedIn enters the pages of a daemon in Chromium over TLS, and leaves them with the keyboard.
func TestSoakSignedIn(t *testing.T) {
	testenv.Soak(t)
	b := newBrowser(t, "--ignore-certificate-errors") // of the authority of the test
	script := axe(t)
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	s := withPages(m, nil)
	if r := m.as(u, "qsub", "-h", "-b", "y", "-wd", "/tmp", "-N", "over-tls", "sleep", "1"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	page := b.open(s.base)
	page.visit(s.linkOf(u))
	page.until(`document.querySelector("h1").textContent === "Overview"`)
	page.visit(s.base + "/jobs")
	page.until(`document.body.innerText.includes("over-tls")`)
	m.as(u, "qalter", "-N", "renamed", "1")
	page.until(`document.body.innerText.includes("renamed")`)
	if cookies := page.text("document.cookie"); cookies != "" {
		t.Errorf("scripts read the cookie %q", cookies)
	}
	for _, colours := range []string{"light", "dark"} {
		page.look(1100, colours)
		page.accessible(script, "", "signed in, "+colours)
	}
	page.focus("Sign out")
	page.loads(func() { page.press("Enter") })
	page.until(`document.body.innerText.includes("You have signed out")`)
	page.accessible(script, "", "signed out")
	page.visit(s.base + "/jobs")
	if text := page.text("document.body.innerText"); strings.Contains(text, "renamed") || !strings.Contains(text, "execd web --link") {
		t.Errorf("after signing out:\n%s", text)
	}
	page.quiet()
}
