package cell

import (
	"github.com/execd-project/execd/scheduler"
)

// reservations are the advance reservations of the cell.
type reservations struct{}

func (r *reservations) statusChanged(*Cell, scheduler.InstanceID) {}

func (c *Cell) reservationDue(uint32) {}

// reservationUsable reports whether jobs may start now in the reservation that a job
// asks for.
func (c *Cell) reservationUsable(j *Job) bool { return j.Request.Reservation == 0 }

func (c *Cell) checkReservation(_ Caller, j *Job) error {
	if id := j.Request.Reservation; id != 0 {
		return denied("the advance reservation id %d is invalid", id)
	}
	return nil
}
