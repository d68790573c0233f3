package messages_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/messages"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		site bool
		errs string // a part of the error; empty for none
		n    int    // receivers
	}{
		"all kinds of a user":              {text: "# mine\n\nwebhook failed,array https://h.example/x secret=/k\nprogram started,ended /bin/p\ndesktop pending:2h,failed\n", n: 3},
		"a time in Grid Engine's form":     {text: "desktop pending:1:0:0", n: 1},
		"http of the site":                 {text: "webhook ended http://h/ http ca=/c\nuser alice\nusers no\n", site: true, n: 1},
		"http of a user":                   {text: "webhook ended http://h/ http", errs: "line 1: only receivers of the site may use http"},
		"http without the word":            {text: "webhook ended http://h/", site: true, errs: "expected https://"},
		"a user in the file of a user":     {text: "user root", errs: `unknown kind of receiver "user": expected webhook, program or desktop`},
		"a desktop of the site":            {text: "desktop ended", site: true, errs: "a site has no desktop"},
		"a relative program":               {text: "program ended bin/p", errs: `program "bin/p": expected an absolute path`},
		"a relative secret":                {text: "webhook ended https://h/ secret=k", errs: "secret: expected the absolute path of a file"},
		"a secret in place of its file":    {text: "webhook ended https://h/ secret=hunter2", errs: "secret: expected the absolute path of a file"},
		"a secret without a name":          {text: "webhook ended https://h/ hunter2", errs: "unexpected word after the URL"},
		"a key in a URL of http":           {text: "webhook ended http://h/hunter2", errs: "begins with http://: expected https://"},
		"a key in a URL with a user":       {text: "webhook ended https://a@h/hunter2", errs: "without a user"},
		"an unknown event":                 {text: "desktop done", errs: `unknown event "done"`},
		"pending without a time":           {text: "desktop pending", errs: "expected a time, as in pending:2h"},
		"pending for no time":              {text: "desktop pending:0", errs: "at least one second"},
		"pending for ever":                 {text: "desktop pending:999999999999", errs: "at most ten years"},
		"an event twice":                   {text: "desktop failed,failed", errs: "event failed is listed twice"},
		"no target":                        {text: "webhook failed", errs: "webhook without a target: expected a URL"},
		"a password in a URL":              {text: "webhook failed https://a:b@h/", errs: "without a user"},
		"another scheme":                   {text: "webhook failed file:///etc/passwd", errs: "expected a URL"},
		"an option of a program":           {text: "program failed /bin/p secret=/k", errs: `unexpected "secret=/k"`},
		"a mistake beside a good receiver": {text: "nonsense\ndesktop failed\n", errs: "line 1", n: 1},
		"too many receivers":               {text: strings.Repeat("desktop failed\n", 21), errs: "line 21: there are more than 20 receivers", n: 20},
		"too long a file":                  {text: strings.Repeat("#", messages.MostBytes+1), errs: "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := messages.Parse([]byte(c.text), c.site)
			if (err == nil) != (c.errs == "") || err != nil && !strings.Contains(err.Error(), c.errs) {
				t.Errorf("%v, expected %q", err, c.errs)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v: it contains a secret", err)
			}
			if len(f.Receivers) != c.n {
				t.Errorf("%d receivers, expected %d", len(f.Receivers), c.n)
			}
		})
	}
}

// TestUsersOfASite checks that an invalid line permits nothing, because it may have been meant to
// switch messages off.
func TestUsersOfASite(t *testing.T) {
	for text, no := range map[string]bool{"": false, "users yes": false, "users no": true, "users off": true, "users": true, "users no no": true, "users off\nusers yes": true} {
		f, err := messages.Parse([]byte(text), true)
		if f.NoUsers != no || (err != nil) != (no && text != "users no") {
			t.Errorf("%q: %t, %v", text, f.NoUsers, err)
		}
	}
}

