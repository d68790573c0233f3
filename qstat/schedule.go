package qstat

import "strconv"

// ScheduleEntry is a line of the file schedule (sge_schedule(5)): what a task uses of
// a resource, and when.
type ScheduleEntry struct {
	Job    int    `json:"job"`
	Task   int    `json:"task"`   // 1 for a job that is no array
	Reason string `json:"reason"` // RUNNING, SUSPENDED, MIGRATING, STARTING or RESERVING
	Start  int64  `json:"start"`  // seconds since the epoch
	// Duration is in seconds. The manual page speaks of the end.
	Duration int64   `json:"duration"`
	Level    string  `json:"level"` // P, G, H or Q
	Object   string  `json:"object"`
	Resource string  `json:"resource"`
	Amount   float64 `json:"amount"`
}

// AppendSchedule appends what one scheduling run writes to the file.
func AppendSchedule(dst []byte, entries []ScheduleEntry) []byte {
	dst = append(dst, "::::::::\n"...)
	for i := range entries {
		e := &entries[i]
		dst = append(strconv.AppendInt(dst, int64(e.Job), 10), ':')
		dst = append(strconv.AppendInt(dst, int64(e.Task), 10), ':')
		dst = append(append(dst, e.Reason...), ':')
		dst = append(strconv.AppendInt(dst, e.Start, 10), ':')
		dst = append(strconv.AppendInt(dst, e.Duration, 10), ':')
		dst = append(append(dst, e.Level...), ':')
		dst = append(append(dst, e.Object...), ':')
		dst = append(append(dst, e.Resource...), ':')
		dst = append(appendFixed(dst, e.Amount, 0, 6), '\n')
	}
	return dst
}
