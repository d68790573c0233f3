package job

import (
	"strconv"
	"strings"
	"syscall"
)

// signals lists the signals that Grid Engine supports, with the names of its configuration files
// (queue_conf(5), sge_ckpt(1)) without SIG.
var signals = []struct {
	name string
	sig  syscall.Signal
}{
	{"HUP", syscall.SIGHUP},
	{"INT", syscall.SIGINT},
	{"QUIT", syscall.SIGQUIT},
	{"ILL", syscall.SIGILL},
	{"TRAP", syscall.SIGTRAP},
	{"ABRT", syscall.SIGABRT},
	{"BUS", syscall.SIGBUS},
	{"FPE", syscall.SIGFPE},
	{"KILL", syscall.SIGKILL},
	{"USR1", syscall.SIGUSR1},
	{"SEGV", syscall.SIGSEGV},
	{"USR2", syscall.SIGUSR2},
	{"PIPE", syscall.SIGPIPE},
	{"ALRM", syscall.SIGALRM},
	{"TERM", syscall.SIGTERM},
	{"STKFLT", syscall.SIGSTKFLT},
	{"CHLD", syscall.SIGCHLD},
	{"CONT", syscall.SIGCONT},
	{"STOP", syscall.SIGSTOP},
	{"TSTP", syscall.SIGTSTP},
	{"TTIN", syscall.SIGTTIN},
	{"TTOU", syscall.SIGTTOU},
	{"URG", syscall.SIGURG},
	{"XCPU", syscall.SIGXCPU},
	{"XFSZ", syscall.SIGXFSZ},
	{"VTALRM", syscall.SIGVTALRM},
	{"PROF", syscall.SIGPROF},
	{"WINCH", syscall.SIGWINCH},
	{"IO", syscall.SIGIO},
	{"PWR", syscall.SIGPWR},
	{"SYS", syscall.SIGSYS},
	// Other systems' names for the same signals.
	{"IOT", syscall.SIGIOT},
	{"CLD", syscall.SIGCLD},
	{"POLL", syscall.SIGPOLL},
}

// maxSignal is the largest signal number of Linux (SIGRTMAX).
const maxSignal = 64

// ParseSignal reads a signal in the notation of queue_conf(5): a positive number, or a name of kill
// -l with or without SIG, in upper or lower case. It reports false for anything else.
func ParseSignal(s string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n), n > 0 && n <= maxSignal
	}
	const prefix = "SIG"
	if len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		s = s[len(prefix):]
	}
	for _, e := range signals {
		if strings.EqualFold(e.name, s) {
			return e.sig, true
		}
	}
	return 0, false
}

// SignalName returns the name of a signal without SIG, or its number.
func SignalName(sig syscall.Signal) string {
	for _, e := range signals {
		if e.sig == sig {
			return e.name
		}
	}
	return strconv.Itoa(int(sig))
}
