package cell

// Finished is a job that has left (qstat(1), -s z). A restart of the master forgets finished jobs.
type Finished struct {
	*Job
	Left   int64  // time at which it left
	Ran    bool   // at least one task ran
	Ending Ending // end of the task that was explained last; zero for none
	// Priority and NormalizedTickets are those of the pending job in the last scheduling run before
	// it left; 0 for a job that was not pending.
	Priority, NormalizedTickets float64
}

// Ending is the end of a task, or of an attempt, with an explanation: an exceeded limit, a failure,
// a signal.
type Ending struct {
	At   int64  // seconds since 1970
	Task uint32 // 1 for a job that is not an array
	Text string
}

// LastEnding returns the most recent end of a task of the job that has an explanation.
func (j *Job) LastEnding() (Ending, bool) {
	if j.ending == nil {
		return Ending{}, false
	}
	return *j.ending, true
}

// noteEnd records the end of a task and its explanation.
func (c *Cell) noteEnd(t *Task, e End) {
	j, text := t.Job, e.Reason
	if t.Deleted {
		text = "it was deleted"
	}
	if j.ran && text == "" {
		return
	}
	if j.ran = true; text != "" {
		j.ending = &Ending{c.now, t.Number, text}
	}
	c.touchJob(j, jobState)
}

// Finished returns the last finished jobs, up to finished_jobs of sge_conf(5), in the order in
// which they left.
func (c *Cell) Finished() []Finished {
	n := c.cluster.Global().FinishedJobs
	return c.finished[max(0, len(c.finished)-n):]
}

// keepFinished stores a job that leaves for Finished.
func (c *Cell) keepFinished(now int64, j *Job) {
	most := c.cluster.Global().FinishedJobs
	if most <= 0 {
		c.finished = nil
		return
	}
	f := Finished{Job: j, Left: now, Ran: j.ran}
	f.Ending, _ = j.LastEnding()
	if c.decisions != nil {
		p, _ := c.decisions.Of(&j.sched)
		f.Priority, f.NormalizedTickets = p.Priority, p.NormalizedTickets
	}
	r := *j.Request()
	// These fields are the largest, and no command shows them for a finished job.
	r.Script, r.Env, r.Args, r.Context = nil, nil, nil, nil
	j.asked, j.own = &r, nil
	c.shareAmong(c.finishedCommons, j) // those of the others may have an environment
	// The oldest entries are removed in batches.
	if c.finished = append(c.finished, f); len(c.finished) > 2*most {
		c.finished = append([]Finished(nil), c.finished[len(c.finished)-most:]...)
	}
}
