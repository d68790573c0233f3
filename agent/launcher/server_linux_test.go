package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// world is a launcher with a front that a test plays.
type world struct {
	testing.TB
	conn  *conn
	spool *jobdir.Spool
	owner *userdb.User
	tmp   string // like /tmp

	mu      sync.Mutex
	refused []string // the audit log
	number  uint64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w, s := makeWorld(t)
	w.serve(s)
	return w
}

// makeWorld makes a launcher that does not serve yet.
func makeWorld(t testing.TB) (*world, *Server) {
	t.Helper()
	testenv.Require(t, testenv.Root)
	owner, err := userdb.System().User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, owner: owner, tmp: testenv.Open(t, filepath.Join(t.TempDir(), "tmp"))}
	testenv.LetIn(t, filepath.Dir(w.tmp))
	if w.spool, err = jobdir.OpenSpool(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.spool.Close)
	config, err := qconf.ParseConfiguration("global", []byte("min_uid 1000\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Spool: w.spool, Config: config, Shepherd: "/nonexistent", FrontGID: 1,
		Rules: Rules{MinUID: 1000, MinGID: 1000, Users: userdb.System(), FrontUID: 34},
		Refused: func(order string, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, order+": "+err.Error())
		},
	}
	return w, s
}

// serve makes the launcher serve the front of the test.
func (w *world) serve(s *Server) {
	t := w.TB
	c, other, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(other.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	if w.conn, err = newConn(fd); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(c)
		c.close()
	}()
	t.Cleanup(func() {
		w.conn.close()
		<-done
	})
}

// audits returns the records that the audit log has received since the previous call.
func (w *world) audits() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.refused
	w.refused = nil
	return list
}

// plan returns the plan of a job with a script, as an honest front makes it.
func (w *world) plan(id job.ID) *launch.Plan {
	w.Helper()
	r, err := submit.Parse(submit.Input{Args: []string{"-N", "n", "-wd", "/", "-b", "y", "true"}, Cwd: "/"})
	if err != nil {
		w.Fatal(err)
	}
	r.Binary, r.Command, r.Script = false, "", []byte("true\n")
	o, err := launch.Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		w.Fatal(err)
	}
	o.Owner, o.Privileged, o.Queue.Tmpdir, o.Lookup = w.owner, true, w.tmp, userdb.System().User
	p, err := o.Plan(id, jobdir.Area(w.spool.Path()), false)
	if err != nil {
		w.Fatal(err)
	}
	p.GroupIDs = nil
	return p
}

// text returns the message of the next order.
func (w *world) text(order kind, body any) string {
	w.Helper()
	w.number++
	text, fds, err := packOrder(order, w.number, body, 0)
	if err != nil || len(fds) > 0 {
		w.Fatalf("an order with %d descriptors: %v", len(fds), err)
	}
	return string(text)
}

// ask sends an order, with descriptors, and returns the error of the answer.
func (w *world) ask(order kind, body any, fds ...int) *Error {
	w.Helper()
	return w.send(w.text(order, body), fds...)
}

// must sends an order that the launcher has to carry out, and decodes the body of the answer.
func (w *world) must(order kind, body, result any, fds ...int) {
	w.Helper()
	a := w.exchange(w.text(order, body), fds...)
	if a.Error != nil {
		w.Fatal(a.Error)
	}
	if _, err := open(reply{answer: a}, result); err != nil {
		w.Fatal(err)
	}
}

// prepared prepares a job, and returns the answer with the whole description, as a front completes it.
func (w *world) prepared(p *launch.Plan) *jobAnswer {
	w.Helper()
	var a jobAnswer
	w.must(kindPrepare, &prepareBody{Plan: p, Script: true}, &a, w.script())
	a.Description = p.Description
	if err := change(a.Description, a.Changes); err != nil {
		w.Fatal(err)
	}
	return &a
}

// send sends a message, and returns the error of the answer.
func (w *world) send(text string, fds ...int) *Error {
	w.Helper()
	return w.exchange(text, fds...).Error
}

// exchange sends a message, and returns the answer.
func (w *world) exchange(text string, fds ...int) *answer {
	w.Helper()
	if err := w.conn.write([]byte(text), fds...); err != nil {
		w.Fatal(err)
	}
	b, got, err := w.conn.read(make([]byte, mostMessage+1))
	if err != nil || len(b) == 0 {
		w.Fatalf("no answer: %v", err)
	}
	closeAll(got)
	a := &answer{}
	if err := decodeAnswer(b, a); err != nil {
		w.Fatal(err)
	}
	return a
}

