package jobdir

import (
	"strconv"

	"github.com/execd-project/execd/job"
)

// The files of a job directory. Files without the remark "own" have the original's format and
// meaning.
const (
	FileConfig      = "config"       // the description; written last, a directory without it is unfinished
	FileEnvironment = "environment"  // the environment of the job
	FileArguments   = "arguments"    // own: the arguments, byte for byte
	FilePEHosts     = "pe_hostfile"  // the slots of the job on each host
	FileCgroup      = "cgroup"       // own: the control group of the job, as limits/group.Paths
	FileSignal      = "signal"       // the number of the signal to deliver
	FilePID         = "pid"          // of the shepherd
	FileJobPID      = "job_pid"      // of the first process of the job
	FileAddGroupID  = "addgrpid"     // additional group ID; execd takes the file as the sign that the job exists
	FileTrace       = "trace"        // what the shepherd did
	FileError       = "error"        // what went wrong; the first line counts
	FileExitStatus  = "exit_status"  // of the shepherd; the first number counts
	FileUsage       = "usage"        // exists if the job itself was started
	FileOnline      = "usage_online" // own: the usage of the running job so far
	FileCheckpoint  = "checkpointed" // exists if the job is to migrate
	FileNoResources = "noresources"  // exists if the job is to be rescheduled
	FileTerminal    = "terminal"     // own: the socket at which the supervisor passes on the terminal of the job
	FilePrivateTmp  = "private_tmp"  // own: the directory behind the job's own /tmp, as the record of a TMPDIR
	FileScratch     = "scratch"      // own: the directory with the file system of the TMPDIR, as the record of a TMPDIR
	FileStart       = "start"        // own: data of the program that ordered the start, for later use
)

// DirName returns the name of a job's directory below active_jobs: "job.task". A task of a parallel
// job has its own directory below that.
func DirName(id job.ID) string {
	name := strconv.Itoa(id.Job) + "." + strconv.Itoa(id.TaskDir())
	if id.PETask != "" {
		name += "/" + id.PETask
	}
	return name
}

// TmpdirName returns the name of a job's TMPDIR below the tmpdir of its queue.
func TmpdirName(id job.ID, queue string) string {
	return strconv.Itoa(id.Job) + "." + strconv.Itoa(id.TaskDir()) + "." + queue
}
