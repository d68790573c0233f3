// Sge_shepherd-go supervises one job: it runs prolog, PE start, the job, PE
// stop and epilog from the job directory that it is started in, and records
// there what happened. See sge_shepherd-go(8).
package main

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/starter"
)

func main() { syscall.Exit(run()) }

// run supervises the job of the working directory and returns the exit status of the process.
func run() int {
	self, err := starter.Listen()
	if err != nil {
		return giveUp(err)
	}
	dir, err := jobdir.OpenDir(".")
	if err != nil {
		return giveUp(err)
	}
	return int(starter.Start(dir, userdb.System(), self))
}

// giveUp reports an error before there is a job directory for it. A real execd then only gets the
// exit code.
func giveUp(err error) int {
	_, _ = unix.Write(unix.Stderr, []byte("sge_shepherd-go: "+err.Error()+"\n"))
	return int(job.FailedBeforeProlog)
}
