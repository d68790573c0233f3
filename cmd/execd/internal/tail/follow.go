package tail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/wait"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/standalone/api"
)

const (
	// readPeriod is the pause between two looks at the output files. A change of a file on NFS by another
	// host would not wake a watch.
	readPeriod = 250 * time.Millisecond
	// askPeriod is the pause between two requests for the running tasks of an array job.
	askPeriod = 2 * time.Second
	// missPeriod is the pause between two checks whether the wanted task has finished. The daemon reports
	// finished tasks by itself, but not a task that finished just before the report began.
	missPeriod = 30 * time.Second
	// turn is the number of bytes that are printed of one file before the next file has its turn.
	turn = 256 << 10
)

// follower follows the output of a job.
type follower struct {
	request
	out   *outputPrinter
	errs  io.Writer
	alive []qstat.Range      // tasks of the job that had not finished at the first look
	tasks bool               // each task has a file of its own; otherwise the only file is that of request.task
	files []qstat.OutputFile // of the job
	open  map[int]*followed  // by task
	done  map[int]bool       // tasks that have finished, or whose file cannot be read
	bad   bool               // some file cannot be read
}

// followed is an output file.
type followed struct {
	path string
	file *os.File // nil as long as there is none
	at   int64    // number of bytes that were printed
	last bool     // begin with the last lines, not with the whole file
}

// follow shows the output of a job that the daemon knows, until the job has finished.
func (c *Command) follow(ctx context.Context, session *qclient.Session, q request, p *outputPrinter, d *qstat.JobDetail) (int, error) {
	if _, err := q.file(d.OutputFiles, q.task); err != nil {
		return ExitFailed, err
	}
	f := &follower{
		request: q, out: p, errs: c.Stderr, tasks: q.perTask(d), files: d.OutputFiles,
		open: map[int]*followed{}, done: map[int]bool{},
	}
	if p.headers = f.tasks; f.tasks {
		var err error
		switch f.alive, err = unfinished(ctx, session, q.job); {
		case err != nil:
			return ExitFailed, err
		case len(f.alive) == 0: // the job has just finished
			return c.finished(ctx, session, q, p, true)
		}
		// Ask for the running tasks again, so that no task ends unnoticed between the two answers.
		switch now, err := look(ctx, session, q.job); {
		case err != nil:
			return ExitFailed, err
		case now != nil:
			d = now
		}
		for _, task := range running(d) {
			f.add(task, true)
		}
	} else {
		f.add(q.task, true)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan api.End)
	type left struct {
		known bool
		err   error
	}
	gone := make(chan left, 1)
	go func() {
		user := qclient.Command{Name: "execd tail", Stderr: c.Stderr}
		known, err := user.FollowEnds(ctx, uint32(q.job), func(e api.End) {
			select {
			case ends <- e:
			case <-ctx.Done():
			}
		})
		gone <- left{known, err}
	}()
	read, ask, miss := time.NewTicker(readPeriod), time.NewTicker(askPeriod), time.NewTicker(missPeriod)
	defer read.Stop()
	defer ask.Stop()
	defer miss.Stop()
	told := map[int]*accounting.Record{} // for a daemon that keeps no records
	atOnce := make(chan time.Time)
	close(atOnce)
	for {
		more, err := f.print(ctx)
		if err != nil {
			return ExitFailed, err
		}
		next := read.C
		if more {
			next = atOnce
		}
		select {
		case <-ctx.Done():
			return ExitInterrupted, nil
		case <-next:
		case <-ask.C:
			// A daemon that is being restarted does not answer; FollowEnds waits for it.
			if d, err := look(ctx, session, q.job); err == nil && d != nil {
				f.files = d.OutputFiles
				for _, task := range running(d) {
					if f.tasks {
						f.add(task, false)
					}
				}
			}
		case <-miss.C:
			if there, err := present(ctx, session, q); err == nil && !there {
				return c.leave(ctx, session, f, nil, true)
			}
		case e := <-ends:
			r := record(e)
			told[r.Task] = r
			if q.task > 0 && r.Task == q.task {
				return c.leave(ctx, session, f, []*accounting.Record{r}, true)
			}
			if err := f.ended(ctx, r.Task); err != nil {
				return ExitFailed, err
			}
		case l := <-gone:
			switch {
			case ctx.Err() != nil:
				return ExitInterrupted, nil
			case l.err != nil:
				return ExitFailed, l.err
			}
			return c.leave(ctx, session, f, slices.Collect(maps.Values(told)), l.known)
		}
	}
}