func (w *world) script() int {
	w.Helper()
	fd, err := memory("script", []byte("true\n"))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestForgedOrders checks that the launcher carries out no order that it does not allow by itself, whatever a
// captured front sends. The cases are execd standalone, an agent, and an agent with an sge_qmaster on a host with a
// file of permitted procedures.
func TestForgedOrders(t *testing.T) {
	for name, world := range map[string]func(*testing.T) *world{
		"standalone": func(t *testing.T) *world { w, _ := newStrictWorld(t); return w },
		"API":        newWorld,
		"qmaster":    func(t *testing.T) *world { return newOrderedWorld(t) },
	} {
		t.Run(name, func(t *testing.T) { world(t).forgedOrders(name != "standalone") })
	}
}

// forgedOrders sends forged orders. ordered says that a master orders jobs, and that users confirm none.
func (w *world) forgedOrders(ordered bool) {
	t := w.TB
	link := filepath.Join(filepath.Dir(w.tmp), "link")
	if err := os.Symlink(w.tmp, link); err != nil {
		t.Fatal(err)
	}
	tmpdir := func(p *launch.Plan, parent string) {
		p.Description.QueueTmpdir = parent
		p.Description.Tmpdir = parent + "/" + jobdir.TmpdirName(p.Description.ID, p.Description.Queue)
	}
	for name, c := range map[string]struct {
		forge func(p *launch.Plan)
		want  string
	}{
		"a job of root":                        {func(p *launch.Plan) { p.Description.Owner, p.UID, p.GID = "root", 0, 0 }, "root cannot own"},
		"root under the name of a user":        {func(p *launch.Plan) { p.UID, p.GID = 0, 0 }, "differ from those of user nobody"},
		"another user's number":                {func(p *launch.Plan) { p.UID = 1234 }, "differ from those of user nobody"},
		"a system account, below min_uid":      {func(p *launch.Plan) { p.Description.Owner, p.UID, p.GID = "daemon", 1, 1 }, "below min_uid 1000"},
		"a job of the front":                   {func(p *launch.Plan) { p.Description.Owner, p.UID, p.GID = "backup", 34, 34 }, "is the user of the front"},
		"a user who does not exist":            {func(p *launch.Plan) { p.Description.Owner = "nosuchuser" }, "nosuchuser"},
		"a user id as a name":                  {func(p *launch.Plan) { p.Description.Owner = "0" }, `"0"`},
		"a queue that leads up":                {func(p *launch.Plan) { p.Description.Queue = ".." }, "is not a name"},
		"a queue in another directory":         {func(p *launch.Plan) { p.Description.Queue = "a/../../b" }, "is not a name"},
		"a host with a line break":             {func(p *launch.Plan) { p.Description.Host = "a\nb" }, "is not a name"},
		"a job number that there is not":       {func(p *launch.Plan) { p.Description.ID.Job = 0 }, "invalid job ID"},
		"a task number that there is not":      {func(p *launch.Plan) { p.Description.ID.Task = -1 }, "invalid job ID"},
		"a task whose name leads up":           {func(p *launch.Plan) { p.Description.ID.PETask = "../1.x" }, "expected a name of the form"},
		"a task of a parallel job":             {func(p *launch.Plan) { p.Description.ID.PETask = "1.host" }, "is a task of a parallel job"},
		"a script that is another file":        {func(p *launch.Plan) { p.Description.Command.File = "/etc/shadow" }, "is not at"},
		"a script in the place of another one": {func(p *launch.Plan) { p.Description.Command.File += "/../8" }, "is not at"},
		"a TMPDIR in /etc":                     {func(p *launch.Plan) { tmpdir(p, "/etc") }, "nor a directory like /tmp"},
		"a TMPDIR in no directory":             {func(p *launch.Plan) { tmpdir(p, "/root/nosuch") }, "/root/nosuch, is neither in root's configuration nor a directory like /tmp"},
		"a TMPDIR behind a link":               {func(p *launch.Plan) { tmpdir(p, link) }, "nor a directory like /tmp"},
		"a TMPDIR behind ..":                   {func(p *launch.Plan) { tmpdir(p, w.tmp+"/../../../etc") }, "shortest form"},
		"a TMPDIR with another name":           {func(p *launch.Plan) { p.Description.Tmpdir = "/etc/cron.d" }, "expected"},
		"a pe_hostfile somewhere else": {func(p *launch.Plan) {
			p.Description.PE = &job.ParallelEnvironment{Name: "p", Slots: 1, HostFile: "/etc/hosts"}
		}, "pe_hostfile"},
		"a prolog of root":           {func(p *launch.Plan) { p.Description.Prolog = "root@/tmp/x" }, "runs as another user"},
		"an epilog of somebody else": {func(p *launch.Plan) { p.Description.Epilog = "daemon@/tmp/x" }, "runs as another user"},
		"start_proc_args of root": {func(p *launch.Plan) {
			p.Description.PE = &job.ParallelEnvironment{
				Name: "p", Slots: 1, HostFile: jobdir.Area(w.spool.Path()).JobPath(p.Description.ID) + "/pe_hostfile", Start: "root@/tmp/x",
			}
		}, "runs as another user"},
		"an admin user of its own":     {func(p *launch.Plan) { p.Description.AdminUser = "nobody" }, "admin user"},
		"the group id of another job":  {func(p *launch.Plan) { p.Description.AddGroupID = 4 }, "additional group ID"},
		"devices":                      {func(p *launch.Plan) { p.Devices = []string{"/dev/mem"} }, "devices"},
		"what is loaded, as of a GPU":  {func(p *launch.Plan) { p.UnfilteredEnv = []string{"LD_PRELOAD=/tmp/x.so"} }, "variables of GPUs"},
		"what is loaded, beside a GPU": {func(p *launch.Plan) { p.FilteredEnv = []string{"LD_PRELOAD=/tmp/x.so"} }, "variables of GPUs"},
		"users for TMPDIR's removal":   {func(p *launch.Plan) { p.Users = []int{0} }, "users of procedures"},
		"the environment of root":      {func(p *launch.Plan) { p.Description.InheritEnv = true }, "environment of the launcher"},
		"a stream of root":             {func(p *launch.Plan) { p.Description.Streams[1].Inherit = true }, "a stream"},
		"a port to connect to":         {func(p *launch.Plan) { p.Description.Interactive = &job.Interactive{} }, "terminal of another kind"},
		"more processor than others":   {func(p *launch.Plan) { p.Description.Nice = -20 }, "nice value"},
		"cores that others have":       {func(p *launch.Plan) { p.Description.BindingCPUs = "0" }, "cores"},
		"a TMPDIR without end":         {func(p *launch.Plan) { p.Scratch = 1 << 63 }, "a size of TMPDIR"},
		"a job in the foreground":      {func(p *launch.Plan) { p.Foreground = true }, "foreground"},
		"a TMPDIR without an owner":    {func(p *launch.Plan) { p.Aside = true }, "foreground"},
		"a record that fills the disk": {func(p *launch.Plan) { p.Record = make([]byte, mostRecord+1) }, "too long"},
		"files after the record": {func(p *launch.Plan) {
			p.Record = []byte("{}\nfile launch 7\nboot=x\n\nfile config 2\na\n\n")
		}, "a record that is not one line"},
		"a record without an end":       {func(p *launch.Plan) { p.Record = []byte("{}") }, "a record that is not one line"},
		"an empty record":               {func(p *launch.Plan) { p.Record = []byte{} }, "a record that is not one line"},
		"a line too many in the config": {func(p *launch.Plan) { p.Description.Account = "a\nqueue=x" }, "account"},
		"no description":                {func(p *launch.Plan) { p.Description = nil }, "no plan"},
	} {
		if !ordered && name == "a line too many in the config" {
			c.want = "no submission"
		}
		p := w.plan(job.ID{Job: 7})
		c.forge(p)
		body, fds := any(&prepareBody{Plan: p, Script: true}), []int{w.script()}
		var got *Error
		if name == "a record that fills the disk" {
			text, memory, err := packOrder(kindPrepare, 1, body, 0)
			if err != nil || len(memory) != 1 {
				t.Fatalf("an order with %d descriptors: %v", len(memory), err)
			}
			got = w.send(string(text), append(memory, fds...)...)
			closeAll(memory)
		} else {
			got = w.ask(kindPrepare, body, fds...)
		}
		w.refusedWith(name, got, c.want)
	}
	w.nothingIsHere()
}

// refusedWith expects a refusal, and its record.
func (w *world) refusedWith(name string, got *Error, want string) {
	w.Helper()
	audits := w.audits()
	if got == nil || got.Code != codeRefused || !strings.Contains(got.Text, want) {
		w.Errorf("%s: %+v, expected a refusal with %q", name, got, want)
	} else if len(audits) != 1 || !strings.Contains(audits[0], want) {
		w.Errorf("%s: the audit log has %q, expected one record with %q", name, audits, want)
	}
}

// nothingIsHere expects that nothing was made.
func (w *world) nothingIsHere() {
	w.Helper()
	jobs, err := w.spool.Jobs()
	scripts, e := w.spool.Scripts()
	if err = errors.Join(err, e); err != nil || len(jobs)+len(scripts) > 0 {
		w.Errorf("there are jobs %v and scripts %v (%v)", jobs, scripts, err)
	}
	if left, _ := os.ReadDir(w.tmp); len(left) > 0 {
		w.Errorf("there is %v", left)
	}
}

// TestForgedMessages checks that the launcher refuses messages that are not orders.
func TestForgedMessages(t *testing.T) {
	w := newWorld(t)
	note := func(n launch.Note) string { return w.text(kindNote, &noteBody{job.ID{Job: 7}, &n}) }
	of := func(k kind, id job.ID) string { return w.text(k, &ofJob{id}) }
	seven := job.ID{Job: 7}
	// The message of an order and its number, and what follows it.
	launchOf := func(rest ...byte) string {
		return string(append([]byte{firstCompact, Version, compactKinds[kindLaunch], 0, 1}, rest...))
	}
	for name, c := range map[string]struct{ message, want string }{
		"no JSON":                                  {"start root", "it is not an order"},
		"a list":                                   {"[]", "it is not an order"},
		"another version":                          {`{"version":1,"number":1,"order":"jobs"}`, "version 1, expected 2"},
		"no version":                               {`{"number":1,"order":"jobs"}`, "version 0"},
		"an unknown field":                         {`{"version":2,"number":1,"order":"jobs","as":"root"}`, "as"},
		"two orders":                               {`{"version":2,"number":1,"order":"jobs"}{}`, "other data after the value"},
		"an unknown order":                         {`{"version":2,"number":1,"order":"exec"}`, `unknown order "exec"`},
		"an unknown field of the body":             {`{"version":2,"number":1,"order":"jobs","body":{"as":"root"}}`, "as"},
		"an order about a job in JSON":             {`{"version":2,"number":1,"order":"launch","body":{"ID":{"Job":7}}}`, "expected the compact form"},
		"nothing but the first byte":               {"\x01", "it ends too early"},
		"no number":                                {"\x01\x02\x04\x00", "it ends too early"},
		"another compact version":                  {"\x01\x03\x04\x00\x01", "version 3, expected 2"},
		"an unknown compact order":                 {"\x01\x02\x63\x00\x01", "unknown order 99"},
		"the order without a code":                 {"\x01\x02\x00\x00\x01", "unknown order 0"},
		"an answer as an order":                    {"\x01\x02\x04\x02\x01", "unknown flags"},
		"no body":                                  {launchOf(), "it ends too early"},
		"an unknown field of an order":             {launchOf(2), "unknown field 1"},
		"an unknown field of an ID":                {launchOf(1, 8), "unknown field 3"},
		"a number out of range":                    {launchOf(1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), "out of range"},
		"a number in a longer form":                {launchOf(1, 1, 0x8e, 0), "longer than necessary"},
		"a number that is zero":                    {launchOf(1, 1, 0), "although it is zero"},
		"an order after the order":                 {of(kindLaunch, seven) + of(kindLaunch, seven), "bytes after the value"},
		"a text that is too short":                 {launchOf(1, 4, 9, 'x'), "it ends too early"},
		"a job number that there is not":           {of(kindLaunch, job.ID{Job: -7}), "invalid job ID"},
		"a job that nobody has opened":             {of(kindLaunch, seven), "neither prepared nor opened"},
		"the wait for a job that is not here":      {of(kindWait, seven), "neither prepared nor opened"},
		"the removal of such a job":                {w.text(kindRemove, &removeBody{ID: seven}), "neither prepared nor opened"},
		"a task whose name leads up":               {of(kindOpen, job.ID{Job: 7, PETask: "../../x"}), "expected a name of the form"},
		"an unknown signal":                        {w.text(kindSignal, &signalBody{seven, "9"}), `"9" is not an order`},
		"a script of no job":                       {w.text(kindRemoveScript, &scriptBody{-1}), "invalid job ID"},
		"the config as a note":                     {note(launch.Note{File: "config", How: launch.NoteWrite}), `the file "config" is unknown`},
		"the supervisor's pid as a note":           {note(launch.Note{File: "pid", How: launch.NoteRemove}), `the file "pid" is unknown`},
		"a note that leads up":                     {note(launch.Note{File: "../../x", How: launch.NoteWrite}), `the file "../../x" is unknown`},
		"a mark over the config":                   {note(launch.Note{File: "ended", How: launch.NoteMark, Mark: "config"}), `the mark "config" is unknown`},
		"another way to write":                     {note(launch.Note{File: "ended", How: "link"}), `"link" is not an operation`},
		"no note":                                  {w.text(kindNote, &noteBody{ID: seven}), "no note"},
		"two bodies":                               {`{"version":2,"number":1,"order":"jobs","body":{},"memory":true}`, "two bodies"},
		"two compact bodies":                       {"\x01\x02\x04\x01\x01\x00", "two bodies"},
		"a body in a descriptor that is not there": {`{"version":2,"number":1,"order":"jobs","memory":true}`, "missing"},
		"a compact body that is not there":         {"\x01\x02\x04\x01\x01", "missing"},
	} {
		w.refusedWith(name, w.send(c.message), c.want)
	}
	w.nothingIsHere()
}

// TestForgedDescriptors checks that a descriptor has to be a sealed file in memory.
func TestForgedDescriptors(t *testing.T) {
	w := newWorld(t)
	open := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	var pipe, sockets [2]int
	if err := errors.Join(unix.Pipe2(pipe[:], unix.O_CLOEXEC), func() (err error) {
		sockets, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}()); err != nil {
		t.Fatal(err)
	}
	changing, err := unix.MemfdCreate("changing", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	large, err := unix.MemfdCreate("large", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(large, mostScript+1)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(large), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fds  []int
		want string
	}{
		"a pipe":                    {[]int{pipe[0]}, "not a sealed file in memory"},
		"a socket":                  {[]int{sockets[0]}, "not a sealed file in memory"},
		"a directory":               {[]int{open("/etc", unix.O_RDONLY|unix.O_DIRECTORY)}, "not a sealed file in memory"},
		"a device":                  {[]int{open("/dev/zero", unix.O_RDONLY)}, "not a sealed file in memory"},
		"a file":                    {[]int{open("/etc/shadow", unix.O_RDONLY)}, "not a sealed file in memory"},
		"a path":                    {[]int{open("/etc/shadow", unix.O_PATH)}, "not a sealed file in memory"},
		"a memory that can change":  {[]int{changing}, "not a sealed file in memory"},
		"a script that is too long": {[]int{large}, "at most"},
		"none":                      {nil, "-1 descriptors too many"},
		"two":                       {[]int{w.script(), w.script()}, "1 descriptors too many"},
	} {
		got := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7}), Script: true}, c.fds...)
		w.refusedWith(name, got, c.want)
		closeAll(c.fds)
	}
	w.refusedWith("one where none is expected", w.ask(kindJobs, empty{}, w.script()), "1 descriptors too many")
	w.nothingIsHere()
}

