package launcher

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Rules are the launcher's own settings, which come from root.
type Rules struct {
	MinUID, MinGID int           // jobs of users below are refused (sge_conf(5))
	GroupIDs       []qconf.Range // gid_range of sge_conf(5)
	// Tmpdirs are directories for the TMPDIRs of jobs, besides those in which every user may make
	// directories.
	Tmpdirs []string
	Users   userdb.Database
	// FrontUID is the user of the front. Jobs of this user are refused, because they could trace the front.
	FrontUID uint32
	// Submissions are the confirmed submissions of users: no other job is started. Nil means that a
	// trusted master orders jobs: see checkOrdered. With Submissions, Site is required.
	Submissions *Submissions
	// Permitted reads the programs that may run as other users although root's configuration does not have them. It is nil
	// for none, and returns nil if the host has no such file.
	Permitted func() (*procedures.List, error)
	Site      Site

	lookup func(name string) (*userdb.User, error) // see withLookup
}

// user returns the entry of a user.
func (r *Rules) user(name string) (*userdb.User, error) {
	if r.lookup != nil {
		return r.lookup(name)
	}
	return r.Users.User(name)
}

// withLookup returns rules for the checks of one order, which look each user up once: a directory service may take
// milliseconds.
func (r *Rules) withLookup() *Rules {
	one, found := *r, map[string]*userdb.User{}
	one.lookup = func(name string) (*userdb.User, error) {
		if u := found[name]; u != nil {
			return u, nil
		}
		u, err := r.Users.User(name)
		if err == nil {
			found[name] = u
		}
		return u, err
	}
	return &one
}

// checkID refuses numbers that no job has, and names that no task of a parallel job has.
func checkID(id job.ID) error {
	if id.Job < 1 || id.Job > math.MaxInt32 || id.Task < 0 || id.Task > math.MaxInt32 {
		return fmt.Errorf("invalid job ID %d.%d: the job number must be from 1 to %d, and the task number from 0 to %[3]d", id.Job, id.Task, math.MaxInt32)
	}
	if id.PETask == "" {
		return nil
	}
	number, host, _ := strings.Cut(id.PETask, ".")
	if _, err := strconv.ParseUint(number, 10, 31); err != nil || host == "" {
		return fmt.Errorf("job %d, task %q of a parallel job: expected a name of the form NUMBER.HOST", id.Job, id.PETask)
	}
	return checkName("the task of a parallel job", id.PETask)
}

// noteFiles are the agent's files in a job directory, and the marks among them.
var (
	noteFiles = []string{"suspended", "client", "ending", "ended", "told", "acknowledged", "gpu_usage", "last_task"}
	noteMarks = []string{"told", "acknowledged"}
)

func checkNote(n *launch.Note) error {
	switch {
	case n == nil:
		return errors.New("the order has no note")
	case !slices.Contains(noteFiles, n.File):
		return fmt.Errorf("the file %q is unknown, expected one of %s", n.File, strings.Join(noteFiles, ", "))
	case len(n.Data) > mostNote:
		return fmt.Errorf("the file %s would have %d bytes, at most %d are possible", n.File, len(n.Data), mostNote)
	case n.Soon && n.How != launch.NoteMark:
		return fmt.Errorf("the file %s would be written without an answer", n.File)
	}
	switch n.How {
	case launch.NoteWrite, launch.NoteDurably, launch.NoteRemove:
		return nil
	case launch.NoteMark:
		if !slices.Contains(noteMarks, n.Mark) {
			return fmt.Errorf("the mark %q is unknown, expected one of %s", n.Mark, strings.Join(noteMarks, ", "))
		}
		return nil
	}
	return fmt.Errorf("%q is not an operation on a file", n.How)
}

func checkSignal(s launch.Signal) error {
	switch s {
	case launch.SignalTerminate, launch.SignalKill, launch.SignalSuspend, launch.SignalResume, launch.SignalMigrate,
		launch.SignalUsr1, launch.SignalUsr2:
		return nil
	}
	return fmt.Errorf("%q is not an order to a supervisor", s)
}

