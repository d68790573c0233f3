package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/testenv"
)

// rootFiles are a configuration of root.
var rootFiles = map[string]string{
	"queues/all.q":      "qname all.q\nhostlist host\nslots 1\nshell /bin/sh\nprolog /site/prolog\npe_list p\n",
	"queues/plain.q":    "qname plain.q\nhostlist host\nslots 1\nshell /bin/sh\nprolog /site/prolog\n",
	"queues/far.q":      "qname far.q\nhostlist NONE\nslots 1\nshell /bin/sh\nprolog NONE,[@g=/site/prolog]\n",
	"hostgroups/@g":     "group_name @g\nhostlist host\n",
	"hosts/host":        "hostname host\n",
	"conf/global":       "min_uid 1000\nmin_gid 1000\nmailer /site/mailer\nuser_lists u\n",
	"pes/p":             "pe_name p\nslots 10\nstart_proc_args /site/start\n",
	"ckpts/c":           "ckpt_name c\ninterface userdefined\nckpt_command /site/ckpt\nckpt_dir /tmp\n",
	"usersets/u":        "name u\ntype ACL\nentries nobody\n",
	"calendars/weekend": "calendar_name weekend\nyear NONE\nweek sat-sun=off\n",
}

// newConfiguredWorld returns a world whose launcher has a configuration of root, the directory of it, and the socket of
// root's messages.
func newConfiguredWorld(t *testing.T, files map[string]string) (w *world, s *Server, dir, socket string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "conf")
	for name, text := range files {
		testenv.WriteFile(t, filepath.Join(dir, name), text)
	}
	w, s = newStrictWorld(t, func(s *Server) {
		s.Configuration = &Configuration{Spool: s.Spool, Conf: dir, Host: "host", Use: s.UseObjects}
		cluster, err := s.Configuration.load(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.UseObjects(ObjectsOf(cluster, "host"))
	})
	d, err := OpenSubmissionSocket(w.spool, &s.Rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Configuration = s.Configuration
	done := make(chan error, 1)
	go func() { done <- d.Serve(context.Background()) }()
	t.Cleanup(func() {
		d.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w, s, dir, filepath.Join(w.spool.Path(), claim.SocketName)
}

// rootSays sends a message of root.
func rootSays(t *testing.T, socket string, q claim.Configure) error {
	t.Helper()
	c, err := claim.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Configure(&q)
	return err
}

func textsIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, _, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func changeOf(path, text string) []fileChange {
	return []fileChange{{Path: submission.Text(path), Text: []byte(text), Remove: text == ""}}
}

// TestForgedConfigurations checks that a captured front cannot change what the launcher takes from root's configuration,
// whatever it orders, and that the files remain as they are.
func TestForgedConfigurations(t *testing.T) {
	w, s, dir, _ := newConfiguredWorld(t, rootFiles)
	before := textsIn(t, dir)
	with := func(path, from, to string) []fileChange {
		text := strings.Replace(rootFiles[path], from, to, 1)
		if text == rootFiles[path] {
			t.Fatalf("%s has no %q", path, from)
		}
		return changeOf(path, text)
	}
	many := make([]fileChange, mostChanges+1)
	for i := range many {
		many[i] = changeOf(fmt.Sprintf("calendars/c%d", i), "x")[0]
	}
	for name, c := range map[string]struct {
		body configureBody
		want string
	}{
		"another prolog":                   {configureBody{Changes: with("queues/all.q", "/site/prolog", "/tmp/x")}, "queues/all.q: prolog would become"},
		"no prolog":                        {configureBody{Changes: with("queues/all.q", "/site/prolog", "NONE")}, `prolog would become "NONE"`},
		"a prolog of root":                 {configureBody{Changes: with("queues/all.q", "/site/prolog", "root@/tmp/x")}, "only root may set it"},
		"a prolog for this host":           {configureBody{Changes: with("queues/far.q", "NONE,", "NONE,[host=/tmp/x],")}, "queues/far.q: prolog"},
		"a starter_method":                 {configureBody{Changes: with("queues/all.q", "slots 1", "slots 1\nstarter_method /tmp/x")}, "starter_method"},
		"a terminate_method":               {configureBody{Changes: with("queues/all.q", "slots 1", "slots 1\nterminate_method /tmp/x")}, "terminate_method"},
		"a shell":                          {configureBody{Changes: with("queues/all.q", "/bin/sh", "/tmp/x")}, `the shell "/tmp/x" is not in root's configuration`},
		"a tmpdir":                         {configureBody{Changes: with("queues/all.q", "slots 1", "slots 1\ntmpdir /etc")}, `the tmpdir "/etc" is not in`},
		"a nice value":                     {configureBody{Changes: with("queues/all.q", "slots 1", "slots 1\npriority -20")}, "below 0"},
		"a queue without a prolog":         {configureBody{Changes: changeOf("queues/new.q", "qname new.q\nhostlist host\nshell /bin/sh\n")}, "the queue new.q would be new"},
		"a host group without this host":   {configureBody{Changes: with("hostgroups/@g", "host\n", "NONE\n")}, "the queue far.q would have another prolog"},
		"a queue that is removed":          {configureBody{Changes: changeOf("queues/all.q", "")}, "queues/all.q: prolog would become"},
		"a start_proc_args":                {configureBody{Changes: with("pes/p", "/site/start", "/tmp/x")}, "start_proc_args"},
		"an environment with a program":    {configureBody{Changes: changeOf("pes/n", "pe_name n\nslots 1\nstop_proc_args /tmp/x\n")}, "pes/n: stop_proc_args"},
		"a checkpointing command":          {configureBody{Changes: with("ckpts/c", "/site/ckpt", "/tmp/x")}, "ckpt_command"},
		"a mailer":                         {configureBody{Changes: with("conf/global", "/site/mailer", "/tmp/x")}, "conf/global: mailer"},
		"a load sensor":                    {configureBody{Changes: with("conf/global", "min_uid", "load_sensor /tmp/x\nmin_uid")}, "load_sensor"},
		"a load sensor of this host":       {configureBody{Changes: changeOf("conf/host", "load_sensor /tmp/x\n")}, "conf/host: load_sensor"},
		"all users":                        {configureBody{Changes: with("conf/global", "user_lists u", "user_lists NONE")}, "user_lists"},
		"another user in the list":         {configureBody{Changes: with("usersets/u", "nobody", "nobody,mallory")}, "would admit other users"},
		"system accounts":                  {configureBody{Changes: with("conf/global", "min_uid 1000", "min_uid 0")}, "min_uid would become"},
		"a resource map":                   {configureBody{Changes: append(changeOf("complexes", "disk disk RSMAP <= YES YES 0 0\n"), changeOf("hosts/host", "hostname host\ncomplex_values disk=1(/etc)\n")...)}, "resource maps"},
		"a name that leads up":             {configureBody{Changes: changeOf("queues/../../x", "x")}, "is not a name of a file"},
		"a folder that leads up":           {configureBody{Changes: changeOf("../x", "x")}, "is not a folder"},
		"a path from the root":             {configureBody{Changes: changeOf("/etc/passwd", "x")}, "is not a folder"},
		"a hidden file":                    {configureBody{Changes: changeOf("queues/.x", "x")}, "would be skipped"},
		"default options":                  {configureBody{Changes: changeOf("sge_request", "-l x\n")}, "is not a file of"},
		"receivers of messages":            {configureBody{Changes: changeOf("messages", "x")}, "is not a file of"},
		"a name with a line break":         {configureBody{Changes: changeOf("queues/a\nb", "x")}, "is not a name"},
		"a name with an escape":            {configureBody{Changes: changeOf("queues/a\x1bb", "x")}, "control character"},
		"a long name":                      {configureBody{Changes: changeOf("calendars/"+strings.Repeat("c", 241), "x")}, "at most 240 are possible"},
		"a file and a folder of this name": {configureBody{Changes: append(changeOf("rqs", "{\nname a\nlimit users * to slots=1\n}\n"), changeOf("rqs/b", "{\nname b\nlimit users * to slots=1\n}\n")...)}, "files in a folder of this name"},
		"no name":                          {configureBody{Changes: changeOf("queues/", "x")}, "is empty"},
		"a text for the terminal":          {configureBody{Changes: with("calendars/weekend", "sat", "\x1b]0;sat")}, "control character"},
		"an object that is none":           {configureBody{Changes: changeOf("calendars/weekend", "slots\n")}, "weekend"},
		"an object with another name":      {configureBody{Changes: changeOf("calendars/weekend", "calendar_name x\nyear NONE\nweek NONE\n")}, "weekend"},
		"a quota set in another folder":    {configureBody{Changes: changeOf("rqs", "{\nname ../managers\nenabled TRUE\nlimit users * to slots=1\n}\n")}, ""},
		"a reference to nothing":           {configureBody{Changes: with("queues/all.q", "pe_list p", "pe_list nosuch")}, "nosuch"},
		"a file twice":                     {configureBody{Changes: append(changeOf("calendars/weekend", "x"), changeOf("calendars/weekend", "y")...)}, "twice"},
		"a file that is also removed":      {configureBody{Changes: []fileChange{{Path: "calendars/weekend", Text: []byte("x"), Remove: true}}}, "both changed and removed"},
		"a long file":                      {configureBody{Changes: changeOf("calendars/weekend", strings.Repeat("x", mostChangedText+1))}, "at most 4194304"},
		"too many files":                   {configureBody{Changes: many}, "at most 4096"},
		"a key that root has not sent":     {configureBody{Key: "k", Changes: with("queues/all.q", "/site/prolog", "/tmp/x")}, "root has not confirmed"},
		"a harmless change with a key":     {configureBody{Key: "k", Changes: with("queues/all.q", "slots 1", "slots 2")}, "root has not confirmed"},
		"a change back without any change": {configureBody{Step: stepUndo}, "no change to undo"},
		"an unknown step":                  {configureBody{Step: "x"}, "unknown step"},
		"no step":                          {configureBody{Step: " "}, "unknown step"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.body.Step == "" {
				c.body.Step = stepChange
			}
			text, err := json.Marshal(&c.body)
			if err != nil {
				t.Fatal(err)
			}
			e := w.askLong(kindConfigure, text)
			if e == nil || e.Code != codeRefused || !strings.Contains(e.Text, c.want) {
				t.Errorf("%v, expected %q", e, c.want)
			}
			if audits := w.audits(); len(audits) != 1 {
				t.Errorf("the audit log has %q", audits)
			}
			if now := textsIn(t, dir); !maps.EqualFunc(now, before, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("the files have changed: %q", now)
			}
		})
	}
	if q := inUse(s, "all.q"); q == nil || q.Prolog != "/site/prolog" {
		t.Errorf("the launcher has the queue %+v", q)
	}
}

// inUse returns a queue that the launcher uses.
func inUse(s *Server, name string) *Queue {
	s.configuring.RLock()
	defer s.configuring.RUnlock()
	return s.Rules.Site.queue(name)
}

// askLong sends an order with a body in a file in memory.
func (w *world) askLong(k kind, body []byte) *Error {
	w.Helper()
	fd, err := memory("body", body)
	if err != nil {
		w.Fatal(err)
	}
	defer closeAll([]int{fd})
	w.number++
	text, err := json.Marshal(&envelope{Version: Version, Number: w.number, Order: k, Memory: true})
	if err != nil {
		w.Fatal(err)
	}
	return w.send(string(text), fd)
}

// TestManagersConfigure checks that changes which do not concern the launcher need no confirmation.
func TestManagersConfigure(t *testing.T) {
	w, _, dir, _ := newConfiguredWorld(t, rootFiles)
	for _, c := range [][2]string{
		{"queues/all.q", strings.Replace(rootFiles["queues/all.q"], "slots 1", "slots 8\nload_thresholds np_load_avg=2\ncalendar weekend\nh_rt 100", 1)},
		{"calendars/night", "calendar_name night\nyear NONE\nweek mon=1-2=off\n"},
		{"pes/n", "pe_name n\nslots 5\n"},
		{"conf/global", rootFiles["conf/global"] + "max_u_jobs 7\nloglevel log_info\n"},
		{"sched_conf", "maxujobs 3\n"},
		{"managers", "alice\n"},
		{"calendars/night", ""},
	} {
		if e := w.ask(kindConfigure, &configureBody{Step: stepChange, Changes: changeOf(c[0], c[1])}); e != nil {
			t.Errorf("%s: %v", c[0], e)
		}
		if got := string(textsIn(t, dir)[c[0]]); got != c[1] {
			t.Errorf("%s is %q", c[0], got)
		}
		if info, err := os.Stat(filepath.Join(dir, c[0])); c[1] != "" && (err != nil || info.Mode().Perm() != 0o644) {
			t.Errorf("%s: %v %v", c[0], info, err)
		}
	}
	if audits := w.audits(); len(audits) > 0 {
		t.Errorf("the audit log has %q", audits)
	}
}

// TestStatements checks that a statement of root is good for one order with exactly the change of root, and that a
// captured front can neither repeat nor exchange it, nor undo a change after qconf has told root that it was made.
func TestStatements(t *testing.T) {
	w, s, dir, socket := newConfiguredWorld(t, rootFiles)
	program := func(p string) []fileChange {
		return changeOf("queues/all.q", strings.Replace(rootFiles["queues/all.q"], "/site/prolog", p, 1))
	}
	n := 0
	confirm := func(c []fileChange) (key string) {
		t.Helper()
		n++
		key = fmt.Sprintf("key%d", n)
		if err := rootSays(t, socket, claim.Configure{Step: claim.StepConfirm, Key: key, Base: configdir.Sum(textsIn(t, dir)), Digest: configdir.Digest(key, (&configureBody{Changes: c}).list())}); err != nil {
			t.Fatal(err)
		}
		return key
	}
	order := func(key string, c []fileChange) *Error {
		return w.ask(kindConfigure, &configureBody{Step: stepChange, Key: key, Changes: c})
	}
	refused := func(what string, e *Error, want string) {
		t.Helper()
		if e == nil || e.Code != codeRefused || !strings.Contains(e.Text, want) {
			t.Errorf("%s: %v, expected %q", what, e, want)
		}
	}
	has := func(what, program string) {
		t.Helper()
		if text := string(textsIn(t, dir)["queues/all.q"]); !strings.Contains(text, "prolog "+program+"\n") {
			t.Errorf("%s: the file is %q", what, text)
		}
		if q := inUse(s, "all.q"); q == nil || q.Prolog != program {
			t.Errorf("%s: the launcher has %+v, expected %s", what, q, program)
		}
	}
	undo := func() *Error { return w.ask(kindConfigure, &configureBody{Step: stepUndo}) }

	key := confirm(program("/a"))
	refused("another change", order(key, program("/b")), "another change")
	refused("the key after another change", order(key, program("/a")), "root has not confirmed")
	has("nothing was ordered as confirmed", "/site/prolog")

	key = confirm(program("/a"))
	if e := order(key, program("/a")); e != nil {
		t.Fatal(e)
	}
	has("the change", "/a")
	if e := order(key, program("/a")); e != nil { // an order that was repeated because the launcher had ended
		t.Errorf("the same again: %v", e)
	}
	if e := undo(); e != nil {
		t.Errorf("undo: %v", e)
	}
	has("the change was undone", "/site/prolog")
	refused("the change again, after it was undone", order(key, program("/a")), "root has not confirmed")
	refused("undo twice", undo(), "no change to undo")

	key = confirm(program("/a"))
	if e := order("", changeOf("calendars/weekend", "calendar_name weekend\nyear NONE\nweek sun=off\n")); e != nil {
		t.Error(e)
	}
	refused("a statement about earlier files", order(key, program("/a")), "has changed since root")

	one, two := confirm(program("/a")), confirm(program("/b"))
	refused("the key of another statement", order(one, program("/b")), "another change")
	if e := order(two, program("/b")); e != nil {
		t.Errorf("the second statement: %v", e)
	}
	if err := rootSays(t, socket, claim.Configure{Step: claim.StepSettle, Key: two}); err != nil {
		t.Error(err)
	}
	refused("undo after root knows", undo(), "no change to undo")
	has("settled", "/b")

	key = confirm(program("/c"))
	if err := rootSays(t, socket, claim.Configure{Step: claim.StepSettle, Key: key}); err != nil {
		t.Error(err)
	}
	refused("a change after root was told that there is none", order(key, program("/c")), "root has not confirmed")

	key = confirm(program("/c"))
	s.Configuration.mu.Lock()
	s.Configuration.statements[key].at = time.Now().Add(-2 * statementTime)
	s.Configuration.mu.Unlock()
	refused("an old statement", order(key, program("/c")), "too long ago")

	for what, c := range map[string][]fileChange{
		"a program without a path":  program("x y"),
		"an object that is invalid": changeOf("queues/all.q", "qname all.q\nslots many\n"),
		"a path that leads up":      changeOf("queues/../x", "x"),
	} {
		refused(what+" of root", order(confirm(c), c), "")
	}
	has("after all that", "/b")

	for what, c := range map[string]claim.Configure{
		"no digest":       {Step: claim.StepConfirm, Key: "k", Base: configdir.Sum(nil)},
		"no base":         {Step: claim.StepConfirm, Key: "k", Digest: configdir.Digest("k", nil)},
		"a digest":        {Step: claim.StepConfirm, Key: "k", Base: configdir.Sum(nil), Digest: "x"},
		"a key":           {Step: claim.StepConfirm, Key: "../k", Base: configdir.Sum(nil), Digest: configdir.Digest("k", nil)},
		"an unknown step": {Step: "x", Key: "k"},
	} {
		if err := rootSays(t, socket, c); err == nil {
			t.Errorf("%s: the launcher takes %+v", what, c)
		}
	}
	s.Configuration.mu.Lock()
	s.Configuration.statements = nil
	s.Configuration.mu.Unlock()
	for range mostStatements {
		confirm(program("/d"))
	}
	if err := rootSays(t, socket, claim.Configure{Step: claim.StepConfirm, Key: "more", Base: configdir.Sum(nil), Digest: configdir.Digest("more", nil)}); err == nil || !strings.Contains(err.Error(), "are waiting already") {
		t.Errorf("too many statements: %v", err)
	}
}

// TestStartAgain checks that the launcher starts again for a change of what it needs when it starts, once, and only when root
// knows of the change.
func TestStartAgain(t *testing.T) {
	w, s, dir, socket := newConfiguredWorld(t, rootFiles)
	s.Restarts = make(chan struct{}, 1)
	s.Configuration.mu.Lock()
	s.Configuration.Check, s.Configuration.Restart = s.CheckStart, s.Restart
	s.Configuration.mu.Unlock()
	n := 0
	change := func(text string) (key string, list []fileChange) {
		t.Helper()
		n++
		key = fmt.Sprintf("key%d", n)
		list = changeOf("conf/global", text)
		if err := rootSays(t, socket, claim.Configure{Step: claim.StepConfirm, Key: key, Base: configdir.Sum(textsIn(t, dir)), Digest: configdir.Digest(key, (&configureBody{Changes: list}).list())}); err != nil {
			t.Fatal(err)
		}
		return key, list
	}
	settle := func(key string) {
		t.Helper()
		if err := rootSays(t, socket, claim.Configure{Step: claim.StepSettle, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	starts := func(text string) (key string, starts bool) {
		t.Helper()
		key, list := change(text)
		a := &configureAnswer{}
		w.must(kindConfigure, &configureBody{Step: stepChange, Key: key, Changes: list}, a)
		return key, a.Starts
	}
	restarts := func() bool {
		// The launcher restarts after its answer.
		return len(s.Restarts) > 0
	}

	key, list := change("min_uid 7\nshepherd_cmd /no/such/program\n")
	if e := w.ask(kindConfigure, &configureBody{Step: stepChange, Key: key, Changes: list}); e == nil || e.Code != codeRefused || !strings.Contains(e.Text, "/no/such/program") {
		t.Errorf("a launcher could not start: %v", e)
	}
	key, is := starts("min_uid 7\n")
	if !is {
		t.Error("min_uid does not need a start")
	}
	if s.Rules.MinUID == 7 {
		t.Error("the launcher uses a part of the change before its start")
	}
	settle("another")
	if e := w.ask(kindConfigure, &configureBody{Step: stepUndo}); e != nil {
		t.Error(e)
	}
	settle(key)
	if restarts() {
		t.Error("the launcher starts again for a change that was undone")
	}
	key, is = starts("mailer /bin/mail2\n")
	settle(key)
	if is || restarts() {
		t.Error("the launcher starts again for another mailer")
	}
	key, is = starts("min_uid 8\nmailer /bin/mail2\n")
	if !is {
		t.Error("min_uid does not need a start")
	}
	settle(key)
	<-s.Restarts
	settle(key)
	if restarts() {
		t.Error("the launcher starts again twice")
	}

	// A captured front makes the change, says that it uses it, and orders to undo something. qconf has said to root that
	// the change is made, so the launcher has to use it.
	key, _ = starts("min_uid 9\nmailer /bin/mail2\n")
	for _, b := range []*configureBody{{Step: stepKeep}, {Step: stepUndo}, {Step: stepChange, Changes: changeOf("calendars/c", "calendar_name c\nyear NONE\nweek NONE\n")}, {Step: stepUndo}} {
		_ = w.ask(kindConfigure, b)
	}
	settle(key)
	select {
	case <-s.Restarts: // the launcher restarts after its answer
	case <-time.After(20 * time.Second):
		t.Error("a captured front prevents the start of the launcher")
	}
}

// TestOnlyRootConfirms checks that no other user, and no process in a user namespace, can confirm a change.
func TestOnlyRootConfirms(t *testing.T) {
	_, s, _, _ := newConfiguredWorld(t, rootFiles)
	d := &SubmissionSocket{Configuration: s.Configuration}
	zero := uint32(0)
	for _, step := range []claim.Step{claim.StepRead, claim.StepConfirm, claim.StepSettle} {
		q := claim.Claim{Configure: &claim.Configure{Step: step, Key: "k", Digest: configdir.Digest("k", nil)}}
		if _, err := d.configure(1000, &q); err == nil || !strings.Contains(err.Error(), "only root") {
			t.Errorf("%s of a user: %v", step, err)
		}
		q.For = &zero
		if _, err := d.configure(0, &q); err == nil {
			t.Errorf("%s for a user is accepted", step)
		}
	}
	if n := len(s.Configuration.statements); n > 0 {
		t.Errorf("there are %d statements", n)
	}
}

// TestInterruptedChange checks that a launcher completes a change of several files during which an earlier launcher has
// ended, also if that one has completed it.
func TestInterruptedChange(t *testing.T) {
	w, s, dir, _ := newConfiguredWorld(t, rootFiles)
	j := &journal{Dir: dir}
	j.note([]configdir.Change{{Path: "queues/all.q", Text: []byte("new\n")}, {Path: "queues/plain.q", Remove: true}, {Path: "calendars/a", Text: []byte("b\n")}}, nil)
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		left := filepath.Join(dir, "queues/.all.q.12.0") // by the earlier launcher
		testenv.WriteFile(t, left, "new\n")
		if err := s.Spool.Dir().WriteDurably(confJournal, text); err != nil {
			t.Fatal(err)
		}
		if notice, err := CompleteConfiguration(w.spool); err != nil || notice != "" {
			t.Fatal(notice, err)
		}
		if exists(left) {
			t.Errorf("%s is still there", left)
		}
		files := textsIn(t, dir)
		if _, there := files["queues/plain.q"]; there || string(files["queues/all.q"]) != "new\n" || string(files["calendars/a"]) != "b\n" {
			t.Errorf("the files are %q", files)
		}
		if _, err := os.Lstat(filepath.Join(w.spool.Path(), confJournal)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the journal is still there: %v", err)
		}
	}
}
