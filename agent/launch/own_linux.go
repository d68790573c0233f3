package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// The files of this package in a job directory.
const (
	// fileOwn contains own.
	fileOwn = "launch"
	// fileKept marks a directory that was kept for inspection: the job no longer exists.
	fileKept = "kept"
	// fileSwept marks that the remaining processes of a killed supervisor were killed. It lists the
	// ones that did not end.
	fileSwept = "swept"
)

// own is the data, not contained in the description of a job, that is needed to remove everything
// that was created for the job. It is stored in the file "launch" as lines of key=value.
type own struct {
	boot     string        // BootID when the job was prepared
	uid, gid int           // of the owner
	users    []int         // that procedures run as
	slave    bool          // a slave job, without a supervisor
	shared   bool          // the TMPDIR belongs to another job
	private  bool          // the job has its own /tmp
	scratch  bool          // the TMPDIR is limited, if that is possible
	project  uint32        // by the quota of this project ID; 0 for none
	ownShell bool          // job.Command.OwnShell
	parent   string        // where the TMPDIR is, or is about to be made
	name     string        // and under which name, perhaps with a suffix
	aside    string        // under which it is made, without root; empty for none
	groupIDs []qconf.Range // gid_range, for the IDs of tasks
	devices  []string      // that the job may open
	deny     []cgroup.Device
	gpus     []string // that the job has, by their numbers
	unbound  string
	notes    []string
}

func (o *own) format() []byte {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + "=" + value + "\n") }
	flag := func(key string, set bool) {
		if set {
			line(key, "yes")
		}
	}
	line("boot", o.boot)
	line("uid", strconv.Itoa(o.uid))
	line("gid", strconv.Itoa(o.gid))
	for _, u := range o.users {
		line("user", strconv.Itoa(u))
	}
	flag("slave", o.slave)
	flag("shared", o.shared)
	flag("private_tmp", o.private)
	flag("scratch", o.scratch)
	flag("own_shell", o.ownShell)
	line("tmpdir_parent", strconv.Quote(o.parent))
	line("tmpdir_name", strconv.Quote(o.name))
	if o.aside != "" {
		line("tmpdir_aside", strconv.Quote(o.aside))
	}
	for _, r := range o.groupIDs {
		line("gid_range", strconv.Itoa(r.First)+"-"+strconv.Itoa(r.Last))
	}
	for _, d := range o.devices {
		line("device", strconv.Quote(d))
	}
	// What is found out later comes last, in the order of time: see Job.writeOwn.
	if o.project != 0 {
		line("project", strconv.FormatUint(uint64(o.project), 10))
	}
	for _, d := range o.deny {
		line("deny", formatDevice(d))
	}
	for _, id := range o.gpus {
		line("gpu", strconv.Quote(id))
	}
	if o.unbound != "" {
		line("unbound", strconv.Quote(o.unbound))
	}
	for _, n := range o.notes {
		line("note", strconv.Quote(n))
	}
	return []byte(b.String())
}

// writeOwn writes j.own to the job directory. It appends the lines that were added since the last call:
// a file that replaces another one is written to the disk by some file systems, which takes longer.
func (j *Job) writeOwn() error {
	text := j.own.format()
	more, longer := bytes.CutPrefix(text, j.writtenOwn)
	var err error
	switch {
	case j.writtenOwn == nil || !longer:
		err = j.Dir.WriteFile(fileOwn, text)
	case len(more) > 0:
		err = j.Dir.Append(fileOwn, string(more))
	}
	if err == nil {
		j.writtenOwn = text
	} else {
		j.writtenOwn = nil // part of a line may have been written
	}
	return err
}

// parseOwn reads the format of format. It skips unknown keys, which a newer version has written, and a
// last line without a newline, which was being appended when the process or the host stopped.
func parseOwn(file string, text []byte) (*own, error) {
	o := &own{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if !strings.HasSuffix(line, "\n") {
			break
		}
		key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		err := errors.New("expected KEY=VALUE")
		if found {
			err = o.set(key, value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q: %w", file, number, line, err)
		}
	}
	return o, nil
}

func (o *own) set(key, value string) (err error) {
	text := func(to *string) { *to, err = strconv.Unquote(value) }
	switch key {
	case "boot":
		o.boot = value
	case "uid":
		o.uid, err = strconv.Atoi(value)
	case "gid":
		o.gid, err = strconv.Atoi(value)
	case "user":
		var n int
		n, err = strconv.Atoi(value)
		o.users = append(o.users, n)
	case "slave":
		o.slave = true
	case "shared":
		o.shared = true
	case "private_tmp":
		o.private = true
	case "scratch":
		o.scratch = true
	case "project":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 32)
		o.project = uint32(n)
	case "own_shell":
		o.ownShell = true
	case "tmpdir_parent":
		text(&o.parent)
	case "tmpdir_name":
		text(&o.name)
	case "tmpdir_aside":
		text(&o.aside)
	case "gid_range":
		var r qconf.Range
		first, last, _ := strings.Cut(value, "-")
		if r.First, err = strconv.Atoi(first); err == nil {
			r.Last, err = strconv.Atoi(last)
		}
		o.groupIDs = append(o.groupIDs, r)
	case "device":
		var d string
		text(&d)
		o.devices = append(o.devices, d)
	case "deny":
		var d cgroup.Device
		d, err = parseDevice(value)
		o.deny = append(o.deny, d)
	case "gpu":
		var id string
		text(&id)
		o.gpus = append(o.gpus, id)
	case "unbound":
		text(&o.unbound)
	case "note":
		var n string
		text(&n)
		o.notes = append(o.notes, n)
	}
	return err
}

// readOwn reads the file. If the directory has none, it returns nil and no error.
func readOwn(dir *jobdir.Dir) (*own, error) {
	b, err := dir.ReadFile(fileOwn)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // made by others
	}
	if err != nil {
		return nil, err
	}
	return parseOwn(dir.Path()+"/"+fileOwn, b)
}

// isKept reports whether Remove has kept the directory of a job.
func isKept(spool *jobdir.Spool, id job.ID) (bool, error) {
	dir, err := spool.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	return dir.Exists(fileKept)
}