// checkPlan refuses a job that may not be started, and sets the values in the plan that the front
// must not choose. script is nil for none.
func (r *Rules) checkPlan(p *launch.Plan, s *submitted, area jobdir.Area, script []byte) error {
	if p == nil || p.Description == nil {
		return errors.New("the order has no plan of a job")
	}
	d := p.Description
	r = r.withLookup()
	for _, check := range []func() error{
		func() error { return checkID(d.ID) },
		func() error { return r.checkSlave(p) },
		func() error { return r.checkOwner(p) },
		func() error { return checkNames(d) },
		func() error { return checkPaths(d, area, script, p.Slave) },
		func() error { return r.checkTmpdir(d) },
		func() error { return checkWords(p) },
		func() error { return r.checkProcedures(d) },
		func() error { return checkOurs(p, r.Submissions == nil) },
		func() error { return r.checkNice(d) },
		func() error {
			if r.Submissions == nil {
				return r.checkOrdered(p, area)
			}
			return r.checkSubmitted(p, s, area, script)
		},
	} {
		if err := check(); err != nil {
			return err
		}
	}
	d.MinUID, d.MinGID, p.GroupIDs = r.MinUID, r.MinGID, r.GroupIDs
	p.Users = launch.ProcedureUsers(d, r.user)
	d.PrivateTmpShare = ""
	if c := r.Site.Config; d.PrivateTmp && c != nil {
		d.PrivateTmpShare = strings.Join(c.ExecdParams.PrivateTmpShare, ":")
	}
	p.ScratchLimit = qconf.ScratchUnlimited
	if c := r.Site.Config; c != nil {
		p.ScratchLimit = c.ExecdParams.ScratchLimit
	}
	if err := jobdir.Check(d); err != nil {
		return err
	}
	return r.checkWritten(d)
}

// checkSlave refuses tasks, which the order for a job cannot prepare, and slave jobs of other masters than trusted ones. It
// removes the procedures of a slave job: it has no supervisor, and its tasks have no procedures.
func (r *Rules) checkSlave(p *launch.Plan) error {
	d := p.Description
	switch {
	case d.ID.PETask != "":
		return fmt.Errorf("job %s is a task of a parallel job", d.ID)
	case !p.Slave:
		return nil
	case r.Submissions != nil:
		return errors.New("the master task of the job is on another host, and users confirm jobs on one host only")
	}
	d.Prolog, d.Epilog = "", ""
	if d.PE != nil {
		d.PE.Start, d.PE.Stop = "", ""
	}
	return nil
}

// checkWritten checks the description as a supervisor will read it, in case that differs from the
// written one.
func (r *Rules) checkWritten(d *job.Description) error {
	text, err := jobdir.FormatConfig(d)
	if err != nil {
		return err
	}
	read, err := jobdir.ParseConfig(jobdir.FileConfig, text)
	if err != nil {
		return err
	}
	if read.ID.Job != d.ID.Job || read.Owner != d.Owner || read.MinUID != d.MinUID || read.MinGID != d.MinGID ||
		(read.Terminal == nil) != (d.Terminal == nil) || read.AdminUser != "" || read.InheritEnv || read.PrivateTmp != d.PrivateTmp || read.PrivateTmpShare != d.PrivateTmpShare ||
		read.Command.File != d.Command.File || read.Tmpdir != d.Tmpdir {
		return errors.New("the description changes when it is written and read again")
	}
	return r.checkProcedures(read)
}

// checkOwner looks the owner up: the supervisor does so, too, by the name.
func (r *Rules) checkOwner(p *launch.Plan) error {
	name := p.Description.Owner
	u, err := r.user(name)
	if err != nil {
		return err
	}
	switch {
	case u.Name != name:
		return fmt.Errorf("the owner %q has the name %q in the user database", name, u.Name)
	case u.UID == 0:
		return errors.New("root cannot own a job")
	case u.UID == r.FrontUID:
		return fmt.Errorf("user %s is the user of the front and cannot own jobs", name)
	case int64(u.UID) < int64(r.MinUID):
		return fmt.Errorf("user %s has user ID %d, below min_uid %d", name, u.UID, r.MinUID)
	case u.GID == 0 || int64(u.GID) < int64(r.MinGID):
		return fmt.Errorf("user %s has group ID %d, below min_gid %d", name, u.GID, r.MinGID)
	case p.UID != int(u.UID) || p.GID != int(u.GID):
		return fmt.Errorf("user ID %d and group ID %d differ from those of user %s: %d and %d", p.UID, p.GID, name, u.UID, u.GID)
	}
	return nil
}

// checkName refuses names that cannot be a part of a path.
func checkName(what, name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f })
	if name == "" || name == "." || name == ".." || len(name) > 255 || bad {
		return fmt.Errorf("%s %q is not a name", what, name)
	}
	return nil
}

func checkNames(d *job.Description) error {
	return errors.Join(checkName("the queue", d.Queue), checkName("the host", d.Host), checkName("the owner", d.Owner))
}

// checkPath refuses everything except absolute paths in their shortest form.
func checkPath(what, name string) error {
	if !strings.HasPrefix(name, "/") || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%s %q is not an absolute path in its shortest form", what, name)
	}
	return nil
}