// TestTooLongMessageEndsConnection checks that the launcher stops serving a front that sends a
// message longer than any valid one.
func TestTooLongMessageEndsConnection(t *testing.T) {
	w := newWorld(t)
	raw, err := w.conn.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), make([]byte, mostMessage+1), nil, nil, 0) }); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if b, _, err := w.conn.read(make([]byte, 1)); err == nil && len(b) > 0 {
		t.Errorf("it was answered with %q", b)
	}
	if audits := w.audits(); len(audits) != 1 || !strings.Contains(audits[0], "longer than") {
		t.Errorf("the audit log has %q", audits)
	}
}

// TestOrders checks that the launcher carries out the orders of an honest front, and refuses a second job with the
// same number.
func TestOrders(t *testing.T) {
	w := newWorld(t)
	id := job.ID{Job: 7}
	prepare := func(p *launch.Plan) *Error {
		return w.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, w.script())
	}
	if err := prepare(w.plan(id)); err != nil {
		t.Fatal(err)
	}
	if err := prepare(w.plan(id)); err == nil || !errors.Is(err, jobdir.ErrExists) {
		t.Errorf("%v, expected that there is one", err)
	}
	dir, err := w.spool.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d, err := dir.Description()
	if err != nil || d.MinUID != 1000 || d.Owner != "nobody" {
		t.Errorf("%+v, %v", d, err)
	}
	info, err := os.Stat(dir.Path())
	if err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("the directory has mode %v (%v), expected 0751", info.Mode(), err)
	}
	if err := w.ask(kindNote, &noteBody{id, &launch.Note{File: "ending", How: launch.NoteDurably, Data: []byte("x")}}); err != nil {
		t.Error(err)
	}
	if b, err := dir.ReadFile("ending"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: id}); err != nil {
		t.Error(err)
	}
	if err := w.ask(kindRemoveScript, &scriptBody{7}); err != nil {
		t.Error(err)
	}
	w.nothingIsHere()
	if audits := w.audits(); len(audits) > 0 {
		t.Errorf("the audit log has %q", audits)
	}
}

