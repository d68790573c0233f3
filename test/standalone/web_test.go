package standalone

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// site is a running execd web.
type site struct {
	*machine
	link    string // the first one
	base    string // scheme, host and port
	address string // host and port of the listener
	links   *bufio.Scanner
	pid     int
}

// web starts execd web as a user.
func (m *machine) web(u *user.User) *site {
	m.Helper()
	cmd := m.command(context.Background(), u, "../execd", "web")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			m.Errorf("execd web after an interrupt: %v", err)
		}
	})
	s := &site{machine: m, links: bufio.NewScanner(stdout), pid: cmd.Process.Pid}
	s.link = s.next()
	at, err := url.Parse(s.link)
	if err != nil {
		m.Fatal(err)
	}
	s.base, s.address = "http://"+at.Host, net.JoinHostPort("127.0.0.1", at.Port())
	return s
}

// next returns the next link that the command prints.
func (s *site) next() string {
	s.Helper()
	for s.links.Scan() {
		if i := strings.Index(s.links.Text(), "http://"); i >= 0 {
			return s.links.Text()[i:]
		}
	}
	s.Fatal("execd web printed no link")
	return ""
}

// browser returns a client that keeps cookies.
func (s *site) browser() *http.Client {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.address)
	}
	return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{DialContext: dial}}
}

// webAnswer is an answer of the server.
type webAnswer struct {
	status int
	header http.Header
	text   string
}

// do sends a request. Each change is called with it first.
func (s *site) do(c *http.Client, method, path string, form url.Values, changes ...func(*http.Request)) webAnswer {
	s.Helper()
	if strings.HasPrefix(path, "/") {
		path = s.base + path
	}
	r, err := http.NewRequestWithContext(s.Context(), method, path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range changes {
		change(r)
	}
	response, err := c.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return webAnswer{response.StatusCode, response.Header, string(text)}
}

// formToken returns the token of the forms on a page.
func (a webAnswer) formToken() string {
	if m := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(a.text); m != nil {
		return m[1]
	}
	return ""
}

// TestWebGuard knocks at the pages as all but the browser of the user may.
func TestWebGuard(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	if r := m.as(u, "qsub", "-h", "-b", "y", "-wd", "/tmp", "sleep", "1000"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	s := m.web(u)
	stranger := s.browser()
	for _, path := range []string{"/", "/jobs", "/jobs/1", "/hosts/" + hostName, "/shares", "/quotas", "/events?of=/", "/open", "/open?token=", "/open?token=x", "/nothing"} {
		if a := s.do(stranger, "GET", path, nil); a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			t.Errorf("a stranger gets %s: %d", path, a.status)
		}
	}
	if a := s.do(stranger, "POST", "/jobs/1/delete", url.Values{}); a.status != http.StatusUnauthorized {
		t.Errorf("a stranger may delete a job: %d", a.status)
	}

	mine := s.browser()
	a := s.do(mine, "GET", s.link, nil)
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusOK || !strings.Contains(cookie, "; HttpOnly; SameSite=Strict") || a.header.Get("Refresh") != "0; url=/" {
		t.Errorf("the link: %d %v", a.status, a.header)
	}
	if a := s.do(stranger, "GET", s.link, nil); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a link works twice: %d %v", a.status, a.header)
	}
	if a := s.do(s.browser(), "GET", s.next(), nil); a.status != http.StatusOK {
		t.Errorf("the next link: %d %s", a.status, a.text)
	}
	for _, path := range []string{"/", "/jobs", "/jobs/1", "/hosts/" + hostName, "/shares", "/quotas"} {
		a := s.do(mine, "GET", path, nil)
		if a.status != http.StatusOK {
			t.Errorf("%s: %d\n%s", path, a.status, a.text)
		}
		if policy := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if strings.Contains(a.text, "style=") || strings.Contains(a.text, "<script>") || strings.Contains(a.text, " onclick") {
			t.Errorf("%s has what the policy forbids", path)
		}
	}
	for _, host := range []string{"attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost.attacker.example", ""} {
		to := func(r *http.Request) { r.Host = host }
		if host == "" {
			to = func(r *http.Request) { r.Host = "execd-x.localhost" }
		}
		if a := s.do(mine, "GET", "/jobs", nil, to); a.status != http.StatusMisdirectedRequest {
			t.Errorf("Host %q: %d", host, a.status)
		}
	}
	token := s.do(mine, "GET", "/jobs/1", nil).formToken()
	if token == "" {
		t.Fatal("the page of a job has no form")
	}
	for name, attack := range map[string]func() webAnswer{
		"no token":    func() webAnswer { return s.do(mine, "POST", "/jobs/1/delete", url.Values{}) },
		"wrong token": func() webAnswer { return s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {"x"}}) },
		"token in the address": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete?csrf="+token, url.Values{})
		},
		"another origin": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {token}}, func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") })
		},
		"another port": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {token}}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") })
		},
		"a large form": func() webAnswer {
			return s.do(mine, "POST", "/jobs/1/delete", url.Values{"a": {strings.Repeat("x", 1<<20)}, "csrf": {token}})
		},
	} {
		if a := attack(); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a := s.do(mine, "GET", "/jobs/1/delete", nil); a.status < 400 {
		t.Errorf("a link deletes a job: %d", a.status)
	}
	if r := m.as(u, "qstat", "-j", "1"); r.status != 0 {
		t.Fatalf("one of the attacks has deleted the job: %+v", r)
	}
	a = s.do(mine, "POST", "/jobs/1/delete", url.Values{"csrf": {token}})
	if a.status != http.StatusNotFound || !strings.Contains(a.text, "has deleted job 1") { // the job is gone
		t.Errorf("the owner cannot delete the job: %d\n%s", a.status, a.text)
	}
}

