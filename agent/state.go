package agent

import (
	"fmt"
	"slices"
)

// State is where a job stands on this host.
//
//	         refused: it never was here
//	           ^
//	           |
//	received --+--> accepted ----> starting ----> running <---> suspended
//	                    |              |             |              |
//	                    |              |  (a job that is to be ended)
//	                    |              v             v              |
//	                    |            ending <-----------------------+
//	                    |              |
//	                    v              v
//	                  ended  <---------+   the supervisor is gone, its files were read
//	                    |
//	                    v
//	                 reported              a master was told
//	                    |
//	                    v
//	               acknowledged            it knows: nothing of the job is kept
//
// What is kept on disk at each of them, from which an agent that was killed goes on:
//
//	received      nothing: a master that has no answer asks again
//	accepted      the job directory, complete, with its file "start"
//	starting      the same, locked by the supervisor
//	running       addgrpid and job_pid, written by the supervisor; the file "client" of
//	              an interactive job to which a client is expected to come back
//	suspended     the file "suspended": by whom, and which orders were the last ones
//	ending        the file "ending": that the job's end was ordered, and by what
//	ended         the file "ended": what became of the job, and the number of the report;
//	              "told" once the accounting has it
//	reported      nothing more: a report that was not acknowledged is repeated
//	acknowledged  the file "acknowledged", and then the directory is gone; its key stands
//	              in the file "finished" of the spool area for a while, so that a start
//	              that comes late is known
//
// A slave job (Start.Slave) has no supervisor: it is running from its acceptance on,
// for the tasks that are started in it, and ends when it is told to. Nor has one that is
// simulated (Record.Simulated), which ends by itself.
type State int

// The states of a job, in their order.
const (
	Received State = iota
	Accepted
	Starting
	Running
	Suspended
	Ending
	Ended
	Reported
	Acknowledged
)

var stateNames = [...]string{
	"received", "accepted", "starting", "running", "suspended", "ending", "ended", "reported", "acknowledged",
}

// String is the name of the state.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText and UnmarshalText are the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	for i, n := range stateNames {
		if n == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a state of a job, expected one of %q", text, stateNames)
}

// next says which states may follow each one.
var next = [...][]State{
	Received:  {Accepted},
	Accepted:  {Starting, Running, Ending, Ended},
	Starting:  {Running, Ending, Ended},
	Running:   {Suspended, Ending, Ended},
	Suspended: {Running, Ending, Ended},
	Ending:    {Ended},
	Ended:     {Reported, Acknowledged},
	Reported:  {Acknowledged},
}

// may reports whether a job in state s can come to state to.
func (s State) may(to State) bool {
	return int(s) < len(next) && slices.Contains(next[s], to)
}

// Live reports whether the job holds its slots: it has been accepted and its
// supervisor has not ended.
func (s State) Live() bool { return s >= Accepted && s < Ended }
