package starter

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
)

// procedurePath is the PATH of site procedures. A PATH given with -v could replace programs that a
// prolog calls, with the rights of the prolog, or make the prolog fail, which would put the queue
// into error state.
const procedurePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// userPrefix precedes the names of the user's variables in the environment of a procedure that runs
// as another user. Under their own names they could change what its programs do.
const userPrefix = "SGE_JOB_ENV_"

// userRoom is the number of bytes that such a procedure gets of the user's variables, including the
// pointers to them. The kernel may allow no more than 128 KiB for arguments and environment, and
// allows no more for a single variable (execve(2)). The remainder is reserved for variables of the
// site and of execd: a program that cannot be executed would put the queue into error state, and an
// epilog would not run.
const userRoom = 64 << 10

// exitStatusVariable holds the exit status of the job in procedures after it. It is absent if the
// job did not run.
const exitStatusVariable = "SGE_JOBEXIT_STAT"

// environment is a list of NAME=value that contains each name once.
type environment struct {
	list []string
	at   map[string]int
}

func newEnvironment(lists ...[]string) *environment {
	n := 8 // room for additions
	for _, l := range lists {
		n += len(l)
	}
	e := &environment{list: make([]string, 0, n), at: make(map[string]int, n)}
	for _, l := range lists {
		for _, s := range l {
			if i := strings.IndexByte(s, '='); i > 0 {
				e.put(s[:i], s)
			}
		}
	}
	return e
}

// set adds a variable or replaces its value, and returns its index. It has many callers: inlined,
// it would be large.
//
//go:noinline
func (e *environment) set(name, value string) int { return e.put(name, name+"="+value) }

// put sets a variable, as set does, given as NAME=value.
func (e *environment) put(name, variable string) int {
	i, ok := e.at[name]
	if !ok {
		i = len(e.list)
		e.at[name] = i
		e.list = append(e.list, "")
	}
	e.list[i] = variable
	return i
}

// unset removes a variable.
func (e *environment) unset(name string) {
	i, ok := e.at[name]
	if !ok {
		return
	}
	e.list = slices.Delete(slices.Clone(e.list), i, i+1)
	delete(e.at, name)
	for n, j := range e.at {
		if j > i {
			e.at[n] = j - 1
		}
	}
}

func (e *environment) get(name string) string {
	if i, ok := e.at[name]; ok {
		return e.list[i][len(name)+1:]
	}
	return ""
}

// gridEngineNames are the variables in which Grid Engine describes a job and where it runs
// (sge_submit(1), sge_pe(5), queue_conf(5)). Procedures rely on them, so they come from the daemon
// or are absent.
var gridEngineNames = []string{
	"ARC", "ENVIRONMENT", "HOSTNAME", "JOB_ID", "JOB_NAME", "JOB_SCRIPT", "NHOSTS", "NQUEUES", "NSLOTS", "PE", "PE_HOSTFILE",
	"QUEUE", "REQNAME", "REQUEST", "RESTARTED", "SGE_ACCOUNT", "SGE_ARCH", "SGE_BINARY_PATH", "SGE_BINDING", "SGE_CELL",
	"SGE_CKPT_DIR", "SGE_CKPT_ENV", "SGE_EXECD_PORT", exitStatusVariable, "SGE_JOB_SPOOL_DIR", "SGE_NOTIFY_KILL_SIGNAL",
	"SGE_NOTIFY_SUSP_SIGNAL", "SGE_QMASTER_PORT", "SGE_ROOT", "SGE_RSH_COMMAND", "SGE_STARTER_SHELL_PATH",
	"SGE_STARTER_SHELL_START_MODE", "SGE_STARTER_USE_LOGIN_SHELL", "SGE_TASK_FIRST", "SGE_TASK_ID", "SGE_TASK_LAST",
	"SGE_TASK_STEPSIZE", "TZ",
}