// leave prints what remains of all files, and returns the exit status. That comes from the accounting records or,
// if there are none, from told, which holds what the daemon has reported.
func (c *Command) leave(ctx context.Context, session *qclient.Session, f *follower, told []*accounting.Record, known bool) (int, error) {
	for _, task := range slices.Sorted(maps.Keys(f.open)) {
		if err := f.finish(ctx, task); err != nil {
			return ExitFailed, err
		}
	}
	if ctx.Err() != nil {
		return ExitInterrupted, nil //nolint:nilerr // the user knows why
	}
	status := func(ends []*accounting.Record) int {
		s := c.status(f.request, ends, known)
		if f.bad && s == ExitGood {
			return ExitFailed
		}
		return s
	}
	if f.task > 0 && len(told) == 1 {
		return status(told), nil
	}
	name, err := session.Places(ctx)
	if err != nil {
		return ExitFailed, err
	}
	ends, err := wait.Ends(ctx, name, f.job)
	switch {
	case ctx.Err() != nil:
		return ExitInterrupted, nil //nolint:nilerr // the user knows why
	case err != nil:
		return ExitFailed, err
	}
	if ends = chosen(ends, f.task); len(ends) == 0 {
		slices.SortFunc(told, func(a, b *accounting.Record) int { return a.Task - b.Task })
		ends = told
	}
	return status(ends), nil
}

// add begins to follow a task, unless it has finished. With last, it prints only the last lines of the present file.
func (f *follower) add(task int, last bool) {
	if f.open[task] != nil || f.done[task] {
		return
	}
	if path, err := f.file(f.files, task); err == nil {
		f.open[task] = &followed{path: path, last: last}
	}
}

// ended prints what remains of the output of a finished task. The daemon also reports tasks that had finished
// before the first look; their output is not shown.
func (f *follower) ended(ctx context.Context, task int) error {
	if !f.tasks || f.done[task] {
		return nil
	}
	if f.open[task] == nil && contains(f.alive, task) {
		f.add(task, false)
	}
	f.done[task] = true
	if f.open[task] == nil {
		return nil
	}
	return f.finish(ctx, task)
}

// finish prints the remaining part of a file, up to its current size, and stops following it. Other processes
// could otherwise extend the file without end. If ctx ends, finish prints less.
func (f *follower) finish(ctx context.Context, task int) error {
	o := f.open[task]
	delete(f.open, task)
	defer o.close()
	size, err := f.look(task, o)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = f.turn(task, o, size)
	}
	if err := f.keep(task, err); err != nil {
		return err
	}
	return f.out.flush(task)
}

// print prints the new parts of all files. more reports whether there are further new parts.
func (f *follower) print(ctx context.Context) (more bool, err error) {
	for _, task := range slices.Sorted(maps.Keys(f.open)) {
		if ctx.Err() != nil {
			return false, nil //nolint:nilerr // the caller sees it too
		}
		o := f.open[task]
		size, err := f.look(task, o)
		m := false
		if err == nil {
			m, err = f.turn(task, o, size)
		}
		if err != nil {
			if err := f.keep(task, err); err != nil {
				return false, err
			}
			o.close()
			delete(f.open, task)
			f.done[task] = true
			if err := f.out.flush(task); err != nil {
				return false, err
			}
		}
		more = more || m
	}
	return more, nil
}

// fileError means that an output file cannot be read.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// keep returns an error that ends the command. An unreadable file of one task does not end the command:
// keep prints the error, and the command follows the other tasks.
func (f *follower) keep(task int, err error) error {
	if _, ok := errors.AsType[*fileError](err); !ok || !f.tasks {
		return err
	}
	f.bad = true
	printer.Fprintf(f.errs, "execd tail: the output of task %d is not shown: %v\n", task, err)
	return nil
}

// look opens a file if it exists by now, and returns its size, or 0 if there is no file. It opens a file again
// that was replaced, and reads one from the beginning that was emptied. The error is a *fileError, or that of
// printing.
func (f *follower) look(task int, o *followed) (size int64, err error) {
	there, err := os.Stat(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.file == nil:
		return 0, nil
	case o.file != nil && err == nil:
		if now, err := o.file.Stat(); err == nil && !os.SameFile(there, now) && o.at >= now.Size() {
			o.close()
		}
	}
	var text []byte
	if o.file == nil {
		if o.file, err = userfile.Open(o.path, 0); errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		} else if err != nil {
			return 0, &fileError{err}
		}
		if o.last {
			if text, o.at, err = f.out.lastLines(o.file); err != nil {
				return 0, &fileError{err}
			}
		}
		o.last = false
	}
	info, err := o.file.Stat()
	if err != nil {
		return 0, &fileError{err}
	}
	if info.Size() < o.at {
		o.at = 0
	}
	return info.Size(), f.out.write(task, text)
}

// turn prints a piece of the new part of a file, up to a size. more reports whether the new part goes on.
func (f *follower) turn(task int, o *followed, size int64) (more bool, err error) {
	n := min(size-o.at, turn)
	if n <= 0 {
		return false, nil
	}
	text := make([]byte, n)
	read, err := o.file.ReadAt(text, o.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, &fileError{err}
	}
	o.at += int64(read)
	return err == nil && o.at < size, f.out.write(task, text[:read])
}

func (o *followed) close() {
	if o.file != nil {
		_ = o.file.Close()
		o.file, o.at = nil, 0
	}
}
