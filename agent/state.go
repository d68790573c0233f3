package agent

import (
	"slices"

	"github.com/execd-project/execd/agent/protocol"
)

// State is the state of a job on this host.
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
// The files at each state, with which the next agent continues after this one was killed:
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
