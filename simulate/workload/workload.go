package workload

import "github.com/execd-project/execd/submit"

// Endless is the run time of a job that only a limit ends.
const Endless = -1

// MaxTime is the maximum submission time and run time, in seconds: more than thirty thousand years.
const MaxTime = 1 << 40

// Job is a job of a simulation.
type Job struct {
	Line   int   // line in its file
	Number int64 // number in a trace; 0 in a file of jobs
	Submit int64 // seconds since the start of the simulation
	Run    int64 // seconds from the start of the job, or of each of its tasks, to its end; or Endless
	User   string
	Group  string // the user's primary group; empty if unknown
	// Request is the request of the job. Jobs of a trace with the same request share it, so it must
	// not be changed.
	Request *submit.Request
}
