package protocol

// State is the state of a job on its host. States are texts, and < and > do not compare them.
type State string

// The states, in their order.
const (
	Received     State = "received"     // the job is not on disk yet, and in no message
	Accepted     State = "accepted"     // the job is on disk and will run
	Starting     State = "starting"     // its supervisor has been started
	Running      State = "running"      //
	Suspended    State = "suspended"    // the suspensions that hold are the reasons
	Ending       State = "ending"       // the job was ordered to end
	Ended        State = "ended"        // its outcome is known
	Reported     State = "reported"     // the agent has sent the report to a master
	Acknowledged State = "acknowledged" // the master has confirmed the report; the agent keeps nothing of the job
)

// States returns all states, in their order.
func States() []State {
	return []State{Received, Accepted, Starting, Running, Suspended, Ending, Ended, Reported, Acknowledged}
}

// Live reports whether the job holds its slots: it has been accepted and its supervisor has not
// ended.
func (s State) Live() bool {
	return s == Accepted || s == Starting || s == Running || s == Suspended || s == Ending
}

// Over reports whether the job has finished.
func (s State) Over() bool { return s == Ended || s == Reported || s == Acknowledged }
