package scheduler

// Reservation is an advance reservation (qrsub(1)): places that are kept for the jobs
// of some users for a time.
type Reservation struct {
	ID         uint32
	Start, End int64
	Category   *Category // what was requested for it
	PE         PEID      // None for serial slots
	Grants     []Grant
	Failed     bool // a queue instance of it cannot be used (state E)
}

func (s *State) reservation(id uint32) *Reservation {
	for _, ar := range s.reservations {
		if ar.ID == id {
			return ar
		}
	}
	return nil
}

func (s *State) bookInReservation(ar *Reservation, c *Category, grants []Grant, sign int) error {
	return nil
}

func (r *run) assignReserved(j *Job) (Start, bool) { return Start{}, false }
func (r *run) explainReserved(j *Job)              {}