// TestWebHostile shows what hostile users choose: names, output, and their own jobs.
func TestWebHostile(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 2)
	users := someUsers(t, 2)
	me, other := users[0], users[1]
	m.start()
	dir := m.open("out")
	for _, u := range users {
		if r := m.as(u, "qsub", "-h", "-b", "y", "-wd", dir, "-N", "<b>"+u.Username, "-ac", "a=<img src=x onerror=alert(1)>", "-v", "SECRET=<i>hunter2", "sleep", "1000"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.write("out/job.sh", "#!/bin/sh\nprintf '\\033]0;<script>alert(2)</script>\\007 \\377 line\\n'\nexec sleep 1000\n")
	if r := m.as(me, "qsub", "-wd", dir, "-j", "y", filepath.Join(dir, "job.sh")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the job has written", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "job.sh.o3"))
		return strings.Contains(string(text), "line")
	})
	s := m.web(me)
	c := s.browser()
	s.do(c, "GET", s.link, nil)
	page := s.do(c, "GET", "/jobs/3", nil)
	if !strings.Contains(page.text, `\x1b]0;&lt;script&gt;alert(2)&lt;/script&gt;\x07 \xff line`) {
		t.Errorf("the output of the job is missing or dangerous:\n%s", page.text)
	}
	for _, path := range []string{"/", "/jobs", "/jobs/1", "/jobs/2", "/jobs/3", "/jobs?show=%3Cscript%3E", "/hosts/%3Cscript%3Ealert(1)", "/jobs/%3Cscript%3E"} {
		a := s.do(c, "GET", path, nil)
		for _, bad := range []string{"<script>", "<b>" + me.Username, "<b>" + other.Username, "<img", "<i>", "\x1b", "\u202e"} {
			if strings.Contains(a.text, bad) {
				t.Errorf("%s: the page has %q", path, bad)
			}
		}
	}
	theirs := s.do(c, "GET", "/jobs/2", nil)
	if theirs.status != http.StatusOK || strings.Contains(theirs.text, "hunter2") || theirs.formToken() != "" {
		t.Errorf("the job of another user shows secrets or buttons: %d\n%s", theirs.status, theirs.text)
	}
	a := s.do(c, "POST", "/jobs/2/delete", url.Values{"csrf": {page.formToken()}})
	if r := m.as(other, "qstat", "-j", "2"); r.status != 0 || !strings.Contains(a.text, "you do not have the necessary privileges") {
		t.Errorf("deletion of another user's job: %d\n%s\n%+v", a.status, a.text, r)
	}
	// Actions on my own job, with what the command said.
	for _, step := range []struct{ action, said, button string }{
		{"suspend", "suspended job 3", "/jobs/3/resume"},
		{"resume", "unsuspended job 3", "/jobs/3/suspend"},
	} {
		a := s.do(c, "POST", "/jobs/3/"+step.action, url.Values{"csrf": {page.formToken()}})
		if !strings.Contains(a.text, step.said) || !strings.Contains(a.text, step.button) {
			t.Errorf("%s: %d\n%s", step.action, a.status, a.text)
		}
	}
	if a := s.do(c, "POST", "/jobs/1/release", url.Values{"csrf": {page.formToken()}}); !strings.Contains(a.text, "modified hold of job 1") {
		t.Errorf("release: %d\n%s", a.status, a.text)
	}
	// A log of 100 GB: only its end is read.
	if err := os.Truncate(filepath.Join(dir, "job.sh.o3"), 100<<30); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(filepath.Join(dir, "job.sh.o3"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := end.WriteString("\nthe end of it\n"); err != nil {
		t.Fatal(err)
	}
	end.Close()
	if a := s.do(c, "GET", "/jobs/3", nil); !strings.Contains(a.text, "the end of it") || len(a.text) > 1<<20 {
		t.Errorf("the page of a log of 100 GB has %d bytes", len(a.text))
	}
	if err := os.Truncate(filepath.Join(dir, "job.sh.o3"), 100); err != nil {
		t.Fatal(err)
	}
	// The output of a finished job: its record names the file.
	m.as(me, "qdel", "3")
	m.until("the job has left", func() bool { return m.as(me, "qstat", "-j", "3").status != 0 })
	page = s.do(c, "GET", "/jobs/3", nil)
	if !strings.Contains(page.text, "finished") || !strings.Contains(page.text, dir+"/job.sh.o3") || !strings.Contains(page.text, `\x1b]0;&lt;script&gt;`) {
		t.Errorf("the page of a finished job lacks its output:\n%s", page.text)
	}
}

// TestWebLive follows a page over events, while jobs come and go and while the daemon is restarted.
func TestWebLive(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	s := m.web(u)
	c := s.browser()
	s.do(c, "GET", s.link, nil)
	c.Timeout = 0
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.base+"/events?of=/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	events := bufio.NewScanner(stream.Body)
	events.Buffer(nil, 1<<20)
	// until reads events until one has the text.
	until := func(text string) {
		t.Helper()
		event := ""
		for events.Scan() {
			if event += events.Text() + "\n"; events.Text() != "" {
				continue
			}
			if strings.Contains(event, text) {
				return
			}
			event = ""
		}
		t.Fatalf("no event has %q: %v", text, events.Err())
	}
	until("There are no such jobs")
	if r := m.as(u, "qsub", "-h", "-b", "y", "-wd", "/tmp", "-N", "newcomer", "sleep", "1000"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	until("newcomer")
	m.daemon.Kill()
	until("cannot reach the daemon")
	m.start()
	until("newcomer")
}

// TestWebGPUs shows on all lists how many GPUs of a host are in use, and which a job has.
func TestWebGPUs(t *testing.T) {
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	m.write("conf/complexes", "gpu gpu RSMAP <= YES YES 0 0\n")
	m.write("conf/hosts/"+hostName, "hostname "+hostName+"\ncomplex_values gpu=5(0 1 2 3 4)\n")
	m.start()
	m.as(u, "qsub", "-b", "y", "-wd", m.open("out"), "-l", "gpu=1", "sleep", "1000")
	m.as(u, "qsub", "-b", "y", "-wd", m.open("out"), "-l", "gpu=1", "-t", "1-2", "sleep", "1000")
	m.until("all tasks run", func() bool { return strings.Count(m.as(u, "qstat", "-s", "r").stdout, " r ") == 3 })
	s := m.web(u)
	c := s.browser()
	s.do(c, "GET", s.link, nil)
	for path, text := range map[string]string{
		"/":                  `<li><b>3 of 5</b> GPUs in use</li>`,
		"/#":                 `<td data-label="GPUs"><meter min="0" max="1" value="0.6" aria-label="3 of 5"></meter> 3 of 5</td>`,
		"/jobs":              "all.q@" + hostName + ", gpu 0<br>",
		"/jobs/1":            `<td data-label="Queue instance">all.q@` + hostName + `, gpu 0</td>`,
		"/jobs/2":            `<td data-label="Queue instance">all.q@` + hostName + `, gpu 2</td>`,
		"/hosts/" + hostName: "2 of 5",
	} {
		if a := s.do(c, "GET", path, nil); !strings.Contains(a.text, text) {
			t.Errorf("%s does not contain %q:\n%s", path, text, a.text)
		}
	}
	for command, text := range map[string]string{
		"qstat -j 1":         "resource map  1:            gpu=" + hostName + "(0)\n",
		"qstat -j 2":         "resource map  2:            gpu=" + hostName + "(2)\n",
		"../execd ps":        "all.q@" + hostName + ", gpu 0\n",
		"../execd top":       " 3 of 5 in use\n",
		"qstat -json":        `"things":[{"name":"gpu","host":"` + hostName + `","ids":["0"]}]`,
		"qhost -F gpu -json": `"name":"gpu","value":"2.000000","total":5`,
	} {
		words := strings.Fields(command)
		if r := m.as(u, words[0], words[1:]...); !strings.Contains(r.stdout, text) {
			t.Errorf("%s does not contain %q: %+v", command, text, r)
		}
	}
}

// TestWebOutputOfOthers shows managers the output of others with no more rights than they have, and root with the
// rights of the owner.
func TestWebOutputOfOthers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 4)
	users := someUsers(t, 3)
	owner, manager, stranger := users[0], users[1], users[2]
	root, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(m.dir, "secret")
	if err := os.WriteFile(secret, []byte("of root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start()
	if r := m.root("qconf", "-am", manager.Username); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	out := m.open("out")
	m.write("out/job.sh", "#!/bin/sh\necho words\ncase $1 in\nclosed) chmod 600 $SGE_STDOUT_PATH;;\nlink) rm $SGE_STDOUT_PATH; ln -s "+secret+" $SGE_STDOUT_PATH;;\nesac\necho done >"+out+"/$1\nexec sleep 1000\n")
	kinds := []string{"public", "closed", "link"}
	for _, kind := range kinds {
		if r := m.as(owner, "qsub", "-wd", out, "-j", "y", out+"/job.sh", kind); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		m.until("the job has written", func() bool {
			text, _ := os.ReadFile(filepath.Join(out, kind))
			return len(text) > 0
		})
	}
	const denied, heading = "permissions of the file do not let you", `<h2 id="output">`
	for _, c := range []struct {
		user   *user.User
		expect map[string]string
	}{
		{owner, map[string]string{"public": "words", "closed": "words", "link": "permission denied"}},
		{manager, map[string]string{"public": "words", "closed": denied, "link": denied}},
		{stranger, map[string]string{"public": "", "closed": "", "link": ""}},
		{root, map[string]string{"public": "words", "closed": "words", "link": denied}},
	} {
		s := m.web(c.user)
		browser := s.browser()
		s.do(browser, "GET", s.link, nil)
		for i, kind := range kinds {
			text := s.do(browser, "GET", "/jobs/"+strconv.Itoa(i+1), nil).text
			_, shown, found := strings.Cut(text, heading)
			if want := c.expect[kind]; found != (want != "") || !strings.Contains(shown, want) || strings.Contains(text, "of root") {
				t.Errorf("%s, output %s: expected %q:\n%s", c.user.Username, kind, want, shown)
			}
		}
	}
}

// TestWebRecent shows events, the last day of the host, which outlives the daemon, and changes a job.
func TestWebRecent(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	for _, line := range []string{"-h -N <b>held sleep 1000", "-N short true"} {
		if r := m.as(u, "qsub", append([]string{"-b", "y", "-wd", m.open("out")}, strings.Fields(line)...)...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.until("the job has finished", func() bool { return m.as(u, "qstat", "-j", "2").status != 0 })
	s := m.web(u)
	c := s.browser()
	s.do(c, "GET", s.link, nil)
	log := s.do(c, "GET", "/log", nil).text
	for _, text := range []string{"&lt;b&gt;held", "was submitted", "started", "finished with exit status 0"} {
		if !strings.Contains(log, text) {
			t.Errorf("no event has %q:\n%s", text, log)
		}
	}
	var host string
	m.until("the host has a sample", func() bool {
		host = s.do(c, "GET", "/hosts/"+hostName, nil).text
		return strings.Contains(host, "Slots in use: ")
	})
	if !strings.Contains(host, "<polyline points=") || !strings.Contains(host, "Memory in use: ") {
		t.Errorf("the page of the host lacks diagrams:\n%s", host)
	}

	page := s.do(c, "GET", "/jobs/1", nil)
	form := url.Values{
		"csrf": {page.formToken()}, "name": {"renamed"}, "old-name": {"<b>held"}, "resources": {"h_rt=60"}, "old-resources": {""}, "priority": {"0"}, "old-priority": {"0"},
	}
	if a := s.do(c, "POST", "/jobs/1/change", form); !strings.Contains(a.text, "renamed") || !strings.Contains(a.text, "h_rt=60") {
		t.Errorf("change: %d\n%s", a.status, a.text)
	}
	form.Set("priority", "soon")
	if a := s.do(c, "POST", "/jobs/1/change", form); !strings.Contains(a.text, `class="answer bad"`) || !strings.Contains(a.text, "-p") {
		t.Errorf("a wrong priority: %d\n%s", a.status, a.text)
	}
	if a := s.do(c, "POST", "/jobs/1/change", url.Values{"csrf": {page.formToken()}, "name": {"x"}, "old-name": {"x"}}); a.status != http.StatusNotFound {
		t.Errorf("no change: %d", a.status)
	}

	client, err := api.Dial(m.socket(), patience, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Agent().Close()
	before, err := client.Recent(t.Context())
	if err != nil || len(before.Samples) == 0 {
		t.Fatalf("%+v %v", before, err)
	}
	daemon, gone := m.daemon.Process()
	if err := daemon.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-gone
	m.start()
	after, err := client.Recent(t.Context())
	if err != nil || len(after.Samples) == 0 || after.Samples[0] != before.Samples[0] {
		t.Errorf("after a restart the daemon has the samples %+v (%v), before it %+v", after, err, before)
	}
}

// TestSoakManyPages opens 1,000 pages that follow the daemon. All get the same news, and all others work meanwhile.
// Then the browsers go away in the middle of an event, and the server keeps none of their connections.
func TestSoakManyPages(t *testing.T) {
	testenv.Soak(t)
	const pages = 1000
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	if r := m.as(u, "qsub", "-h", "-b", "y", "-wd", "/tmp", "-N", "before", "sleep", "1000"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	s := m.web(u)
	c := s.browser()
	s.do(c, "GET", s.link, nil)
	at, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	cookie := c.Jar.Cookies(at)[0].String()
	open := func() int {
		list, err := os.ReadDir("/proc/" + strconv.Itoa(s.pid) + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := open()
	var conns []*net.TCPConn
	var streams []*bufio.Reader
	var dialer net.Dialer
	for range pages {
		conn, err := dialer.DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /events?of=/jobs HTTP/1.1\r\nHost: "+at.Host+"\r\nCookie: "+cookie+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn.(*net.TCPConn))
		streams = append(streams, bufio.NewReader(conn))
	}
	everywhere := func(text string) {
		t.Helper()
		for i, stream := range streams {
			for line := ""; !strings.Contains(line, text); {
				if line, err = stream.ReadString('\n'); err != nil {
					t.Fatalf("page %d: no %q: %v", i, text, err)
				}
			}
		}
	}
	everywhere("before")
	if r := m.as(u, "qalter", "-N", "after", "1"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	everywhere("after")
	m.until("another page works", func() bool { return strings.Contains(s.do(c, "GET", "/jobs/1", nil).text, "after") })
	m.as(u, "qalter", "-N", "later", "1") // which the server may be writing now
	for _, conn := range conns {
		_ = conn.SetLinger(0)
		conn.Close()
	}
	m.until("the server has closed the connections", func() bool { return open() <= before+2 })
	m.until("the page shows the last change", func() bool { return strings.Contains(s.do(c, "GET", "/jobs/1", nil).text, "later") })
}
