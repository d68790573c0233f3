package message

import "syscall"

// JobSignal is a message with TagSignalJob or TagSignalQueue.
type JobSignal struct {
	Job, Task uint32 // 0 for a queue
	Queue     string // queue instance; empty for a job
	Signal    uint32 // as Grid Engine counts signals
}

// Signals as Grid Engine counts them.
const (
	SignalKill    uint32 = 910
	SignalStop    uint32 = 918
	SignalCont    uint32 = 920
	SignalUsr1    uint32 = 931
	SignalUsr2    uint32 = 932
	SignalMigrate uint32 = 933 // make a checkpoint and end
)

// signals are Grid Engine's numbers of signals, which are the same on all systems.
var signals = map[syscall.Signal]uint32{
	syscall.SIGHUP: 901, syscall.SIGINT: 902, syscall.SIGQUIT: 903, syscall.SIGILL: 904, syscall.SIGTRAP: 905,
	syscall.SIGABRT: 906, syscall.SIGFPE: 909, syscall.SIGKILL: SignalKill, syscall.SIGBUS: 911, syscall.SIGSEGV: 912,
	syscall.SIGSYS: 913, syscall.SIGPIPE: 914, syscall.SIGALRM: 915, syscall.SIGTERM: 916, syscall.SIGURG: 917,
	syscall.SIGSTOP: SignalStop, syscall.SIGTSTP: 919, syscall.SIGCONT: SignalCont, syscall.SIGCHLD: 921,
	syscall.SIGTTIN: 922, syscall.SIGTTOU: 923, syscall.SIGIO: 924, syscall.SIGXCPU: 925, syscall.SIGXFSZ: 926,
	syscall.SIGVTALRM: 927, syscall.SIGPROF: 928, syscall.SIGWINCH: 929, syscall.SIGUSR1: SignalUsr1, syscall.SIGUSR2: SignalUsr2,
}

// unknownSignal is Grid Engine's number for all other signals.
const unknownSignal = 10000

// SignalNumber returns Grid Engine's number of a signal of this system, and 0 for 0.
func SignalNumber(s syscall.Signal) uint32 {
	if s == 0 {
		return 0
	}
	if n, ok := signals[s]; ok {
		return n
	}
	return unknownSignal
}

// EncodeJobSignal packs a signal.
func (c *Codec) EncodeJobSignal(s *JobSignal) []byte {
	e := c.begin()
	e.Ulong(s.Job)
	e.Ulong(s.Task)
	e.String(s.Queue)
	e.Ulong(s.Signal)
	return e.Bytes()
}

// DecodeJobSignal reads a signal.
func (c *Codec) DecodeJobSignal(payload []byte) (*JobSignal, error) {
	d := c.open(payload)
	s := &JobSignal{d.Ulong(), d.Ulong(), d.String(), d.Ulong()}
	return s, within("signal", d.End())
}

// Tickets are the tickets that a job has got: a part of a message with TagChangeTicket.
type Tickets struct {
	Job, Task uint32
	Tickets   float64
}

// EncodeTickets packs the tickets of jobs.
func (c *Codec) EncodeTickets(list []Tickets) []byte {
	e := c.begin()
	for _, t := range list {
		e.Ulong(t.Job)
		e.Ulong(t.Task)
		e.Double(t.Tickets)
	}
	return e.Bytes()
}

// DecodeTickets reads the tickets of jobs.
func (c *Codec) DecodeTickets(payload []byte) ([]Tickets, error) {
	d := c.open(payload)
	var list []Tickets
	for d.Len() > 0 {
		list = append(list, Tickets{d.Ulong(), d.Ulong(), d.Double()})
	}
	return list, within("tickets", d.Err())
}
