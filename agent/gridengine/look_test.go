package gridengine

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/gridengine/message"
)

// reports waits for a report that says which configurations are in use, and answers requests
// for them meanwhile.
func (w *world) reports(want string) {
	w.Helper()
	for {
		m := w.receive()
		if w.tag(m) != message.TagReport {
			r, err := w.codec.DecodeRequest(m.Payload)
			if err != nil {
				w.Fatal(err)
			}
			w.reply(m, r)
			continue
		}
		r, err := w.codec.DecodeReport(m.Payload)
		if err != nil {
			w.Fatal(err)
		}
		if r.Configurations != nil && versionsOf(r.Configurations) == want {
			return
		}
	}
}

// TestLocalConfiguration checks that the link notices when the host's own configuration is added or
// removed, although sge_qmaster does not report it.
func TestLocalConfiguration(t *testing.T) {
	w := registered(t, func(o *Options) { o.Look = 10 * time.Millisecond })
	for _, step := range []struct {
		local *message.Configuration
		want  string
	}{
		{&message.Configuration{Name: "localhost"}, "global 3, localhost 0"},
		{&message.Configuration{Name: "localhost", Version: 1}, "global 3, localhost 1"},
		{nil, "global 3"},
	} {
		w.local = step.local
		w.reports(step.want)
		<-w.installed
		// That nothing has changed is no reason to fetch all.
		for looks := w.looks; w.looks < looks+5; {
			if m := w.next(); !w.besides(m) && w.tag(m) == message.TagGDIRequest {
				t.Fatalf("with %q all is fetched again", step.want)
			}
		}
	}
}

// TestOptionalAttributes checks that the link uses attributes of a configuration that 8.1.9 does not have.
func TestOptionalAttributes(t *testing.T) {
	w := registered(t, func(o *Options) { o.Look = 10 * time.Millisecond })
	w.local = &message.Configuration{Name: "localhost", Version: 1, Entries: []message.ConfigurationEntry{
		{Name: "cgroups_params", Value: "cgroup_path=none"}, {Name: "libjvm_path", Value: "none"}, {Name: "unheard_of", Value: "1"},
	}}
	w.reports("global 3, localhost 1")
	if got, want := (<-w.installed)["conf/localhost"], "cgroups_params cgroup_path=none\n"; got != want {
		t.Errorf("the configuration is\n%s\nexpected\n%s", got, want)
	}
}

// TestConfigurationThatCannotBeUsed checks that the link also reports the version of a
// configuration that it cannot use: otherwise sge_qmaster would send the configuration again and
// again.
func TestConfigurationThatCannotBeUsed(t *testing.T) {
	w := registered(t)
	w.local = &message.Configuration{Name: "../localhost", Version: 9}
	w.send(message.TagGetNewConf, w.codec.EncodeNumber(0))
	w.reports("global 3, ../localhost 9")
}

// TestJobsThatTheAgentDoesNotKnow checks that the log names the jobs that sge_qmaster lists on this
// host and that the agent does not know.
func TestJobsThatTheAgentDoesNotKnow(t *testing.T) {
	task := func(number, status uint32, host string) message.ListedTask {
		return message.ListedTask{Number: number, Status: status, Granted: []message.ListedGrant{{Queue: "all.q@" + host, Host: host}}}
	}
	log := &bytes.Buffer{}
	w := newWorld(t, func(o *Options) { o.Log = hclog.New(&hclog.LoggerOptions{Output: log}) })
	w.listed = []message.Listed{
		{Job: 4, Owner: "alice", Tasks: []message.ListedTask{task(1, 0x80, "localhost"), task(2, 0x80, "elsewhere.invalid"), task(3, 0x10000, "localhost")}},
		{Job: 5, Owner: "alice", Tasks: []message.ListedTask{task(1, 0x80, "localhost")}},
		{Job: 6, Owner: "bob", Tasks: []message.ListedTask{task(7, 0x80, "localhost")}},
	}
	w.commands.put(jobOf(5))
	w.accept()
	w.register()
	w.full()
	w.commands.measure("0.9")
	w.report() // after the answer
	w.stop()
	w.ended <- <-w.ended // for the end of the test
	var named []string
	for line := range strings.Lines(log.String()) {
		if _, job, ok := strings.Cut(line, "does not know"); ok {
			_, job, _ = strings.Cut(job, ": job=")
			named = append(named, strings.TrimSpace(job))
		}
	}
	if want := []string{"4 task=1 owner=alice", "6 task=7 owner=bob"}; !slices.Equal(named, want) {
		t.Errorf("%q are named, want %q\n%s", named, want, log)
	}
}
