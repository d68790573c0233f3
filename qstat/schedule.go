package qstat

// ScheduleEntry is a line of the file schedule (sge_schedule(5)): the amount of a resource that a
// task uses, and the time.
type ScheduleEntry struct {
	Job    int    `json:"job"`
	Task   int    `json:"task"`   // 1 for a job that is not an array
	Reason string `json:"reason"` // RUNNING, SUSPENDED, MIGRATING, STARTING or RESERVING
	Start  int64  `json:"start"`  // seconds since the epoch
	// Duration is in seconds. The manual page speaks of the end.
	Duration int64   `json:"duration"`
	Level    string  `json:"level"` // P, G, H or Q
	Object   string  `json:"object"`
	Resource string  `json:"resource"`
	Amount   float64 `json:"amount"`
}

// AppendSchedule appends the lines of one scheduling run.
func AppendSchedule(dst []byte, entries []ScheduleEntry) []byte {
	p := page{dst}
	p.put("::::::::\n")
	for i := range entries {
		e := &entries[i]
		p.numbers([]int{e.Job, e.Task}, ":")
		p.put(":")
		p.value(e.Reason)
		p.put(":")
		p.number(e.Start)
		p.put(":")
		p.number(e.Duration)
		p.put(":")
		p.list([]string{e.Level, e.Object, e.Resource}, ":")
		p.put(":")
		p.fixed(e.Amount, 0, 6)
		p.end()
	}
	return p.text
}
