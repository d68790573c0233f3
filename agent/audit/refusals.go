package audit

import "time"

// A user can be refused as often as he likes. So that nobody fills the disk with that, each user
// has this many records of refusals within a time; the next one behind them says how many were
// left out.
const (
	mostRefusals   = 60
	refusalsPeriod = time.Minute
)

// refusals are those of one user.
type refusals struct {
	since   time.Time
	count   int
	omitted int
}

// Refuse adds the record of a call that was refused, or counts it where there are too many of the
// same user at the time now.
func (l *Log) Refuse(r *Record, now time.Time) {
	if l == nil {
		return
	}
	if r.Caller.UID != nil && *r.Caller.UID != 0 {
		l.mu.Lock()
		u := l.users[*r.Caller.UID]
		if u == nil {
			u = &refusals{since: now}
			l.users[*r.Caller.UID] = u
		}
		if age := now.Sub(u.since); age >= refusalsPeriod || age < 0 {
			u.since, u.count = now, 0
		}
		u.count++
		omit := u.count > mostRefusals
		if omit {
			u.omitted++
		} else {
			r.Omitted, u.omitted = u.omitted, 0
		}
		l.mu.Unlock()
		if omit {
			return
		}
	}
	_ = l.Add(r, false)
}