// startup are the variables, as names or as prefixes with a star, that make the loader, a shell or
// an interpreter run code or read files before the program begins, or that make a shell refuse
// valid scripts. No site procedure gets them from a user, not even one that runs as that user: its
// failure could put the queue into error state.
var startup = []string{
	"LD_*", "_RLD_*", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
	"MALLOC_*", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR", "IFS", "SHELLOPTS",
	"BASHOPTS", "BASH_*", "PS4", "ENV", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "FPATH", "FUNCNEST", "OPTIND", "TMOUT",
	"POSIXLY_CORRECT", "POSIX_PEDANTIC", "PATH_LOCALE", "TERMINFO*", "TERMPATH", "TERMCAP", "KRB5_CONFIG", "KRB5_KTNAME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "PERL5*",
	"PERLLIB", "PYTHON*", "RUBY*", "NODE_*", "TCLLIBPATH", "ZDOTDIR",
}

func isStartup(name string) bool { return matchesAny(startup, name) }

// matchesAny reports whether a list contains a name, or a prefix of it that ends with a star.
func matchesAny(list []string, name string) bool {
	for _, s := range list {
		if prefix, star := strings.CutSuffix(s, "*"); name == s || star && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// procedureEnvironment returns the environment of a site procedure. Grid Engine's variables have
// the values in trusted, and are absent if they are not in it: a value from the job's environment
// could make the procedure execute files of the user.
//
// A procedure that runs as the owner of the job also gets the rest of the job's environment
// (queue_conf(5), prolog), except PATH and the variables in startup. One that runs as another user
// gets the user's variables with the prefix SGE_JOB_ENV_ only, and at most userRoom bytes of them:
// variables that do not fit are left out.
func procedureEnvironment(jobEnv, trusted *environment, as *userdb.User, d *job.Description) *environment {
	if as.Name == d.Owner {
		own := jobEnv.without(func(name string) bool { return isStartup(name) || slices.Contains(gridEngineNames, name) })
		e := newEnvironment(own.list, trusted.list)
		e.set("PATH", procedurePath)
		return e
	}
	e := newEnvironment(trusted.list)
	e.set("PATH", procedurePath)
	e.set("HOME", as.Home)
	e.set("SHELL", as.Shell)
	// The name comes from the password database, not from a variable.
	e.set("USER", d.Owner)
	e.set("LOGNAME", d.Owner)
	room := userRoom
	for _, s := range jobEnv.list {
		const overhead = len(userPrefix) + 1 + 8 // the NUL and the pointer
		if name, value, _ := strings.Cut(s, "="); !e.has(name) && len(s)+overhead <= room {
			room -= len(s) + overhead
			e.set(userPrefix+name, value)
		}
	}
	return e
}

// methodEnvironment returns the environment of a command that acts on the job as its owner
// (queue_conf(5), suspend_method; checkpoint(5)): that of the job, including PATH. Its failure has
// no consequence for the queue, so the job's own values are allowed where trusted has none.
func methodEnvironment(jobEnv, trusted *environment) *environment {
	return newEnvironment(jobEnv.list, trusted.list)
}

// without returns the environment without the variables whose names drop selects.
func (e *environment) without(drop func(name string) bool) *environment {
	kept := newEnvironment()
	for _, s := range e.list {
		if name, _, _ := strings.Cut(s, "="); !drop(name) {
			kept.put(name, s)
		}
	}
	return kept
}

// change applies the differences between two versions of a list of variables to an environment that
// was made from the first version and extended since. It returns how many variables it has changed.
func (e *environment) change(before, after []string) (changed int) {
	old, list := newEnvironment(before), newEnvironment(after)
	for _, s := range list.list {
		if name, value, _ := strings.Cut(s, "="); !old.has(name) || old.get(name) != value {
			e.put(name, s)
			changed++
		}
	}
	for _, s := range old.list {
		if name, _, _ := strings.Cut(s, "="); !list.has(name) {
			e.unset(name)
			changed++
		}
	}
	return changed
}

func (e *environment) has(name string) bool {
	_, ok := e.at[name]
	return ok
}
