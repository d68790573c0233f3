package launcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// FuzzOrder checks that for any message the launcher reads an order or gives a reason, that an order is unchanged
// when it is written and read again, and that no plan passes the checks with parts that the front may not request.
func FuzzOrder(f *testing.F) {
	id := job.ID{Job: 7}
	plan := &launch.Plan{
		Description: &job.Description{ID: id, Owner: "alice", Queue: "all.q", Host: "h", Cwd: "/", QueueTmpdir: "/tmp", Tmpdir: "/tmp/7.1.all.q", HostSlots: 1},
		UID:         1000, GID: 1000,
	}
	of, err := newSubmitted("k", &submission.Submission{Command: "\xff"})
	if err != nil {
		f.Fatal(err)
	}
	for k, body := range map[kind]any{
		kindHello: empty{}, kindJobs: empty{}, kindTry: empty{}, kindSweep: empty{},
		kindOpen: &ofJob{id}, kindLaunch: &ofJob{id}, kindWait: &ofJob{id}, kindDiscard: &ofJob{id}, kindTerminal: &ofJob{id},
		kindPrepare: &prepareBody{Plan: plan, Submitted: of}, kindSignal: &signalBody{id, launch.SignalKill},
		kindNote: &noteBody{id, &launch.Note{File: "ended", How: launch.NoteMark, Mark: "told"}}, kindCollect: &ofJob{id},
		kindGPUs:       gpusBody{true},
		kindVerify:     verifyBody{1000, "k", 7, &submission.Verification{Submission: &submission.Submission{Command: "c"}, Parameters: []submission.Pair{{"N", "n"}}}},
		kindPrioritise: prioritiseBody{[]sharer{{id, 5, 100}}},
		kindRemove:     &removeBody{id, true}, kindRemoveScript: &scriptBody{7},
		kindPrepareTask: &taskBody{ID: job.ID{Job: 7, PETask: "1.h"}, Command: []string{"true", "\xff"}, Dir: "/", Env: []string{"A=b"}, Record: []byte("r\n")},
		kindConfigure:   configureBody{Step: stepChange, Key: "k", Changes: []fileChange{{Path: "queues/all.q", Text: []byte("qname all.q\n")}, {Path: "pes/\xff", Remove: true}}},
		kindMail:        mailBody{Mailer: "/m", To: []submission.Text{"alice", "-x"}, Subject: "s", Text: "t\n"},
	} {
		text, _, err := packOrder(k, 1, body, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	dir := f.TempDir()
	passwd, group := dir+"/passwd", dir+"/group"
	testenv.WriteFile(f, passwd, "alice:x:1000:1000::/:/bin/sh\n")
	testenv.WriteFile(f, group, "alice:x:1000:\n")
	config, err := qconf.ParseConfiguration("global", []byte("jsv_url /jsv\n"))
	if err != nil {
		f.Fatal(err)
	}
	rules := &Rules{
		MinUID: 1000, MinGID: 1000, Users: userdb.Database{Passwd: passwd, Group: group, Switch: group},
		Submissions: noSubmissions(f), Site: Site{Host: "h", Config: config, Objects: Objects{Commands: []string{"/p"}, Shells: []string{"/bin/sh"}}},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, _, err := unpack(text, nil)
		if err != nil || o.read() != nil {
			return
		}
		write := json.Marshal
		if o.envelope.compact {
			write = func(body any) ([]byte, error) { return toCompact(nil, body) }
		}
		first, err := write(o.body)
		if err != nil {
			t.Fatal(err)
		}
		if o.envelope.compact && !bytes.HasSuffix(text, first) {
			t.Fatalf("%q is another form of %q", text, first)
		}
		again, err := decodeBody(o.envelope.Order, first)
		if err != nil {
			t.Fatalf("%q cannot be read again: %v", first, err)
		}
		if second, err := write(again); err != nil || string(second) != string(first) {
			t.Fatalf("%q became %q (%v)", first, second, err)
		}
		switch b := o.body.(type) {
		case *configureBody:
			checkChangesOf(t, b.list())
		case *mailBody:
			if checkMail(b) == nil {
				for _, to := range b.To {
					if to == "" || strings.HasPrefix(string(to), "-") || strings.ContainsAny(string(to), " \n/|:\x00\x1b") {
						t.Errorf("the address %q passes", to)
					}
				}
				if strings.ContainsAny(string(b.Subject), "\n\r\x00\x1b") {
					t.Errorf("the subject %q passes", b.Subject)
				}
			}
		case *noteBody:
			if checkNote(b.Note) == nil && strings.ContainsAny(b.Note.File+b.Note.Mark, "/.") {
				t.Errorf("the note %+v may be written", b.Note)
			}
		case *verifyBody:
			if _, err := rules.checkVerify(b); err == nil {
				t.Errorf("a job that nobody has submitted may be verified: %s", first)
			}
		case *prepareBody:
			if rules.checkPlan(b.Plan, b.Submitted, "/spool", nil) == nil {
				t.Errorf("a job that nobody has submitted may be started: %q", first)
			}
			if b.Plan != nil && b.Plan.Description != nil {
				checkDescription(t, rules, b.Plan)
			}
		}
	})
}

// checkChangesOf checks that no change of the configuration passes that leads out of its directory.
func checkChangesOf(t *testing.T, list []configdir.Change) {
	t.Helper()
	if checkChanges(list) != nil {
		return
	}
	for _, c := range list {
		kind, name, in := strings.Cut(c.Path, "/")
		if kind == "" || strings.HasPrefix(kind, ".") || in && (name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\n\x00")) {
			t.Errorf("the file %q may be changed", c.Path)
		}
	}
	if err := inMemory(list); err != nil {
		t.Error(err)
	}
}

// inMemory checks that the changes can be made in memory.
func inMemory(list []configdir.Change) error {
	files := map[string][]byte{}
	for _, c := range list {
		if !c.Remove {
			files[c.Path] = c.Text
		}
	}
	found, _, err := configdir.Contents(configdir.Memory(files, nil))
	if err == nil && len(found) != len(files) {
		err = fmt.Errorf("of the files %q only %q are found", files, found)
	}
	return err
}

// noSubmissions are those of users who have submitted nothing.
func noSubmissions(t testing.TB) *Submissions {
	t.Helper()
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	s, err := OpenSubmissions(spool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// FuzzClaim checks that for any message of a user the launcher records a submission of this user as it was sent, or
// nothing.
func FuzzClaim(f *testing.F) {
	const uid, number = 1000, 7
	digest := (&submission.Submission{}).Digest("k")
	owner := uint32(uid)
	for _, c := range []claim.Claim{
		{Key: "a", Digest: digest},
		{Key: "b", Digest: digest, Of: &claim.Source{UID: uid, Key: "k", Digest: digest}, Job: number},
		{Key: "c", Digest: digest, Of: &claim.Source{UID: uid, Key: "k", Digest: digest}},
		{Key: "../d", Digest: digest, For: &owner},
		{Configure: &claim.Configure{Step: claim.StepConfirm, Key: "k", Digest: digest}},
		{Configure: &claim.Configure{Step: claim.StepRead}},
		{Key: "e", Digest: digest, Of: &claim.Source{UID: uid, Key: "k", Digest: digest}, Job: number, For: &owner},
	} {
		text, err := json.Marshal(&c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	s := noSubmissions(f)
	if err := s.Add(uid, "k", digest); err != nil {
		f.Fatal(err)
	}
	d := &SubmissionSocket{submissions: s, Configuration: &Configuration{}}
	f.Fuzz(func(t *testing.T, text []byte) {
		var q claim.Claim
		if decode(text, &q) != nil {
			return
		}
		if q.Configure != nil {
			if place, err := d.configure(uid, &q); err == nil || place != nil {
				t.Errorf("%s: a user confirms a change of the configuration", text)
			}
			return
		}
		own := q.For == nil || *q.For == uid
		if err := d.note(uid, &q); err == nil {
			if got, err := s.Find(uid, q.Key); err != nil || got != q.Digest || !own {
				t.Errorf("%s: the launcher has %q (%v)", text, got, err)
			}
		} else if q.Key == "e" && q.For != nil && own && q.Digest == digest && q.Of != nil && *q.Of == (claim.Source{UID: uid, Key: "k", Digest: digest}) && q.Job > 0 {
			t.Errorf("%s: %v", text, err)
		}
		err := s.eachName(func(of uint32, key, further string) error {
			if of != uid || key != q.Key && key != "k" {
				t.Errorf("%s: the launcher has a submission %s of user %d", text, key, of)
			}
			if key != "k" || further != "" {
				_ = unix.Unlinkat(s.fd(), entryName(uid, key)+further, 0)
			}
			return nil
		})
		s.count[uid], s.all = 1, 1
		if got, e := s.Find(uid, "k"); err != nil || e != nil || got != digest {
			t.Fatalf("%s: the submission is %q (%v, %v)", text, got, err, e)
		}
	})
}

// checkDescription compares what the checks behind that of the owner let through with what must not
// happen.
func checkDescription(t *testing.T, rules *Rules, p *launch.Plan) {
	d := p.Description
	if checkNames(d) == nil && strings.ContainsAny(d.Queue+d.Host, "/\n\x00") {
		t.Errorf("the names %q and %q pass", d.Queue, d.Host)
	}
	if checkPaths(d, jobdir.Area("/spool"), []byte{}, false) == nil && d.Command.File != "/spool/job_scripts/7" && d.ID.Job == 7 {
		t.Errorf("the script %q passes", d.Command.File)
	}
	if checkNames(d) == nil && rules.checkTmpdir(d) == nil && (strings.Contains(d.Tmpdir+"/", "/../") || !strings.HasPrefix(d.Tmpdir, d.QueueTmpdir+"/")) {
		t.Errorf("TMPDIR %q passes", d.Tmpdir)
	}
	if checkOurs(p, false) == nil && (d.InheritEnv || d.AdminUser != "" || d.AddGroupID != 0) {
		t.Errorf("the plan %+v passes", p)
	}
}