// TestManyWaits checks that orders that wait for the end of a job keep no descriptors open, and
// that their number is limited.
func TestManyWaits(t *testing.T) {
	w, s := makeWorld(t)
	const most = 100
	s.mostWaits = most
	w.serve(s)
	if err := w.ask(kindHello, empty{}); err != nil { // so the launcher serves
		t.Fatal(err)
	}
	const name = "a wait"
	text, err := toCompact(nil, &ofJob{job.ID{Job: 7}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := memory(name, text)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock() // as jobs that do not end
	for range most {
		if err := w.conn.write(compactHead(compactKinds[kindWait], flagMemory, 1), body); err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(body)
	if got := w.ask(kindWait, &ofJob{job.ID{Job: 7}}); got == nil || got.Code != codeRefused || !strings.Contains(got.Text, "is waiting for") {
		t.Errorf("one more: %+v, expected a refusal", got)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "memfd:"+name) {
			open++
		}
	}
	if open > 0 {
		t.Errorf("%d descriptors of orders that wait are open", open)
	}
	s.mu.Unlock()
	for range most {
		b, _, err := w.conn.read(make([]byte, mostMessage+1))
		if err != nil || !strings.Contains(string(b), "neither prepared nor opened") {
			t.Fatalf("%s (%v)", b, err)
		}
	}
	for { // those that were answered leave room, if not at once
		if err := w.ask(kindWait, &ofJob{job.ID{Job: 7}}); err == nil || !strings.Contains(err.Text, "waits for") {
			break
		}
	}
}

// TestScriptOfAnotherTask checks that the script of a job on this host is not replaced.
func TestScriptOfAnotherTask(t *testing.T) {
	w := newWorld(t)
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7, Task: 1}), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	other, err := memory("script", []byte("rm -rf ~\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	got := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7, Task: 2}), Script: true}, other)
	w.refusedWith("another script", got, "cannot replace the script")
	if err := w.ask(kindRemoveScript, &scriptBody{7}); err != nil {
		t.Error(err)
	}
	if same, err := w.spool.HasScript(7, []byte("true\n"), int(w.owner.UID)); err != nil || !same {
		t.Errorf("the script of the task that is here: %v, %v", same, err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: job.ID{Job: 7, Task: 1}}); err != nil {
		t.Error(err)
	}
}

// TestForgedCollect checks that a front can neither take the additional group ID from a job that has not ended, nor have the
// processes ended that a supervisor has left on purpose.
func TestForgedCollect(t *testing.T) {
	w, s := makeWorld(t)
	s.Rules.GroupIDs = []qconf.Range{{First: 61_234, Last: 61_234}}
	s.Shepherd = "/bin/true"
	w.serve(s)
	first, second := job.ID{Job: 7}, job.ID{Job: 8}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(first), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindCollect, &ofJob{first}); err == nil || !strings.Contains(err.Text, "no supervisor of it has ended") {
		t.Errorf("a job that was not launched: %v", err)
	}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(second), Script: true}, w.script()); err == nil || err.Code != "no-group-id" {
		t.Errorf("a second job with the ID of the first one: %v", err)
	}
	if err := w.ask(kindLaunch, &ofJob{first}); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindWait, &ofJob{first}); err != nil {
		t.Fatal(err)
	}
	// 9 is the status of a process that was killed.
	if err := w.send(`{"version":2,"number":99,"order":"collect","body":{"id":{"Job":7},"status":9}}`); err == nil {
		t.Error("the front chooses how the supervisor has ended")
	}
	if err := w.ask(kindCollect, &ofJob{first}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(jobdir.Area(w.spool.Path()).JobPath(first), "swept")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the processes of a supervisor that was not killed were ended: %v", err)
	}
}
