package scheduler

func (r *run) assignParallel(j *Job, at span) (Start, bool) { return Start{}, false }
func (r *run) explainParallel(j *Job, at span)              {}
