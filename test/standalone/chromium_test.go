package standalone

import (
	"bufio"
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// browser is a Chromium without windows, driven by the DevTools protocol over a pipe
// (--remote-debugging-pipe): JSON messages that end with a NUL.
type browser struct {
	testing.TB
	in *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan devtools // of commands, by their numbers
	tabs    map[string]*tab       // by session
	closed  error
}

// devtools is a message of the protocol.
type devtools struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newBrowser starts Chromium. It has a profile of its own, and ends with the test.
func newBrowser(t testing.TB, options ...string) *browser {
	t.Helper()
	testenv.Require(t, testenv.Chromium)
	commands, in := pipe(t)
	out, events := pipe(t)
	cmd := exec.Command("chromium", append([]string{ //nolint:noctx // it is killed by the test
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
		// The sandbox needs rights that root in a container lacks. Only our own pages are loaded.
		"--no-sandbox",
	}, options...)...)
	cmd.ExtraFiles = []*os.File{commands, events} // descriptors 3 and 4
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	events.Close()
	b := &browser{TB: t, in: in, answers: map[int]chan devtools{}, tabs: map[string]*tab{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and the processes that it has started
		_ = cmd.Wait()
		in.Close()
		out.Close()
		<-read
	})
	return b
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// read passes the messages of the browser to those who wait for them.
func (b *browser) read(from io.Reader) {
	messages := bufio.NewReader(from)
	var err error
	for err == nil {
		var text []byte
		if text, err = messages.ReadBytes(0); err != nil {
			break
		}
		m := devtools{}
		if err = json.Unmarshal(text[:len(text)-1], &m); err != nil {
			break
		}
		b.mu.Lock()
		if m.ID > 0 {
			if c := b.answers[m.ID]; c != nil {
				delete(b.answers, m.ID)
				c <- m
			}
		} else if t := b.tabs[m.Session]; t != nil {
			t.note(m)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = fmt.Errorf("the browser has ended: %w", err)
	for _, c := range b.answers {
		close(c)
	}
	b.answers = nil
}

// call sends a command and reads its result into the value that result points to, which may be nil.
func (b *browser) call(session, method string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed != nil {
		defer b.mu.Unlock()
		return b.closed
	}
	b.last++
	m := devtools{ID: b.last, Session: session, Method: method, Params: text}
	answer := make(chan devtools, 1)
	b.answers[m.ID] = answer
	text, err = json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a, ok := <-answer:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the browser does not answer %s", method)
	}
}

// tab is a page of the browser.
type tab struct {
	*browser
	session string
	loaded  chan struct{} // has a value after a page was loaded
	origin  string        // the only one from which the page may load; guarded by browser.mu; empty for any

	// These are guarded by browser.mu.
	complaints []string // exceptions, errors of the console, requests to other origins
	sent       int      // requests
}

// args are the parameters of a command.
type args map[string]any

// open opens a tab, which may load from one origin only.
func (b *browser) open(origin string) *tab {
	b.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	// A context of its own has no cookies of other tabs.
	var context struct {
		ID string `json:"browserContextId"`
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.must(b.call("", "Target.createBrowserContext", args{}, &context))
	b.must(b.call("", "Target.createTarget", args{"url": "about:blank", "browserContextId": context.ID}, &target))
	b.must(b.call("", "Target.attachToTarget", args{"targetId": target.ID, "flatten": true}, &attached))
	t := &tab{browser: b, session: attached.Session, loaded: make(chan struct{}, 1), origin: origin}
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		t.do(domain+".enable", args{}, nil)
	}
	return t
}

func (b *browser) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// note handles an event. The caller holds browser.mu.
func (t *tab) note(m devtools) {
	switch m.Method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default:
		}
	case "Page.javascriptDialogOpening":
		t.complaints = append(t.complaints, "dialog: "+string(m.Params))
	case "Runtime.exceptionThrown":
		t.complaints = append(t.complaints, "exception: "+string(m.Params))
	case "Log.entryAdded":
		// The answers of a server that is away, and those with an error status, are in the log, too.
		if bytes.Contains(m.Params, []byte(`"level":"error"`)) && !bytes.Contains(m.Params, []byte(`"source":"network"`)) {
			t.complaints = append(t.complaints, "log: "+string(m.Params))
		}
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		t.sent++
		if err := json.Unmarshal(m.Params, &p); err != nil || t.origin != "" && !strings.HasPrefix(p.Request.URL, t.origin+"/") {
			t.complaints = append(t.complaints, "request: "+p.Request.URL)
		}
	}
}

// do sends a command to the tab.
func (t *tab) do(method string, params args, result any) {
	t.Helper()
	t.must(t.call(t.session, method, params, result))
}

// visit loads an address, and waits until it is loaded.
func (t *tab) visit(url string) {
	t.Helper()
	t.loads(func() {
		var result struct{ ErrorText string }
		t.do("Page.navigate", args{"url": url}, &result)
		if result.ErrorText != "" {
			t.Fatalf("%s: %s", url, result.ErrorText)
		}
	})
}

// loads waits until an action has loaded a page.
func (t *tab) loads(action func()) {
	t.Helper()
	select {
	case <-t.loaded:
	default:
	}
	action()
	select {
	case <-t.loaded:
	case <-time.After(patience):
		t.Fatal("the page is not loaded")
	}
}

// value evaluates JavaScript, which may be a promise, and returns its JSON. The error is that of a
// page that has left meanwhile.
func (t *tab) value(script string) (json.RawMessage, error) {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := t.call(t.session, "Runtime.evaluate", args{"expression": script, "awaitPromise": true, "returnByValue": true}, &r)
	if err == nil && r.ExceptionDetails != nil {
		err = errors.New(r.ExceptionDetails.Text + " " + r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value, err
}

// text evaluates JavaScript that is a string.
func (t *tab) text(script string) string {
	t.Helper()
	value, err := t.value(script)
	t.must(err)
	var text string
	t.must(json.Unmarshal(value, &text))
	return text
}

// until waits until the page has changed so that an expression is true. The page may be replaced by
// another one meanwhile.
func (t *tab) until(condition string) {
	t.Helper()
	script := `new Promise((resolve) => {
		const look = () => { try { return !!(` + condition + `); } catch { return false; } };
		if (look()) { resolve(true); return; }
		const seen = new MutationObserver(() => { if (look()) { seen.disconnect(); resolve(true); } });
		seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
	})`
	end := time.Now().Add(patience)
	for {
		value, err := t.value(script)
		if err == nil && string(value) == "true" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not in time: %s: %v\n%s", condition, err, t.text("document.body.innerText"))
		}
		select { // the page has left
		case <-t.loaded:
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// press presses and releases a key.
func (t *tab) press(key string, modifiers ...int) {
	t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}[key]
	text := map[string]string{"Enter": "\r", " ": " "}[key]
	p := args{"key": key, "windowsVirtualKeyCode": code, "type": "rawKeyDown"}
	if len(modifiers) > 0 {
		p["modifiers"] = modifiers[0]
	}
	if text != "" {
		p["type"], p["text"] = "keyDown", text
	}
	t.do("Input.dispatchKeyEvent", p, nil)
	p["type"] = "keyUp"
	delete(p, "text")
	t.do("Input.dispatchKeyEvent", p, nil)
}

// focus presses the tabulator until an element has the focus whose accessible name begins with a text.
func (t *tab) focus(name string) {
	t.Helper()
	quoted, err := json.Marshal(name)
	t.must(err)
	var seen []string
	for range 300 {
		t.press("Tab")
		now := t.text(`(() => { const e = document.activeElement; return e.getAttribute("aria-label") || (e.labels && e.labels[0] ? e.labels[0].textContent : e.textContent).trim(); })()`)
		if strings.HasPrefix(now, strings.Trim(string(quoted), `"`)) {
			return
		}
		seen = append(seen, now)
	}
	t.Fatalf("the keyboard does not reach %q, but %q", name, seen)
}

// look sets the width of the page in CSS pixels, and the colours, light or dark.
func (t *tab) look(width int, colours string) {
	t.Helper()
	t.do("Emulation.setDeviceMetricsOverride", args{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	t.do("Emulation.setEmulatedMedia", args{"features": []args{{"name": "prefers-color-scheme", "value": colours}}}, nil)
}

// picture writes the page as a PNG file.
func (t *tab) picture(path string, height int) {
	t.Helper()
	var shot struct{ Data []byte }
	t.do("Page.captureScreenshot", args{"format": "png", "clip": args{"x": 0, "y": 0, "width": 900, "height": height, "scale": 1}, "captureBeyondViewport": true}, &shot)
	t.must(os.WriteFile(path, shot.Data, 0o644))
}

// spoken lists the role and the name of each element as a screen reader gets them, one per line.
func (t *tab) spoken() string {
	t.Helper()
	type value struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name value
		}
	}
	t.do("Accessibility.getFullAXTree", args{}, &tree)
	var all strings.Builder
	for _, n := range tree.Nodes {
		if !n.Ignored {
			fmt.Fprintln(&all, n.Role.Value, n.Name.Value)
		}
	}
	return all.String()
}

// quiet fails the test if the page has thrown exceptions, violated its policy, or loaded from elsewhere.
func (t *tab) quiet() {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.complaints {
		t.Error(c)
	}
	t.complaints = nil
}

// The release of axe-core that checks the pages, and the hash of its package.
const (
	axeRelease = "axe-core@4.14.1"
	axeHash    = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the script of axe-core, which npm downloads once into the user's cache.
func axe(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "execd-test")
	archive := filepath.Join(dir, strings.ReplaceAll(axeRelease, "@", "-")+".tgz")
	text, err := os.ReadFile(archive)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "--pack-destination", dir, axeRelease).CombinedOutput(); err != nil {
			t.Skipf("axe-core is not here, and npm cannot download it: %v\n%s", err, out)
		}
		text, err = os.ReadFile(archive)
	}
	if err != nil {
		t.Fatal(err)
	}
	if hash := sha512.Sum512(text); base64.StdEncoding.EncodeToString(hash[:]) != axeHash {
		_ = os.Remove(archive)
		t.Fatalf("%s is not the package that it should be", archive)
	}
	script, err := exec.CommandContext(t.Context(), "tar", "-xzOf", archive, "package/axe.min.js").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// accessible fails the test if axe-core finds a violation on the page, of one rule or of all.
func (t *tab) accessible(script, rule, what string) {
	t.Helper()
	_, err := t.value(script + "; true")
	t.must(err)
	options := `{resultTypes: ["violations"]}`
	if rule != "" {
		options = `{resultTypes: ["violations"], runOnly: ["` + rule + `"]}`
	}
	found := t.text(`axe.run(document, ` + options + `).then((r) => r.violations.map((v) =>
		v.id + ": " + v.help + "\n" + v.nodes.map((n) => "  " + n.html + "\n  " + n.failureSummary).join("\n")).join("\n"))`)
	if found != "" {
		t.Errorf("%s: axe-core finds\n%s", what, found)
	}
}