// checkPaths compares the paths from the front with the actual ones. It does not check paths that
// users chose, because the supervisor opens these as the user.
func checkPaths(d *job.Description, area jobdir.Area, script []byte, slave bool) error {
	c := &d.Command
	switch {
	case c.Binary && script != nil:
		return errors.New("a command has no script")
	case !c.Binary && script == nil && !slave:
		return errors.New("the script is missing")
	case !c.Binary && c.File != area.ScriptPath(d.ID.Job):
		return fmt.Errorf("the script %q is not at %s", c.File, area.ScriptPath(d.ID.Job))
	case d.PE != nil && d.PE.HostFile != area.JobPath(d.ID)+"/"+jobdir.FilePEHosts:
		return fmt.Errorf("pe_hostfile %q is not in the job's directory", d.PE.HostFile)
	case !strings.HasPrefix(d.Cwd, "/"):
		return fmt.Errorf("the working directory %q is not an absolute path", d.Cwd)
	}
	return nil
}

// checkTmpdir refuses a TMPDIR in a place where its user could not have made one.
func (r *Rules) checkTmpdir(d *job.Description) error {
	if err := checkPath("tmpdir of the queue", d.QueueTmpdir); err != nil {
		return err
	}
	if want := d.QueueTmpdir + "/" + jobdir.TmpdirName(d.ID, d.Queue); d.Tmpdir != want {
		return fmt.Errorf("TMPDIR %q, expected %s", d.Tmpdir, want)
	}
	if slices.Contains(r.Tmpdirs, d.QueueTmpdir) {
		return nil
	}
	var st unix.Stat_t
	const open = unix.S_IFDIR | unix.S_ISVTX | 0o002
	// The same answer for all others, so that the front does not learn which directories exist.
	if err := unix.Lstat(d.QueueTmpdir, &st); err != nil || st.Uid != 0 || st.Mode&(unix.S_IFMT|unix.S_ISVTX|0o002) != open {
		return fmt.Errorf("tmpdir of the queue, %s, is neither in root's configuration nor a directory like /tmp, in which every user may create files", d.QueueTmpdir)
	}
	return nil
}

// checkNice refuses a nice value below 0, except the priority that root's configuration has for the queue of the job.
func (r *Rules) checkNice(d *job.Description) error {
	if d.Nice >= 0 {
		return nil
	}
	if q := r.Site.queue(d.Queue); q == nil || q.Priority != d.Nice {
		return fmt.Errorf("the nice value %d is not the priority of the queue %s in root's configuration: "+remedy, d.Nice, d.Queue)
	}
	return nil
}

// checkOurs refuses values that the launcher chooses itself, and values for other kinds of jobs. ordered says that a
// trusted master orders them.
func checkOurs(p *launch.Plan, ordered bool) error {
	d := p.Description
	for _, c := range []struct {
		what  string
		there bool
	}{
		{"a job in the foreground", p.Foreground || p.Aside},
		{"a terminal of another kind", d.Interactive != nil || d.Relayed && !ordered},
		{"the environment of the launcher", d.InheritEnv},
		{"an admin user", d.AdminUser != ""},
		{"users of procedures", len(p.Users) > 0},
		{"devices", len(p.Devices)+len(p.Deny) > 0},
		{"variables of GPUs", len(p.FilteredEnv)+len(p.UnfilteredEnv) > 0},
		{"an additional group ID", d.AddGroupID != 0},
		{"cores that were chosen", d.Binding+d.BindingCPUs+d.BindingMask != "" || p.GrantedBinding != nil && !ordered},
		{"a stream of the launcher", d.Streams[0].Inherit || d.Streams[1].Inherit || d.Streams[2].Inherit},
		{"a limited TMPDIR", d.Scratch != 0 || d.ScratchLimit != ""},
		{"a number of processes below 0", p.Processes < 0},
		{"a size of TMPDIR that no file system has", p.Scratch > math.MaxInt64},
		{"a number of slots below 1", d.HostSlots < 1 || d.PE != nil && d.PE.Slots < 1},
		{"no start mode of shells", !d.Command.StartMode.Valid()},
		{"a record that is too long", len(p.Record) > mostRecord},
		{"a record that is not one line", p.Record != nil && !jobdir.IsRecord(p.Record)},
		{"too many lines of pe_hostfile", len(p.Hosts) > 1<<16},
	} {
		if c.there {
			return fmt.Errorf("the plan has %s, which the front may not request", c.what)
		}
	}
	return nil
}
