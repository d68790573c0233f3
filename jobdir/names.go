package jobdir

import (
	"strconv"

	"github.com/execd-project/execd/job"
)

// The files of a job directory. Those without a remark have the original's
// format and meaning.
const (
	FileConfig      = "config"       // the description; written last, a directory without it is unfinished
	FileEnvironment = "environment"  // the environment of the job
	FileArguments   = "arguments"    // ours: the arguments, byte for byte
	FilePEHosts     = "pe_hostfile"  // who runs where
	FileCgroup      = "cgroup"       // ours: the control group of the job, as limits/group.Paths
	FileSignal      = "signal"       // the number of the signal to deliver
	FilePID         = "pid"          // of the shepherd
	FileJobPID      = "job_pid"      // of the first process of the job
	FileAddGroupID  = "addgrpid"     // exists once the job is really there
	FileTrace       = "trace"        // what the shepherd did
	FileError       = "error"        // what went wrong; the first line counts
	FileExitStatus  = "exit_status"  // of the shepherd; the first number counts
	FileUsage       = "usage"        // exists if the job itself was started
	FileOnline      = "usage_online" // ours: what the running job has used so far
	FileCheckpoint  = "checkpointed" // exists: the job is to migrate
	FileNoResources = "noresources"  // exists: the job is to be scheduled again
	FileAboutToExit = "shepherd_about_to_exit"
	FileTerminal    = "terminal" // ours: the socket at which the supervisor hands out the terminal of the job
	FileStart       = "start"    // ours: what whoever ordered the start wants to know of it later
)

// DirName returns the name of the directory of a job below active_jobs:
// "job.task", and for a task of a parallel job its own directory in that.
func DirName(id job.ID) string {
	name := strconv.Itoa(id.Job) + "." + strconv.Itoa(id.TaskDir())
	if id.PETask != "" {
		name += "/" + id.PETask
	}
	return name
}

// TmpdirName returns the name of the TMPDIR of a job below the tmpdir of its queue.
func TmpdirName(id job.ID, queue string) string {
	return strconv.Itoa(id.Job) + "." + strconv.Itoa(id.TaskDir()) + "." + queue
}
