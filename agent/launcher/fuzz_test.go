package launcher

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// FuzzOrder: whatever the front sends, the launcher reads an order or says why not; what it has read
// means the same when it is written again; and no plan gets past the checks that has what the front
// may not ask for.
func FuzzOrder(f *testing.F) {
	id := job.ID{Job: 7}
	plan := &launch.Plan{
		Description: &job.Description{ID: id, Owner: "alice", Queue: "all.q", Host: "h", Cwd: "/", QueueTmpdir: "/tmp", Tmpdir: "/tmp/7.1.all.q", HostSlots: 1},
		UID:         1000, GID: 1000,
	}
	for k, body := range map[kind]any{
		kindHello: empty{}, kindJobs: empty{}, kindTry: empty{}, kindSweep: empty{},
		kindOpen: ofJob{id}, kindLaunch: ofJob{id}, kindWait: ofJob{id}, kindDiscard: ofJob{id},
		kindPrepare: prepareBody{Plan: plan}, kindSignal: signalBody{id, launch.SignalKill},
		kindNote: noteBody{id, &launch.Note{File: "ended", How: launch.NoteMark, Mark: "told"}}, kindCollect: collectBody{id, 9},
		kindRemove: removeBody{id, true}, kindRemoveScript: scriptBody{7},
	} {
		b, err := json.Marshal(body)
		if err != nil {
			f.Fatal(err)
		}
		text, err := json.Marshal(&envelope{Version: Version, Number: 1, Order: k, Body: b})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	passwd := f.TempDir() + "/passwd"
	rules := &Rules{MinUID: 1000, MinGID: 1000, Users: userdb.Database{Passwd: passwd, Group: passwd, Switch: passwd}}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := receive(text, nil)
		if err != nil {
			return
		}
		first, err := json.Marshal(o.body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeBody(o.envelope.Order, first)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", first, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(first) {
			t.Fatalf("%s became %s (%v)", first, second, err)
		}
		switch b := o.body.(type) {
		case *noteBody:
			if checkNote(b.Note) == nil && strings.ContainsAny(b.Note.File+b.Note.Mark, "/.") {
				t.Errorf("the note %+v may be written", b.Note)
			}
		case *prepareBody:
			if rules.checkPlan(b.Plan, b.Submitted, "/spool", nil) == nil {
				t.Errorf("a job of a user whom nobody knows may be started: %s", first)
			}
			if b.Plan != nil && b.Plan.Description != nil {
				checkDescription(t, rules, b.Plan)
			}
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
	if checkPaths(d, jobdir.Area("/spool"), []byte{}) == nil && d.Command.File != "/spool/job_scripts/7" && d.ID.Job == 7 {
		t.Errorf("the script %q passes", d.Command.File)
	}
	if checkNames(d) == nil && rules.checkTmpdir(d) == nil && (strings.Contains(d.Tmpdir+"/", "/../") || !strings.HasPrefix(d.Tmpdir, d.QueueTmpdir+"/")) {
		t.Errorf("TMPDIR %q passes", d.Tmpdir)
	}
	if checkOurs(p) == nil && (p.Slave || d.InheritEnv || d.AdminUser != "" || d.AddGroupID != 0) {
		t.Errorf("the plan %+v passes", p)
	}
}
