package agent

import (
	"slices"

	"github.com/execd-project/execd/agent/protocol"
)

// State is the state of a job on this host.
//
//	         refused: the agent keeps nothing of it
//	           ^
//	           |
//	received --+--> accepted ----> starting ----> running <---> suspended
//	                    |              |             |              |
//	                    |              |  (a job that is to be ended)
//	                    |              v             v              |
//	                    |            ending <-----------------------+
//	                    |              |
//	                    v              v
//	                  ended  <---------+   the supervisor has ended, its files were read
//	                    |
//	                    v
//	                 reported              a master has got the report of the end
//	                    |
//	                    v
//	               acknowledged            the master has saved it: the agent removes the job
//
// The files at each state, with which the next agent continues after this one was killed:
//
//	received      nothing: a master without an answer repeats the start
//	accepted      the job directory, complete, with its file "start"
//	starting      the same, locked by the supervisor
//	running       addgrpid and job_pid, written by the supervisor; the file "client" of
//	              an interactive job to which a client is expected to come back
//	suspended     the file "suspended": the reasons of the suspension, and the last orders
//	ending        the file "ending": the order that ends the job
//	ended         the file "ended": the outcome of the job, and the number of the report;
//	              "told" once the accounting record is written
//	reported      nothing more: the agent repeats a report that was not acknowledged
//	acknowledged  the file "acknowledged", until the directory is removed; the key of the
//	              start stays in the file "finished" of the spool area for a while, so that
//	              the agent recognises a late repetition of the start
//
// A slave job (Start.Slave) has no supervisor: it is running from its acceptance, so that tasks can
// be started in it, and ends on order. A simulated job (Record.Simulated) has none either, and ends
// by itself.
type State = protocol.State

// The states of a job, in their order.
const (
	Received     = protocol.Received
	Accepted     = protocol.Accepted
	Starting     = protocol.Starting
	Running      = protocol.Running
	Suspended    = protocol.Suspended
	Ending       = protocol.Ending
	Ended        = protocol.Ended
	Reported     = protocol.Reported
	Acknowledged = protocol.Acknowledged
)

// next says which states may follow each one.
var next = map[State][]State{
	Received:  {Accepted},
	Accepted:  {Starting, Running, Ending, Ended},
	Starting:  {Running, Ending, Ended},
	Running:   {Suspended, Ending, Ended},
	Suspended: {Running, Ending, Ended},
	Ending:    {Ended},
	Ended:     {Reported, Acknowledged},
	Reported:  {Acknowledged},
}

// mayFollow reports whether a job can change from one state to another.
func mayFollow(from, to State) bool { return slices.Contains(next[from], to) }