func TestReceiversOfAMessage(t *testing.T) {
	f, err := messages.Parse([]byte("program started /a\nprogram ended /b\nprogram failed /c\nprogram array /d\nprogram pending:1h /e\nprogram pending:2h,failed /f\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := &messages.Outcome{}, &messages.Outcome{ExitStatus: 1}
	for name, c := range map[string]struct {
		m  messages.Message
		to string
	}{
		"a start":                       {messages.Message{Event: messages.Started}, "/a"},
		"a success":                     {messages.Message{Event: messages.Ended, Outcome: good}, "/b"},
		"a failure":                     {messages.Message{Event: messages.Failed, Outcome: bad}, "/b /c /f"},
		"an error state":                {messages.Message{Event: messages.Failed, Outcome: &messages.Outcome{Error: true}}, "/c /f"},
		"an array job":                  {messages.Message{Event: messages.Array, Tasks: &messages.Tasks{Succeeded: 2}}, "/d"},
		"an array job that has failed":  {messages.Message{Event: messages.Array, Tasks: &messages.Tasks{Failed: 1}}, "/c /d /f"},
		"a job that waits for an hour":  {messages.Message{Event: messages.Pending, After: 3600}, "/e"},
		"a job that waits for two":      {messages.Message{Event: messages.Pending, After: 7200}, "/f"},
		"a test":                        {messages.Message{Event: messages.Test}, "/a /b /c /d /e /f"},
		"a job that waits for a minute": {messages.Message{Event: messages.Pending, After: 60}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var to []string
			for _, r := range f.For(&c.m) {
				to = append(to, r.To)
			}
			if got := strings.Join(to, " "); got != c.to {
				t.Errorf("%q, expected %q", got, c.to)
			}
		})
	}
	if got := f.PendingTimes(); !slices.Equal(got, []time.Duration{time.Hour, 2 * time.Hour}) {
		t.Errorf("%v", got)
	}
}

func TestDescribe(t *testing.T) {
	job := messages.Job{ID: 7, Name: "a\x1b[31m", Owner: "alice"}
	array := messages.Job{ID: 8, Name: "x", Owner: "alice", Array: true}
	for text, m := range map[string]messages.Message{
		`job 7 (a\x1b[31m) of alice on n1 started`:                               {Event: messages.Started, Job: job},
		`job 7 (a\x1b[31m) of alice on n1 finished after 1m1s`:                   {Event: messages.Ended, Job: job, Outcome: &messages.Outcome{Wallclock: 61}},
		`job 7 (a\x1b[31m) of alice on n1 failed after 2s: exit status 3`:        {Event: messages.Failed, Job: job, Outcome: &messages.Outcome{Wallclock: 2, ExitStatus: 3}},
		`job 7 (a\x1b[31m) of alice on n1 is in error state: no such shell`:      {Event: messages.Failed, Job: job, Outcome: &messages.Outcome{Error: true, Reason: "no such shell"}},
		`job 7 (a\x1b[31m) of alice on n1 has been pending for more than 2h0m0s`: {Event: messages.Pending, Job: job, After: 7200},
		`job 9 (a\x1b) of alice on n1 is in error state: no \x1b`:                {Event: messages.Failed, Job: messages.Job{ID: 9, Name: `a\x1b`, Owner: "alice"}, Outcome: &messages.Outcome{Error: true, Reason: `no \x1b`}},
		`array job 8 (x) of alice on n1 is done: 1 task succeeded, 0 failed`:     {Event: messages.Array, Job: array, Tasks: &messages.Tasks{Succeeded: 1}},
		`array job 8 (x) of alice on n1 is done: 0 tasks succeeded, 2 failed: 4 (killed), ...`: {
			Event: messages.Array, Job: array, Tasks: &messages.Tasks{Failed: 2, Failures: []messages.Outcome{{Task: 4, Reason: "killed"}}},
		},
	} {
		m.Host = "n1"
		if m.Describe(); m.Text != text {
			t.Errorf("%q, expected %q", m.Text, text)
		}
	}
}

// FuzzParse looks for texts that make receivers that a user must not have.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"webhook failed https://h/ secret=/k ca=/c http\n", "program started,pending:1:0:0 /p\n#\ndesktop array", "user a\nusers no"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, site bool) {
		file, _ := messages.Parse(text, site)
		for _, r := range file.Receivers {
			switch {
			case r.Site != site, !site && r.HTTP, len(r.Events) == 0:
				t.Errorf("%+v", r)
			case r.Kind == messages.Webhook && !strings.HasPrefix(strings.ToLower(r.To), "https://") && !r.HTTP:
				t.Errorf("%+v", r)
			case r.Kind == messages.Program && !strings.HasPrefix(r.To, "/"):
				t.Errorf("%+v", r)
			}
		}
		if !site && (file.RunAs != "" || file.NoUsers) {
			t.Errorf("%+v", file)
		}
	})
}
