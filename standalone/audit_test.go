package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/api"
)

// auditedMaster is a master with an audit log, whose configuration can be changed.
type auditedMaster struct {
	*Master
	t     *testing.T
	path  string
	files fstest.MapFS
	keys  int
	seenN int
}

func newAuditedMaster(t *testing.T) *auditedMaster {
	t.Helper()
	m, _ := testMaster(t)
	base, err := qconf.BuiltinOn("node1", 1)
	if err != nil {
		t.Fatal(err)
	}
	a := &auditedMaster{Master: m, t: t, path: filepath.Join(t.TempDir(), "audit"), files: fstest.MapFS{}}
	m.commands, m.terminals = healthy{}, map[uint32]*launch.Interactive{}
	m.host.Audit, err = audit.Open(audit.Options{Path: a.path, Host: "node1", Daemon: "standalone"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.host.Audit.Close() })
	cluster := base
	m.host.Cluster = func() *qconf.Cluster { return cluster }
	m.host.Change = func(files map[string][]byte) error {
		next := maps.Clone(a.files)
		for path, text := range files {
			delete(next, path)
			if text != nil {
				next[path] = &fstest.MapFile{Data: text}
			}
		}
		for folder := range map[string]bool{"calendars": true, "ckpts": true, "hostgroups": true, "pes": true, "projects": true, "usersets": true, "users": true, "queues": true, "hosts": true} {
			for path := range files {
				if strings.HasPrefix(path, folder+"/") {
					next[folder] = &fstest.MapFile{Mode: os.ModeDir | 0o755}
				}
			}
		}
		c, err := qconf.Load(next, base)
		if err == nil {
			a.files, cluster = next, c
		}
		return err
	}
	return a
}

// types carries out a command of a user. edited is the text that the user's editor returns.
func (a *auditedMaster) types(user string, edited string, files map[string]string, line ...string) *api.CommandAnswer {
	a.t.Helper()
	a.keys++
	x, _ := a.seen.enter(newAnswer(fmt.Sprint(a.keys), time.Now()))
	in := &command.Input{
		Name: line[0], Args: line[1:], By: cell.Caller{User: user, Group: "users", Host: "node1", Origin: &cell.Origin{UID: 1000, GID: 1000}}, Dir: "/", Host: "node1",
		Files: map[string][]byte{}, Environment: []string{"EDITOR=vi"},
	}
	for name, text := range files {
		in.Files[name] = []byte(text)
	}
	uid := uint32(1000)
	q := &api.CommandRequest{Name: line[0], Args: api.Texts(line[1:])}
	a.command(q, in, x, audit.Caller{Via: "socket", UID: &uid, User: user, PID: 42})
	if err := a.commit(); err != nil {
		a.t.Fatal(err)
	}
	for range 5 {
		if x.result == nil || x.result.Edit == nil {
			break
		}
		// The same command again, with the text as the editor leaves it.
		in.Edited = append(in.Edited, []byte(edit(string(x.result.Edit.Text), edited)))
		a.keys++
		x, _ = a.seen.enter(newAnswer(fmt.Sprint(a.keys), time.Now()))
		a.command(q, in, x, audit.Caller{Via: "socket", UID: &uid, User: user, PID: 42})
		if err := a.commit(); err != nil {
			a.t.Fatal(err)
		}
	}
	return x.result
}

// edit replaces lines of a text by others that begin with the same word.
func edit(text, changes string) string {
	for change := range strings.SplitSeq(changes, ";") {
		name, _, _ := strings.Cut(strings.TrimSpace(change), " ")
		text = regexp.MustCompile(`(?m)^ *`+regexp.QuoteMeta(name)+`\b.*$`).ReplaceAllLiteralString(text, strings.TrimSpace(change))
	}
	return text
}

// file returns the text of a file: of one of the configuration with other lines, where it begins with "=".
func (a *auditedMaster) file(text string) string {
	a.t.Helper()
	path, changes, ok := strings.Cut(strings.TrimPrefix(text, "="), ";")
	if !strings.HasPrefix(text, "=") || !ok {
		return text
	}
	f := a.files[path]
	if f == nil {
		a.t.Fatalf("%s is not there", path)
	}
	return edit(string(f.Data), changes)
}

