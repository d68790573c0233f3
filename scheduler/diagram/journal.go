package diagram

import "fmt"

// Journal remembers what was booked in which diagrams, so that what was tried can be
// taken back. The zero Journal is empty.
type Journal struct {
	entries []entry
}

type entry struct {
	diagram *Diagram
	booking Booking
}

// Mark is a place in a journal: all that was booked until now.
type Mark int

// Mark is the present end of the journal.
func (j *Journal) Mark() Mark { return Mark(len(j.entries)) }

// Add books in a diagram. What has failed is not booked: see Diagram.Add.
func (j *Journal) Add(d *Diagram, b Booking) error {
	if err := d.Add(b); err != nil {
		return err
	}
	j.entries = append(j.entries, entry{d, b})
	return nil
}

// Undo takes back all that was booked since a mark, the last first. The diagrams are
// what they were then, and there is no error, if they were changed by this journal
// only.
func (j *Journal) Undo(to Mark) error {
	for len(j.entries) > int(to) {
		last := len(j.entries) - 1
		e := j.entries[last]
		if err := e.diagram.Remove(e.booking); err != nil {
			return fmt.Errorf("cannot take back a booking from a diagram that was changed meanwhile: %w", err)
		}
		j.entries = j.entries[:last]
	}
	return nil
}

// Keep forgets how to take back what was booked. Marks that were taken before are
// no longer of use.
func (j *Journal) Keep() {
	clear(j.entries)
	j.entries = j.entries[:0]
}
