package cell

// predecessors are the jobs that a job depends on. Both lists are ascending.
type predecessors struct {
	jobs  []uint32 // must leave first (qsub(1), -hold_jid)
	tasks []uint32 // each task depends on the task with the same number there (-hold_jid_ad)
}

// dependencies records the successors of jobs: the jobs that depend on them. It is the reverse of
// Job.predecessors. An entry is removed with its last successor, or when the predecessor leaves.
type dependencies struct {
	jobs, tasks map[uint32][]uint32 // by the number of the predecessor, ascending
}

func newDependencies() dependencies {
	return dependencies{jobs: map[uint32][]uint32{}, tasks: map[uint32][]uint32{}}
}

// add records that a job depends on its predecessors.
func (d *dependencies) add(id uint32, p predecessors) {
	for _, before := range p.jobs {
		d.jobs[before] = sortedInsert(d.jobs[before], id)
	}
	for _, before := range p.tasks {
		d.tasks[before] = sortedInsert(d.tasks[before], id)
	}
}

// remove reverts add.
func (d *dependencies) remove(id uint32, p predecessors) {
	removeSuccessor(d.jobs, p.jobs, id)
	removeSuccessor(d.tasks, p.tasks, id)
}

func removeSuccessor(successors map[uint32][]uint32, predecessors []uint32, id uint32) {
	for _, before := range predecessors {
		if successors[before] = sortedRemove(successors[before], id); len(successors[before]) == 0 {
			delete(successors, before)
		}
	}
}

// leave removes a job that leaves the cell. It returns the jobs that depended on the job, and those
// that depended on its tasks.
func (d *dependencies) leave(id uint32, p predecessors) (jobs, tasks []uint32) {
	d.remove(id, p)
	jobs, tasks = d.jobs[id], d.tasks[id]
	delete(d.jobs, id)
	delete(d.tasks, id)
	return jobs, tasks
}

// size returns the number of jobs that others depend on.
func (d *dependencies) size() int { return len(d.jobs) + len(d.tasks) }