// news are the records that have come since the last call.
func (a *auditedMaster) news() []audit.Record {
	a.t.Helper()
	all := recordsOf(a.t, a.path)
	list := all[a.seenN:]
	a.seenN = len(all)
	return list
}

func recordsOf(t *testing.T, path string) (list []audit.Record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// toldOf are the objects of records as texts: "kind name change attribute: was > is".
func toldOf(list []audit.Record) (all []string) {
	for _, r := range list {
		for _, o := range r.Objects {
			text := strings.Join(strings.Fields(o.Kind+" "+o.Name+" "+o.Change), " ")
			for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
				was, _ := json.Marshal(o.Attributes[name].Was)
				is, _ := json.Marshal(o.Attributes[name].Is)
				text += fmt.Sprintf(" %s: %s > %s;", name, was, is)
			}
			all = append(all, text)
		}
	}
	return all
}

const (
	aCalendar = "calendar_name %s\nyear NONE\nweek mon-fri=6-20\n"
	aTree     = "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=default\ntype=0\nshares=%d\nchildnodes=NONE\n"
)

// TestEachChangeIsAudited checks that each change by a command has its record, with the user, the
// previous and the new value. Each command and option that changes something has its row.
func TestEachChangeIsAudited(t *testing.T) {
	type row struct {
		line   string
		edit   string            // lines that the editor replaces, by their first words
		file   string            // of the name "f", where the line names it
		files  map[string]string // other ones
		user   string
		want   []string // parts of texts of objects; none where it is refused
		refuse bool
	}
	f := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	a := newAuditedMaster(t)
	if _, err := a.cell.HostReport(a.now(), "node1", nil); err != nil {
		t.Fatal(err)
	}
	a.collect()
	tried := map[string]bool{}
	for _, r := range []row{
		// Jobs.
		{line: "qsub -h -b y -N first -p -5 -v TOKEN=secret,OTHER=x /bin/true word", want: []string{`job 1 added`, `owner: null > "alice"`, `priority: null > -5`, `env: null > ["TERM","TOKEN","OTHER"]`, `name: null > "first"`}},
		{line: "qsub -h -N script f", file: "#!/bin/sh\n#$ -v TOKEN=secret\ntrue\n", want: []string{`script: null > "34 bytes, SHA-256 `, `env: null > ["TERM","TOKEN"]`}},
		{line: "qrsh -now n -h true", want: []string{`job 3 added`}},
		{line: "qlogin -now n -N in", want: []string{`job 4 added`}},
		{line: "qalter -p -7 -v TOKEN=secret2 1", want: []string{`job 1 changed`, `priority: -5 > -7`, `env: ["TERM","TOKEN","OTHER"] > ["TOKEN"]`}},
		{line: "qalter -p -8 1", user: "mallory", refuse: true},
		{line: "qalter -v TOKEN=secret3 1", want: []string{`job 1 changed`, `env: ["TOKEN"] > ["TOKEN"]`}},
		{line: "qhold -h o 1", want: []string{`job 1 changed`, `holds: "u" > `, `o`}},
		{line: "qrls -h o 1", want: []string{`job 1 changed`, `> "u"`}},
		{line: "qresub -h u 1", want: []string{`job 5 added`}},
		{line: "qmod -d all.q", want: []string{`queue_instance all.q@node1`, `disabled: null > true`}},
		{line: "qmod -e all.q", want: []string{`queue_instance all.q@node1`, `disabled: true > null`}},
		{line: "qmod -e all.q", want: nil},
		{line: "qdel 5", want: []string{`job 5 removed`, `owner: "alice" > null`}},
		{line: "qdel 99", refuse: true},
		{line: "qrsub -d 60 -l slots=1", refuse: true},
		{line: "qrsub -d 60 -a 203001011200", want: []string{`reservation 1 added`, `owner: null > "alice"`}},
		{line: "qrdel 1", want: []string{`reservation 1`}},

		// Objects of each kind: with an editor, from a file, from a file again, and away.
		{line: "qconf -acal day", edit: "week mon=8-9", want: []string{`calendars day added`, `week: null > "mon=8-9"`}},
		{line: "qconf -Acal f", file: f(aCalendar, "night"), want: []string{`calendars night added`}},
		{line: "qconf -mcal day", edit: "week tue=8-9", want: []string{`calendars day changed week: "mon=8-9" > "tue=8-9";`}},
		{line: "qconf -Mcal f", file: f("calendar_name %s\nyear NONE\nweek NONE\n", "night"), want: []string{`calendars night changed week: "mon-fri=6-20" > "NONE";`}},
		{line: "qconf -dcal night", want: []string{`calendars night removed`}},
		{line: "qconf -ackpt c1", edit: "ckpt_name c1", want: []string{`ckpts c1 added`}},
		{line: "qconf -mckpt c1", edit: "when s", want: []string{`ckpts c1 changed when: "xs" > "s";`}},
		{line: "qconf -Ackpt f", file: "=ckpts/c1;ckpt_name c2", want: []string{`ckpts c2 added`}},
		{line: "qconf -Mckpt f", file: "=ckpts/c2;when m", want: []string{`ckpts c2 changed`, `> "m"`}},
		{line: "qconf -dckpt c1", want: []string{`ckpts c1 removed`}},
		{line: "qconf -ap p1", edit: "slots 4", want: []string{`pes p1 added`, `slots: null > "4"`}},
		{line: "qconf -mp p1", edit: "slots 5", want: []string{`pes p1 changed slots: "4" > "5";`}},
		{line: "qconf -Ap f", file: "=pes/p1;pe_name p2;slots 2", want: []string{`pes p2 added`}},
		{line: "qconf -Mp f", file: "=pes/p2;slots 3", want: []string{`pes p2 changed`, `slots: "2" > "3";`}},
		{line: "qconf -rattr queue pe_list NONE all.q", want: []string{`queues all.q changed`}},
		{line: "qconf -dp p2", want: []string{`pes p2 removed`}},
		{line: "qconf -aprj pr1", edit: "fshare 4", want: []string{`projects pr1 added`, `fshare: null > "4"`}},
		{line: "qconf -mprj pr1", edit: "fshare 5", want: []string{`projects pr1 changed fshare: "4" > "5";`}},
		{line: "qconf -Aprj f", file: "=projects/pr1;name pr2;fshare 0", want: []string{`projects pr2 added`}},
		{line: "qconf -Mprj f", file: "=projects/pr2;fshare 2", want: []string{`projects pr2 changed fshare: "0" > "2";`}},
		{line: "qconf -dprj pr2", want: []string{`projects pr2 removed`}},
		{line: "qconf -auser u1", edit: "fshare 4", want: []string{`users`, `added`}},
		{line: "qconf -Auser f", file: "=users/u1;name u2", want: []string{`users u2 added`}},
		{line: "qconf -muser u2", edit: "fshare 5", want: []string{`users u2 changed`, `fshare: "4" > "5";`}},
		{line: "qconf -Muser f", file: "=users/u2;fshare 6", want: []string{`users u2 changed`, `fshare: "5" > "6";`}},
		{line: "qconf -duser u2", want: []string{`users u2 removed`}},
		{line: "qconf -au alice,bob l1", want: []string{`usersets l1 added`, `entries: null > "alice,bob"`}},
		{line: "qconf -mu l1", edit: "fshare 2", want: []string{`usersets l1 changed fshare: "0" > "2";`}},
		{line: "qconf -Au f", file: "=usersets/l1;name l2;entries x", want: []string{`usersets l2 added`}},
		{line: "qconf -Mu f", file: "=usersets/l2;entries y", want: []string{`usersets l2 changed`, `entries: "x" > "y";`}},
		{line: "qconf -du bob l1", want: []string{`usersets l1 changed entries: "alice,bob" > "alice";`}},
		{line: "qconf -dul l2", want: []string{`usersets l2 removed`}},
		{line: "qconf -ahgrp @g1", edit: "group_name @g1", want: []string{`hostgroups @g1 added`}},
		{line: "qconf -mhgrp @g1", edit: "hostlist node1", want: []string{`hostgroups @g1 changed hostlist: "NONE" > "node1";`}},
		{line: "qconf -Ahgrp f", file: "group_name @g2\nhostlist node1\n", want: []string{`hostgroups @g2 added`}},
		{line: "qconf -Mhgrp f", file: "group_name @g2\nhostlist NONE\n", want: []string{`hostgroups @g2 changed hostlist: "node1" > "NONE";`}},
		{line: "qconf -dhgrp @g2", want: []string{`hostgroups @g2 removed`}},
		{line: "qconf -aq b.q", edit: "hostlist node1", want: []string{`queues b.q added`, `hostlist: null > "node1"`}},
		{line: "qconf -mq b.q", edit: "slots 7", want: []string{`queues b.q changed slots: "1" > "7";`}},
		{line: "qconf -Aq f", file: "=queues/b.q;qname c.q", want: []string{`queues c.q added`}},
		{line: "qconf -Mq f", file: "=queues/b.q;slots 3", want: []string{`queues b.q changed`, `slots: "7" > "3";`}},
		{line: "qconf -mattr queue slots 9 b.q", want: []string{`queues b.q changed slots: "3" > "9";`}},
		{line: "qconf -mattr queue prolog root@/tmp/x b.q", user: "mallory", refuse: true},
		{line: "qconf -aattr queue pe_list p1 b.q", want: []string{`queues b.q changed pe_list: `, `p1`}},
		{line: "qconf -rattr queue pe_list NONE b.q", want: []string{`queues b.q changed pe_list: `, `> "NONE"`}},
		{line: "qconf -aattr queue ckpt_list c2 b.q", want: []string{`queues b.q changed ckpt_list: `}},
		{line: "qconf -dattr queue ckpt_list c2 b.q", want: []string{`queues b.q changed ckpt_list: "c2" > "NONE";`}},
		{line: "qconf -Aattr queue f b.q", file: "pe_list p1\n", want: []string{`queues b.q changed pe_list: "NONE" > "p1";`}},
		{line: "qconf -Mattr queue f b.q", file: "slots 8\n", want: []string{`queues b.q changed slots: "9" > "8";`}},
		{line: "qconf -Dattr queue f b.q", file: "pe_list p1\n", want: []string{`queues b.q changed pe_list: "p1" > "NONE";`}},
		{line: "qconf -Rattr queue f b.q", file: "pe_list p1\n", want: []string{`queues b.q changed pe_list: "NONE" > "p1";`}},
		{line: "qconf -mattr queue slots [node1=4] b.q", want: []string{`queues b.q changed slots: `}},
		{line: "qconf -purge queue slots b.q@node1", want: []string{`queues b.q changed slots: `}},
		{line: "qconf -dq c.q", want: []string{`queues c.q removed`, `qname: "c.q" > null`}},
		{line: "qconf -Arqs f", file: "{\nname q1\nenabled FALSE\nlimit users * to slots=1\n}\n", want: []string{`rqs`, `q1`}},
		{line: "qconf -arqs q3", refuse: true},
		{line: "qconf -mrqs q1", edit: "enabled TRUE", want: []string{`rqs changed enabled: "FALSE" > "TRUE";`}},
		{line: "qconf -Arqs f", file: "{\nname q2\nenabled TRUE\nlimit users * to slots=1\n}\n", want: []string{`rqs`, `q2`}},
		{line: "qconf -Mrqs f q2", file: "{\nname q2\nenabled TRUE\nlimit users * to slots=2\n}\n", want: []string{`rqs`, `slots=2`}},
		{line: "qconf -drqs q2", want: []string{`rqs`, `q2`}},
		{line: "qconf -Astree f", file: f(aTree, 10), want: []string{`sharetree added`}},
		{line: "qconf -Mstree f", file: f(aTree, 20), want: []string{`sharetree changed`, `"10" > "20"`}},
		{line: "qconf -mstree", edit: "shares=20 x", refuse: true},
		{line: "qconf -astree", edit: "nothing x", refuse: true},
		{line: "qconf -astnode /u1=7", want: []string{`sharetree changed`, `7`}},
		{line: "qconf -mstnode /u1=8", want: []string{`sharetree changed`, `"7" > "8"`}},
		{line: "qconf -dstnode /u1", want: []string{`sharetree changed`}},
		{line: "qconf -dstree", want: []string{`sharetree removed`}},
		{line: "qconf -mc", edit: "h_rt h_rt TIME <= YES NO 0:0:0 7", want: []string{`complexes changed h_rt: `, ` 7"`}},
		{line: "qconf -Mc f", file: "=complexes;h_rt h_rt TIME <= YES NO 0:0:0 8", want: []string{`complexes changed h_rt: `, ` 8"`}},
		{line: "qconf -msconf", edit: "maxujobs 7", want: []string{`sched_conf changed maxujobs: "0" > "7";`}},
		{line: "qconf -Msconf f", file: "=sched_conf;maxujobs 8", want: []string{`sched_conf changed`, `maxujobs: "7" > "8";`}},
		{line: "qconf -mconf", edit: "max_u_jobs 100", want: []string{`conf global changed max_u_jobs: "0" > "100";`}},
		{line: "qconf -Mconf global", files: map[string]string{"global": "=conf/global;max_u_jobs 200"}, want: []string{`conf global changed`, `max_u_jobs: "100" > "200";`}},
		{line: "qconf -aconf node1", edit: "mailer /bin/x; xterm /bin/y", want: nil},
		{line: "qconf -Aconf node1", files: map[string]string{"node1": "mailer /bin/z\n"}, want: []string{`conf node1 added mailer: null > "/bin/z";`}},
		{line: "qconf -mconf node1", edit: "mailer /bin/w", want: []string{`conf node1 changed mailer: "/bin/z" > "/bin/w";`}},
		{line: "qconf -dconf node1", want: []string{`conf node1 removed`}},
		{line: "qconf -ae node2", edit: "hostname node2", refuse: true},
		{line: "qconf -Ae f", file: "hostname node3\n", refuse: true},
		{line: "qconf -me node1", edit: "usage_scaling cpu=2", want: []string{`hosts node1`, `usage_scaling: `, `cpu=2`}},
		{line: "qconf -Me f", file: "=hosts/node1;usage_scaling cpu=3", want: []string{`hosts node1 changed`, `cpu=3`}},
		{line: "qconf -de node1", refuse: true},
		{line: "qconf -am carol", want: []string{`managers changed carol: null > "";`}},
		{line: "qconf -am carol", user: "mallory", refuse: true},
		{line: "qconf -tsm", want: nil},
		{line: "qconf -dm carol", want: []string{`managers changed carol: "" > null;`}},
		{line: "qconf -ao dave", want: []string{`operators`, `dave`}},
		{line: "qconf -do dave", want: []string{`operators`, `dave`}},
		{line: "qconf -clearusage", want: nil},
		{line: "qconf -cq b.q", want: nil},
		// What has no meaning here is refused, or says so.
		{line: "qconf -ah x", refuse: true},
		{line: "qconf -as x", refuse: true},
		{line: "qconf -dh x", refuse: true},
		{line: "qconf -ds x", refuse: true},
		{line: "qconf -at x", refuse: true},
		{line: "qconf -kt x", refuse: true},
		{line: "qconf -ke x", refuse: true},
		{line: "qconf -kej x", refuse: true},
		{line: "qconf -kec x", refuse: true},
		{line: "qconf -km", refuse: true},
		{line: "qconf -ks", refuse: true},
	} {
		words := strings.Fields(r.line)
		if words[0] == "qconf" {
			for _, w := range words[1:] {
				if strings.HasPrefix(w, "-") {
					tried[w] = true
				}
			}
		}
		tried[words[0]] = true
		files := map[string]string{}
		for name, text := range r.files {
			files[name] = a.file(text)
			files["/"+name] = files[name]
		}
		if r.file != "" {
			text := a.file(r.file)
			files = map[string]string{"/f": text, "f": text}
		}
		user := r.user
		if user == "" {
			user = "alice"
		}
		answer := a.types(user, r.edit, files, words...)
		list := a.news()
		said := strings.Join(toldOf(list), "\n")
		if text, _ := json.Marshal(list); strings.Contains(string(text), "secret") {
			t.Errorf("%s: a value of a variable: %+v", r.line, list)
		}
		ids := map[string]bool{}
		for _, x := range list {
			ids[x.ID] = true
			if x.Caller.User != user || *x.Caller.UID != 1000 || x.Caller.PID != 42 || x.Command != words[0] {
				t.Errorf("%s: of whom? %+v", r.line, x)
			}
		}
		refused := len(list) == 1 && list[0].Outcome == audit.Refused && list[0].Error != "" && list[0].Exit != 0
		switch {
		case r.refuse && !refused:
			t.Errorf("%s: %+v, want a refusal; it says %+v", r.line, list, answer)
		case !r.refuse && r.want != nil && (len(ids) != 1 || refused):
			t.Errorf("%s: %d records %+v; it says %+v", r.line, len(list), list, answer)
		}
		for _, want := range r.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the record has not %q:\n%s", r.line, want, said)
			}
		}
	}
	var missing []string
	for _, name := range command.Names() {
		if !harmless[name] && !tried[name] {
			missing = append(missing, name)
		}
	}
	help, _ := command.Help("qconf")
	for _, m := range regexp.MustCompile(`(?m)^\s*\[(-[A-Za-z_]+)`).FindAllStringSubmatch(help, -1) {
		if option := m[1]; !tried[option] && !strings.HasPrefix(option, "-s") && !slices.Contains([]string{"-help", "-bonsai", "-rsstnode"}, option) {
			missing = append(missing, "qconf "+option)
		}
	}
	sort.Strings(missing)
	if len(missing) > 0 {
		t.Errorf("commands without a row: %q", missing)
	}
}

