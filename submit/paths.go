package submit

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// HostPath is one entry of a path list: [[host]:]path of -e, -i, -o and -S.
type HostPath struct {
	Host string // empty: for every host that has no entry of its own
	Path string // as given, before Expand
}

// String returns the entry in the notation that ParsePaths reads.
func (p HostPath) String() string {
	if p.Host == "" && !strings.Contains(p.Path, ":") {
		return p.Path
	}
	return p.Host + ":" + p.Path
}

// ParsePaths reads a comma separated path list (sge_submit(1), -e). A path that contains a colon
// needs a host or a colon before it. Quotes protect commas and stay part of the path.
func ParsePaths(s string) ([]HostPath, error) {
	var list []HostPath
	for _, item := range splitList(s, ",") {
		p := HostPath{Path: item}
		if host, path, ok := strings.Cut(item, ":"); ok {
			p = HostPath{Host: host, Path: path}
		}
		switch {
		case p.Path == "":
			return nil, errors.New(strconv.Quote(item) + " has no path")
		case strings.ContainsAny(p.Host, "/$~ "):
			return nil, errors.New(strconv.Quote(p.Host) + " is not a host name; a path that contains a colon is written with a colon in front, \":" + item + "\"")
		case len(p.Path) > maxPath:
			return nil, errors.New("the path has " + strconv.Itoa(len(p.Path)) + " bytes, at most " + strconv.Itoa(maxPath) + " are possible")
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, errors.New("no path is named")
	}
	return list, nil
}

// PathVars holds the values of the variables in a job's paths when it starts.
type PathVars struct {
	// Home is the home directory of the job's owner on this host, for ~ and $HOME. If it is
	// "~user", the home directory is unknown: paths below it count as absolute.
	Home    string
	User    string // login name of the owner, for $USER
	JobID   int
	JobName string
	Host    string // this host's name, for $HOSTNAME and to choose from a list
	TaskID  int    // for $TASK_ID; 0 for a job that is not an array job (tested), AnyTask to keep $TASK_ID
	Cwd     string // absolute; prefix of relative paths
	// HomeOf finds the home directory of another user, for ~user.
	HomeOf func(user string) (string, error)
}

// AnyTask as a task number stands for all tasks of an array job.
const AnyTask = -1

// Files are the working directory of a job and the files of its standard input, output and error.
type Files struct {
	Dir     string
	Streams [3]string // "" if the request names none
}

// Files returns the working directory of a job and the paths of -i, -o and -e. It does not use
// vars.Cwd.
func (r *Request) Files(vars PathVars) (Files, error) {
	f := Files{Dir: vars.Home}
	if r.WorkingDir != "" {
		dir, err := vars.Expand(r.WorkingDir)
		if err != nil {
			return f, fmt.Errorf("-wd %s: %w", r.WorkingDir, err)
		}
		f.Dir = dir
	}
	if !vars.absolute(f.Dir) {
		return f, fmt.Errorf("working directory %q is not an absolute path", f.Dir)
	}
	vars.Cwd = f.Dir
	for i, s := range []struct {
		option string
		list   []HostPath
	}{{"-i", r.Input}, {"-o", r.Output}, {"-e", r.Error}} {
		path, err := ExpandPath(s.list, vars)
		if err != nil {
			return f, fmt.Errorf("%s: %w", s.option, err)
		}
		f.Streams[i] = path
	}
	return f, nil
}

// absolute reports whether a path begins at the root, or in the home directory of the owner.
func (vars PathVars) absolute(path string) bool {
	return strings.HasPrefix(path, "/") ||
		strings.HasPrefix(vars.Home, "~") && (path == vars.Home || strings.HasPrefix(path, vars.Home+"/"))
}

// ExpandPath returns the path that a list contains for the host of vars: the entry for the host, or
// otherwise the first entry without a host. The path is expanded (Expand) and made absolute with
// vars.Cwd. If no entry applies, ExpandPath returns "", and the stream or shell has its default;
// 8.1.9 uses the last entry in this case. As in sge_submit(1), a path with a host applies to that
// host only.
func ExpandPath(list []HostPath, vars PathVars) (string, error) {
	path, err := vars.choose(list)
	if err == nil && path != "" && !vars.absolute(path) {
		if !vars.absolute(vars.Cwd) {
			return "", errors.New("the path " + strconv.Quote(path) + " is relative to a working directory that is not absolute, " + strconv.Quote(vars.Cwd))
		}
		path = strings.TrimSuffix(vars.Cwd, "/") + "/" + path
	}
	return path, cmp.Or(err, checkLength(path))
}

// ExpandShell expands the paths of -S like ExpandPath, but keeps a name without a slash: the job
// searches for that program in its PATH, as its user.
func ExpandShell(list []HostPath, vars PathVars) (string, error) {
	name, err := vars.choose(list)
	if err != nil || strings.Contains(name, "/") {
		return ExpandPath(list, vars)
	}
	return name, checkLength(name)
}

func checkLength(path string) error {
	if len(path) > maxPath {
		return errors.New("the path " + strconv.Quote(path[:64]+"…") + " has " + strconv.Itoa(len(path)) + " bytes, at most " + strconv.Itoa(maxPath) + " are possible")
	}
	return nil
}

// choose returns the expanded path of the entry for the host, or "" if there is none.
func (vars PathVars) choose(list []HostPath) (string, error) {
	path := ""
	for _, p := range list {
		if p.Host != "" && sameHost(p.Host, vars.Host) {
			path = p.Path
			break
		}
		if p.Host == "" && path == "" {
			path = p.Path
		}
	}
	if path == "" {
		return "", nil
	}
	return vars.Expand(path)
}

// sameHost compares host names. It ignores case, and the domains if one of the names has none.
func sameHost(a, b string) bool {
	shortA, _, longA := strings.Cut(a, ".")
	shortB, _, longB := strings.Cut(b, ".")
	if longA && longB {
		return strings.EqualFold(a, b)
	}
	return strings.EqualFold(shortA, shortB)
}

// Expand replaces a leading ~ or ~user, and the pseudo variables $HOME $USER $JOB_ID $JOB_NAME
// $HOSTNAME $TASK_ID anywhere in the path: "$JOB_IDx" is the job number and an x. "$$" becomes one
// dollar, and every other "$" stays (sge_submit(1), -e). Expand does not expand inserted values
// again. Use it directly for a working directory.
func (vars PathVars) Expand(path string) (string, error) {
	var b strings.Builder
	if strings.HasPrefix(path, "~") {
		user, rest, _ := strings.Cut(path[1:], "/")
		home, err := vars.home(user)
		if err != nil {
			return "", err
		}
		b.WriteString(home)
		if len(path) > 1+len(user) {
			b.WriteByte('/')
		}
		path = rest
	}
	for path != "" {
		plain, rest, found := strings.Cut(path, "$")
		b.WriteString(plain)
		if !found {
			break
		}
		value, length, err := vars.variable(rest)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		path = rest[length:]
	}
	return b.String(), nil
}

// variable returns the value of the pseudo variable at the start of s, the text after a dollar, and
// the length of the variable's name.
func (vars PathVars) variable(s string) (value string, length int, err error) {
	// No name is the beginning of another one, so the order is irrelevant.
	for _, v := range []struct{ name, value string }{
		{"JOB_ID", strconv.Itoa(vars.JobID)},
		{"JOB_NAME", vars.JobName},
		{"TASK_ID", vars.task()},
		{"USER", vars.User},
		{"HOSTNAME", vars.Host},
		{"$", "$"},
	} {
		if strings.HasPrefix(s, v.name) {
			return v.value, len(v.name), nil
		}
	}
	if strings.HasPrefix(s, "HOME") {
		home, err := vars.home("")
		return home, len("HOME"), err
	}
	return "$", 0, nil
}

func (vars PathVars) task() string {
	if vars.TaskID == AnyTask {
		return "$TASK_ID"
	}
	return strconv.Itoa(vars.TaskID)
}

// home returns the home directory of user, or of the job's owner for "".
func (vars PathVars) home(user string) (string, error) {
	if user == "" || user == vars.User {
		if vars.Home == "" {
			return "", errors.New("the user " + vars.User + " has no home directory here")
		}
		return vars.Home, nil
	}
	if vars.HomeOf == nil {
		return "", errors.New("cannot find the home directory of " + strconv.Quote(user))
	}
	home, err := vars.HomeOf(user)
	if err == nil && home == "" {
		err = errors.New("the user " + strconv.Quote(user) + " has no home directory here")
	}
	return home, err
}
