package qclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/execd-project/execd/accounting"
	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/api"
)

// recordedEnds returns the ends of the tasks of a job that was submitted at a time or later, from the
// accounting file. A daemon does not know the ends that an earlier one has seen, and accounting records
// are written before a job leaves. A job without records was deleted before it ran.
func recordedEnds(ctx context.Context, d *api.Client, number uint32, since time.Time) ([]api.End, error) {
	places, err := d.Places(ctx)
	if err != nil {
		return nil, Explain(err)
	}
	file, err := records.OpenRecent(string(places.Accounting))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the daemon writes no accounting file")
		}
		return nil, fmt.Errorf("the daemon was restarted, and the outcome of job %d is unknown: %w", number, err)
	}
	defer file.Close()
	return endsIn(ctx, file, number, since)
}

// endsIn returns the end of each task of a job, from the last record of the task. Records of a job
// that was submitted before since belong to another job with the same number. A run after which the
// task was pending again does not count as an end.
func endsIn(ctx context.Context, file io.Reader, number uint32, since time.Time) ([]api.End, error) {
	last := map[uint32]api.End{}
	err := records.Each(ctx, file, int(number), func(r *accounting.Record) error {
		// Job numbers repeat. The daemon may truncate the time to seconds.
		if r.PETask != "" || r.Submitted.Before(since.Truncate(time.Second)) {
			return nil
		}
		e := api.End{
			Task: uint32(r.Task), Ran: !r.Start.IsZero(), ExitStatus: r.ExitStatus, Signal: r.Signal, Failed: int(r.Failed), Reason: r.Reason, //nolint:gosec // a task number
		}
		// Classic lines have no signal (sge_status(5)).
		if e.Signal == 0 && r.Failed == job.FailedAfterJob && e.ExitStatus > signalStatus {
			e.Signal = e.ExitStatus - signalStatus
		}
		if last[e.Task] = e; r.Failed == job.FailedReschedule || r.Failed == job.FailedMigrate {
			delete(last, e.Task)
		}
		return nil
	}, func(int, error) {}) // qacct reports invalid lines
	return slices.Collect(maps.Values(last)), err
}

// signalStatus is added to the number of the signal that ended a job (sge_status(5)).
const signalStatus = 128

// unknown reports whether the daemon refused a call because it does not know the job.
func unknown(err error) bool {
	e, ok := errors.AsType[*agentapi.Error](err)
	return ok && e.Code == agentapi.NotFound
}