// TestAuditOfWhatIsNotKept checks that a commit that fails leaves a record that says so.
func TestAuditOfWhatIsNotKept(t *testing.T) {
	a := newAuditedMaster(t)
	x, _ := a.seen.enter(newAnswer("1", time.Now()))
	in := &command.Input{Name: "qsub", Args: []string{"-h", "-b", "y", "true"}, By: cell.Caller{User: "alice", Host: "node1"}, Dir: "/"}
	a.command(&api.CommandRequest{Name: "qsub", Args: api.Texts(in.Args)}, in, x, audit.Caller{Via: "socket", User: "alice"})
	if err := a.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.commit(); err == nil {
		t.Error("a store that is closed was written")
	}
	list := a.news()
	if len(list) != 1 || list[0].Outcome != audit.Failed || list[0].Error == "" || len(list[0].Objects) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestAuditOfConfigurationThatIsRefused checks that the record of an intended change is followed by
// one that says that the change was refused.
func TestAuditOfConfigurationThatIsRefused(t *testing.T) {
	a := newAuditedMaster(t)
	a.host.Change = func(map[string][]byte) error {
		if list := recordsOf(t, a.path); len(list) != 1 || list[0].Outcome != audit.Begun {
			t.Errorf("before the change: %+v", list)
		}
		return errors.New("no space left on device")
	}
	a.types("alice", "", nil, "qconf", "-mattr", "queue", "slots", "2", "all.q")
	list := a.news()
	if len(list) != 2 || list[0].ID != list[1].ID || list[1].Outcome != audit.Failed || !strings.Contains(list[1].Error, "no space") {
		t.Errorf("%+v", list)
	}
}

// TestAuditTrailIsWrittenAgain checks that the next daemon writes, once, the lines that a killed
// daemon has committed but not written.
func TestAuditTrailIsWrittenAgain(t *testing.T) {
	a := newAuditedMaster(t)
	a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true")
	text, err := os.ReadFile(a.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(a.path, 0); err != nil { // as if it had been killed before
		t.Fatal(err)
	}
	for range 2 {
		if err := a.restoreTrail(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := os.ReadFile(a.path)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("%q, want %q (%v)", again, text, err)
	}
	// With the file on the disk, the store does not keep them forever.
	if err := a.host.Audit.Sync(); err != nil {
		t.Fatal(err)
	}
	a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true")
	n := 0
	for range a.store.All(auditPrefix) {
		n++
	}
	if n != 1 {
		t.Errorf("%d lines are kept, want that of the last command", n)
	}
	a.endTrail()
	for key := range a.store.All(auditPrefix) {
		t.Errorf("%s is kept after the end", key)
	}
}

// TestNothingChangesWithoutARecord checks that the daemon refuses changes if the log is required and
// cannot be written.
func TestNothingChangesWithoutARecord(t *testing.T) {
	a := newAuditedMaster(t)
	if err := a.host.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Path: filepath.Join(dir, "audit"), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	a.host.Audit = log
	// Somebody else's file in its place.
	if err := errors.Join(os.Remove(filepath.Join(dir, "audit")), os.Symlink("x", filepath.Join(dir, "audit"))); err != nil {
		t.Fatal(err)
	}
	_ = log.Add(&audit.Record{Command: "x"}, false)
	if answer := a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true"); answer != nil || len(a.cell.Jobs()) != 0 {
		t.Errorf("%+v", answer)
	}
	if err := os.Remove(filepath.Join(dir, "audit")); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); log.Check() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal(log.Check())
		}
	}
	if answer := a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true"); answer == nil || answer.Exit != 0 {
		t.Errorf("%+v", answer)
	}
}

