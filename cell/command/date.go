package command

import (
	"time"

	"github.com/execd-project/execd/submit"
)

// inCellZone returns a request with the dates of -a and -dl in the time zone of the cell. The user
// has typed them in their own (TZ), as with the original, and the cell keeps requests: qresub reads
// them again, possibly for another user.
func (x *call) inCellZone(r *submit.Request) *submit.Request {
	changed := *r
	changed.Start, changed.Deadline = x.date(r.Start), x.date(r.Deadline)
	return &changed
}

// date converts a date from the time zone of the user to that of the cell.
func (x *call) date(d submit.DateTime) submit.DateTime {
	if d.IsZero() || x.zone == x.cell.Zone() {
		return d
	}
	t := d.Time(time.Unix(x.now, 0).In(x.zone)).In(x.cell.Zone())
	return submit.DateTime{
		Year: t.Year(), Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(), Second: t.Second(),
	}
}
