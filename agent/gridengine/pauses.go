package gridengine

import "time"

// coalesce is the delay of an urgent report, so that several are sent together.
const coalesce = 20 * time.Millisecond

// startPause is the shortest time between two reports of starts. sge_qmaster stores a job again, and tells its
// scheduler, when it hears that the job runs. Many short jobs end during this pause: of them only the end is
// reported. The first start after a pause is reported at once. sge_execd sends at most one report per second.
const startPause = time.Second

// beginPatience is how long a job that has been accepted, and waits for others to begin, is not reported. sge_qmaster
// sends a job again after five minutes without a report.
const beginPatience = 5 * time.Second

// endPause is the shortest time between two reports of ends, while other jobs run: these may end, too. A report costs
// sge_qmaster 9.1 up to 20 ms of processor time besides that for its jobs. The first end after a pause is reported at
// once, and so are the last ones.
const endPause = 500 * time.Millisecond

// soon schedules a report after a short delay, or after endPause.
func (s *session) soon() {
	at := s.clock.Now().Add(coalesce)
	if due := s.endsSent.Add(endPause); due.After(at) && s.live() {
		at = due
	}
	s.by(at)
}

// live reports whether any job has not ended, so that there may be further ends to wait for.
func (s *session) live() bool {
	for _, j := range s.jobs {
		if !j.ended {
			return true
		}
	}
	return false
}

// by makes sure that the next report is sent at a time at the latest.
func (s *session) by(at time.Time) {
	if s.next.IsZero() || at.Before(s.next) {
		s.next = at
	}
}

// later makes sure that the next report is sent after a pause of d at the latest.
func (s *session) later(d time.Duration) { s.by(s.clock.Now().Add(d)) }

// startDue returns the time before which the start of a job is not reported; zero if it is to be reported at once.
func (s *session) startDue(j *jobState) time.Time {
	if !j.patient || j.ended || j.told {
		return time.Time{}
	}
	due := s.startsSent.Add(startPause)
	if wait := j.delivered.Add(beginPatience); !j.began && wait.After(due) {
		due = wait
	}
	return due
}