// BenchmarkAudit measures the cost of a submission for the daemon without a log and with one, with
// sixteen submissions in a commit. The two alternate, so that other load of the machine affects
// both alike: only the ratio means anything (docs/performance.md).
func BenchmarkAudit(b *testing.B) {
	type side struct {
		m     *Master
		n     int
		times []float64 // of a batch, in microseconds
	}
	without, with := &side{}, &side{}
	for _, s := range []*side{without, with} {
		s.m, _ = testMaster(b)
	}
	var err error
	if with.m.host.Audit, err = audit.Open(audit.Options{Path: filepath.Join(b.TempDir(), "audit")}); err != nil {
		b.Fatal(err)
	}
	defer with.m.host.Audit.Close()
	args := []string{"-h", "-wd", "/", "-o", "/dev/null", "-v", "A=b", "-b", "y", "true"}
	batch := func(s *side) {
		began := time.Now()
		for range changing {
			s.n++
			x, _ := s.m.seen.enter(newAnswer(fmt.Sprint(s.n), time.Now()))
			in := &command.Input{Name: "qsub", Args: args, By: cell.Caller{User: "alice", Host: "node1", Origin: &cell.Origin{UID: 1000, GID: 1000}}, Dir: "/"}
			s.m.command(&api.CommandRequest{Name: "qsub", Args: api.Texts(args)}, in, x, audit.Caller{Via: "socket", User: "alice"})
		}
		if err := s.m.commit(); err != nil {
			b.Fatal(err)
		}
		s.times = append(s.times, float64(time.Since(began).Microseconds()))
	}
	for i := 0; b.Loop(); i++ {
		first, second := without, with
		if i%2 != 0 {
			first, second = with, without
		}
		batch(first)
		batch(second)
	}
	median := func(s *side) float64 {
		slices.Sort(s.times)
		return s.times[len(s.times)/2] / changing
	}
	b.ReportMetric(median(without), "us/job-without")
	b.ReportMetric(median(with), "us/job-with")
	b.ReportMetric(median(with)-median(without), "us/job-more")
}
