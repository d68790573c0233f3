package cell

import "fmt"

// Room says how many bytes the caller of Changes keeps of what users ask for. A job counts
// with its script, its request and what is kept of its tasks, an advance reservation with its
// request, each as long as it is in the cell.
type Room struct {
	// PerUser is the limit for the jobs and reservations of one user; 0 is none.
	PerUser int64
	// Free is what the file system has left, and Reserved is how much of that is not for what
	// is new.
	Free, Reserved int64
}

// The limits of a single job where there is a Room, in bytes.
const (
	// MaxScript is the largest script.
	MaxScript = 32 << 20
	// MaxRequest is the largest request as it is kept, without the script. The kernel starts
	// no program with more than 6 MiB of arguments and environment (execve(2)).
	MaxRequest = 16 << 20
)

// What a record takes that is not there yet, in bytes: where it stands, its key and what is
// in it of a job without peculiarities.
const (
	recordRoom = 64
	stateRoom  = 256
	taskRoom   = 256
)

// keeping counts what is kept.
type keeping struct {
	room  *Room            // nil for no limits
	users map[string]int64 // in bytes, by owner
	// scripts are how many jobs have a script that is kept beside the records: it counts once.
	scripts map[ownScript]int
	// unwritten is what Changes has not given out yet: Room.Free does not know of it.
	unwritten int64
}

// SetRoom sets the limits for what comes next; nil is none. They hold for a cell of which
// Changes is asked.
func (c *Cell) SetRoom(r *Room) { c.keeping.room = r }

// Kept returns how many bytes are kept of the jobs and reservations of a user.
func (c *Cell) Kept(user string) int64 { return c.keeping.users[user] }

// limited reports whether there are limits.
func (c *Cell) limited() bool { return c.keeping.room != nil && c.unsaved.on }

// keep notes that something of a user takes a number of bytes from now on. was is what it has
// taken so far.
func (c *Cell) keep(owner string, was *int64, size int64) {
	more := size - *was
	*was = size
	k := &c.keeping
	if k.users == nil {
		k.users = map[string]int64{}
	}
	if k.users[owner] += more; k.users[owner] == 0 {
		delete(k.users, owner)
	}
	k.unwritten += max(more, 0)
}

// checkRoom refuses what there is no room for: what is the thing that takes so many bytes
// more of a user.
func (c *Cell) checkRoom(prefix, what, owner string, more int64) error {
	if !c.limited() || more <= 0 {
		return nil
	}
	r, used := c.keeping.room, c.keeping.users[owner]
	if r.PerUser > 0 && used+more > r.PerUser {
		return denied("%s: %s needs %s in the spool directory, and of the %s that user %q may have there %s are in use",
			prefix, what, sizeText(more), sizeText(r.PerUser), owner, sizeText(used))
	}
	if free := r.Free - c.keeping.unwritten; more > free-r.Reserved {
		return denied("%s: %s needs %s, and the file system of the spool directory has %s left, of which %s are reserved",
			prefix, what, sizeText(more), sizeText(max(free, 0)), sizeText(r.Reserved))
	}
	return nil
}

const jobRejected = "job rejected"

// CheckReserve returns an error if what is reserved is not there any more.
func (c *Cell) CheckReserve() error {
	if !c.limited() {
		return nil
	}
	r := c.keeping.room
	if free := r.Free - c.keeping.unwritten; free < r.Reserved {
		return fmt.Errorf("the file system of the spool directory has %s left, of which %s are reserved", sizeText(max(free, 0)), sizeText(r.Reserved))
	}
	return nil
}

// admitSize refuses a new job that is too large, or that there is no room for.
func (c *Cell) admitSize(j *Job) error {
	if !c.limited() {
		return nil
	}
	j.encoded = encode(requestRecordOf(j))
	if n := int64(len(j.script())); n > MaxScript {
		return denied("%s: the script has %s, and at most %s are allowed", jobRejected, sizeText(n), sizeText(MaxScript))
	}
	if n := int64(len(j.encoded)); n > MaxRequest {
		return tooLarge(jobRejected, n)
	}
	if text := j.asked.Script; c.options.ScriptsBeside && len(text) >= besideFrom {
		j.beside = &beside{ScriptSum(text), int64(len(text)), text}
	}
	return c.checkRoom(jobRejected, "the job", j.Owner(), sum(c.newSizes(j))+c.besideRoom(j))
}

func tooLarge(prefix string, size int64) error {
	return denied("%s: environment, arguments and other requests take %s, and at most %s are allowed", prefix, sizeText(size), sizeText(MaxRequest))
}

// jobSizes are what the records of a job take, in bytes and in their order in jobRecords.
type jobSizes [3]int64

func sum(sizes jobSizes) (all int64) {
	for _, n := range sizes {
		all += n
	}
	return all
}

// newSizes are those of a job that admitSize has seen.
func (c *Cell) newSizes(j *Job) jobSizes {
	sizes := jobSizes{stateRoom, int64(len(j.encoded)) + recordRoom}
	if n := len(j.script()); j.beside != nil {
		sizes[2] = stateRoom
	} else if n > 0 {
		sizes[2] = int64(n) + recordRoom
	}
	return sizes
}

// keepNew counts a job that is taken in.
func (c *Cell) keepNew(j *Job) {
	if !c.unsaved.on {
		return
	}
	for i, n := range c.newSizes(j) {
		c.keep(j.Owner(), &j.kept[i], n)
	}
	c.keepBeside(j)
}

// admitAltered refuses an alteration that makes a job too large, or that there is no room
// for. more is the most that it can add to what is kept of the job.
func (c *Cell) admitAltered(j, next *Job, more int64) error {
	if !c.limited() {
		return nil
	}
	const prefix, what = "denied", "the altered job"
	kept := &j.kept[1]
	size := *kept + more
	if size > MaxRequest || c.checkRoom(prefix, what, j.Owner(), more) != nil {
		next.Origin = j.Origin
		size = int64(len(encode(requestRecordOf(next)))) + recordRoom
	}
	if more = size - *kept; more > 0 {
		if size > MaxRequest {
			return tooLarge(prefix, size)
		}
		if err := c.checkRoom(prefix, what, j.Owner(), more); err != nil {
			return err
		}
	}
	c.keep(j.Owner(), kept, size)
	return nil
}

// admitReservation refuses an advance reservation that is too large, or that there is no room
// for, and counts it.
func (c *Cell) admitReservation(r *Reservation) error {
	if !c.limited() {
		return nil
	}
	const prefix = "advance_reservation rejected"
	fields := reservationFields(*r.Request)
	size := int64(len(encode(&reservationRecord{Request: &fields}))) + stateRoom + recordRoom
	if size > MaxRequest {
		return tooLarge(prefix, size)
	}
	if err := c.checkRoom(prefix, "the reservation", r.Owner, size); err != nil {
		return err
	}
	c.keep(r.Owner, &r.kept, size)
	return nil
}

// sizeText prints a number of bytes for people.
func sizeText(n int64) string {
	const step = 1024
	if n < 10*step {
		return fmt.Sprintf("%d bytes", n)
	}
	size, letters := float64(n)/step, "KMGT"
	for ; size >= step && len(letters) > 1; letters = letters[1:] {
		size /= step
	}
	return fmt.Sprintf("%.1f%c", size, letters[0])
}
