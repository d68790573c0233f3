package cell

import "fmt"

// Room says how much the caller of Changes keeps of what users ask for. A job counts
// with its script, its request and what is kept of its tasks, an advance reservation with its
// request, each as long as it is in the cell.
type Room struct {
	// PerUser is the limit for the jobs and reservations of one user, in bytes; 0 is none.
	PerUser int64
	// MemoryPerUser is that of what is kept in memory, too: all but the scripts beside the
	// records; 0 is none.
	MemoryPerUser int64
	// FilesPerUser is how many scripts of one user are kept beside the records, each in a file;
	// 0 is any number.
	FilesPerUser int64
	// Free is what the file system has left, and Reserved is how much of that is not for what
	// is new, in bytes.
	Free, Reserved int64
	// FreeFiles and ReservedFiles are the same in files (inodes); with ReservedFiles 0 none
	// are counted.
	FreeFiles, ReservedFiles int64
}

// need is what something new takes.
type need struct {
	bytes  int64
	memory int64 // in bytes
	files  int64
}

// ofRecords returns the need of so many bytes of records.
func ofRecords(bytes int64) need { return need{bytes: bytes, memory: bytes} }

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
	// aside is what is beside the records of users: bytes are also in users.
	aside map[string]aside
	// scripts are how many jobs have a script that is kept beside the records: it counts once.
	scripts map[ownScript]int
	// unwritten is what Changes has not given out yet: Room.Free does not know of it.
	unwritten int64
}

// aside is what scripts of a user take beside the records.
type aside struct{ files, bytes int64 }

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

// checkRoom refuses what there is no room for: what is the thing that takes so much more of a
// user.
func (c *Cell) checkRoom(prefix, what, owner string, more need) error {
	if !c.limited() || more.bytes <= 0 {
		return nil
	}
	r, used, beside := c.keeping.room, c.keeping.users[owner], c.keeping.aside[owner]
	if r.PerUser > 0 && used+more.bytes > r.PerUser {
		return denied("%s: %s needs %s in the spool directory, and of the %s that user %q may have there %s are in use",
			prefix, what, sizeText(more.bytes), sizeText(r.PerUser), owner, sizeText(used))
	}
	if used -= beside.bytes; r.MemoryPerUser > 0 && used+more.memory > r.MemoryPerUser {
		return denied("%s: %s needs %s in the memory of the daemon, and of the %s that user %q may have there %s are in use",
			prefix, what, sizeText(more.memory), sizeText(r.MemoryPerUser), owner, sizeText(used))
	}
	if r.FilesPerUser > 0 && more.files > 0 && beside.files+more.files > r.FilesPerUser {
		return denied("%s: the script of %s needs a file in the spool directory, and of the %d that user %q may have there %d are in use",
			prefix, what, r.FilesPerUser, owner, beside.files)
	}
	if free := r.Free - c.keeping.unwritten; more.bytes > free-r.Reserved {
		return denied("%s: %s needs %s, and the file system of the spool directory has %s left, of which %s are reserved",
			prefix, what, sizeText(more.bytes), sizeText(max(free, 0)), sizeText(r.Reserved))
	}
	// What is not written yet is little: it may come from the reserve.
	if r.ReservedFiles > 0 && more.files > r.FreeFiles-r.ReservedFiles {
		return denied("%s: the script of %s needs a file, and the file system of the spool directory has %d files (inodes) left, of which %d are reserved",
			prefix, what, r.FreeFiles, r.ReservedFiles)
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
	more, beside := ofRecords(sum(c.newSizes(j))), c.besideRoom(j)
	if more.bytes += beside; beside > 0 {
		more.files = 1
	}
	return c.checkRoom(jobRejected, "the job", j.Owner(), more)
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

// newSizes returns those of a job that admitSize has seen.
func (c *Cell) newSizes(j *Job) jobSizes {
	sizes := jobSizes{stateRoom, int64(len(j.encoded)) + recordRoom}
	if n := len(j.script()); j.beside != nil {
		sizes[2] = stateRoom
	} else if n > 0 {
		sizes[2] = int64(n) + recordRoom
	}
	return sizes
}

// RequestSize returns how many bytes are kept of what the job asks for, environment and arguments
// included, without the script.
func (j *Job) RequestSize() int64 { return j.kept[1] }

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
	if size > MaxRequest || c.checkRoom(prefix, what, j.Owner(), ofRecords(more)) != nil {
		next.Origin = j.Origin
		size = int64(len(encode(requestRecordOf(next)))) + recordRoom
	}
	if more = size - *kept; more > 0 {
		if size > MaxRequest {
			return tooLarge(prefix, size)
		}
		if err := c.checkRoom(prefix, what, j.Owner(), ofRecords(more)); err != nil {
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
	if err := c.checkRoom(prefix, "the reservation", r.Owner, ofRecords(size)); err != nil {
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
