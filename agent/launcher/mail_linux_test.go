package launcher

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/testenv"
)

// newMailWorld returns a world whose launcher has a mailer, which writes what it gets to the file "got" in an open
// directory dir.
func newMailWorld(t *testing.T, script string) (w *world, s *Server, dir string) {
	t.Helper()
	testenv.Require(t, testenv.Root)
	top := t.TempDir()
	testenv.LetIn(t, top)
	dir = testenv.Open(t, filepath.Join(top, "out"))
	mailer := filepath.Join(top, "mailer")
	testenv.WriteFile(t, mailer, "#!/bin/sh\nDIR='"+dir+"'\n"+script)
	if err := os.Chmod(mailer, 0o755); err != nil {
		t.Fatal(err)
	}
	w, s = newStrictWorld(t, func(s *Server) { s.Rules.Site.Mailer = mailer + " -x" })
	return w, s, dir
}

// TestForgedMails checks that a captured front can neither choose the mailer nor make it do anything but send a bounded
// mail.
func TestForgedMails(t *testing.T) {
	w, s, dir := newMailWorld(t, `touch "$DIR/ran"`)
	good := mailBody{Mailer: submission.Text(s.Rules.Site.Mailer), To: []submission.Text{"alice"}, Subject: "s", Text: "t\n"}
	to := func(list ...submission.Text) mailBody {
		b := good
		b.To = list
		return b
	}
	with := func(f func(b *mailBody)) mailBody {
		b := good
		f(&b)
		return b
	}
	for name, c := range map[string]struct {
		body mailBody
		code string
		want string
	}{
		"no address":                       {to(), codeRefused, "0 addresses"},
		"an option":                        {to("alice", "-X/tmp/log"), codeRefused, "invalid mail address"},
		"a command":                        {to("|/bin/sh"), codeRefused, "invalid mail address"},
		"a file":                           {to("/root/.ssh/authorized_keys"), codeRefused, "invalid mail address"},
		"an option of another kind":        {to("+folder"), codeRefused, "invalid mail address"},
		"a line break in an address":       {to("alice\nBcc: x"), codeRefused, "invalid mail address"},
		"an escape in an address":          {to("al\x1bice"), codeRefused, "invalid mail address"},
		"no UTF-8 in an address":           {to("al\xffice"), codeRefused, "invalid mail address"},
		"an empty address":                 {to(""), codeRefused, "invalid mail address"},
		"a long address":                   {to(submission.Text(strings.Repeat("a", mostAddress+1))), codeRefused, "invalid mail address"},
		"too many addresses":               {to(make([]submission.Text, mostRecipients+1)...), codeRefused, "expected 1 to 256"},
		"a header in the subject":          {with(func(b *mailBody) { b.Subject = "s\nBcc: x" }), codeRefused, "the subject"},
		"an escape in the subject":         {with(func(b *mailBody) { b.Subject = "\x1b]0;x" }), codeRefused, "the subject"},
		"a long subject":                   {with(func(b *mailBody) { b.Subject = submission.Text(strings.Repeat("s", mostSubject+1)) }), codeRefused, "the subject"},
		"a NUL in the text":                {with(func(b *mailBody) { b.Text = "a\x00b" }), codeRefused, "control character"},
		"a long text":                      {with(func(b *mailBody) { b.Text = submission.Text(strings.Repeat("t", mostMailText+1)) }), codeRefused, "at most 131072"},
		"another mailer":                   {with(func(b *mailBody) { b.Mailer = "/bin/sh" }), "mailer", "another mailer"},
		"the mailer with other arguments":  {with(func(b *mailBody) { b.Mailer += " -c" }), "mailer", "another mailer"},
		"the mailer as root":               {with(func(b *mailBody) { b.Mailer = "root@" + b.Mailer }), "mailer", "another mailer"},
		"the mailer as the owner of files": {with(func(b *mailBody) { b.Mailer = "daemon@" + b.Mailer }), "mailer", "another mailer"},
	} {
		text, err := json.Marshal(&c.body)
		if err != nil {
			t.Fatal(err)
		}
		e := w.askLong(kindMail, text)
		if e == nil || e.Code != c.code || !strings.Contains(e.Text, c.want) {
			t.Errorf("%s: %+v, expected %s: %s", name, e, c.code, c.want)
		}
		if audits := w.audits(); (len(audits) == 1) != (c.code == codeRefused) {
			t.Errorf("%s: the audit log has %q", name, audits)
		}
	}
	for mailer, want := range map[string]string{"root@": "would run as root", "backup@": "would run as user backup"} {
		s.UseObjects(&Objects{Mailer: mailer + string(good.Mailer)})
		b := good
		b.Mailer = submission.Text(mailer) + good.Mailer
		if e := w.ask(kindMail, &b); e == nil || !strings.Contains(e.Text, want) {
			t.Errorf("%s: %+v, expected %q", mailer, e, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the mailer has run")
	}
}

// TestMailer checks the user, the environment, the descriptors and the rights of a mailer: it may run set-group-ID
// programs, which a front cannot.
func TestMailer(t *testing.T) {
	w, s, dir := newMailWorld(t, `{ echo "$@"; cat; id -u; env | sort; ls /proc/self/fd; grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; "$DIR/../id" -g; } >"$DIR/got" 2>&1`)
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	const group = 8 // mail
	path := filepath.Join(filepath.Dir(dir), "id")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 0, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_PRELOAD_OF_LAUNCHER", "x")
	if e := w.ask(kindMail, &mailBody{Mailer: submission.Text(s.Rules.Site.Mailer), To: []submission.Text{"alice", "bob@x"}, Subject: "it's $HOME", Text: "one\n~! id\n.\n"}); e != nil {
		t.Fatal(e)
	}
	user, err := s.Rules.Users.User(mail.DefaultUser)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if want := "-x -s it's $HOME alice bob@x|one| ~! id| .|65534"; !strings.HasPrefix(strings.Join(lines, "|"), want) || user.UID != 65534 {
		t.Errorf("the mailer has got\n%s", got)
	}
	for _, want := range []string{"NoNewPrivs:\t0", "Seccomp:\t0", "\n0\n1\n2\n3\nNoNew"} { // 3 is that of ls
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if last := lines[len(lines)-1]; last != "8" {
		t.Errorf("the set-group-ID program has run with group %s, expected 8", last)
	}
	if strings.Contains(string(got), "LD_PRELOAD") || strings.Contains(string(got), "GOFLAGS") {
		t.Errorf("the environment is not its own:\n%s", got)
	}
}

// TestMailBudget checks the number of mails per time.
func TestMailBudget(t *testing.T) {
	var b mailBudget
	now := time.Unix(1e9, 0)
	taken := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, mailBurst}, {0, 0}, {time.Second, mailRate}, {-time.Hour, 0}, {time.Hour, mailBurst}, {49 * time.Millisecond, 0}} {
		now = now.Add(c.after)
		if n := taken(); n != c.want {
			t.Errorf("after %s: %d mails, expected %d", c.after, n, c.want)
		}
	}
}
