package cell

// Room limits the data that the caller of Changes stores for users. The size of a job includes its
// script, its request and the records of its tasks; that of an advance reservation its request.
// They count while they are in the cell.
type Room struct {
	// PerUser is the limit in bytes for the jobs and reservations of one user; 0 is no limit.
	PerUser int64
	// MemoryPerUser is the limit for the part that is also kept in memory: everything but the
	// scripts in files; 0 is no limit.
	MemoryPerUser int64
	// FilesPerUser limits the number of scripts of one user that are stored in files instead of
	// records; 0 is no limit.
	FilesPerUser int64
	// Free is the free space of the file system in bytes. Reserved is the part of it that new data
	// must not use.
	Free, Reserved int64
	// FreeFiles and ReservedFiles are the same in files (inodes). With ReservedFiles 0 they do not
	// count.
	FreeFiles, ReservedFiles int64
}

// need is the space that new data needs.
type need struct {
	bytes  int64
	memory int64 // in bytes
	files  int64
}

// ofRecords returns the need of records of this size.
func ofRecords(bytes int64) need { return need{bytes: bytes, memory: bytes} }

// The limits of a single job in bytes. They apply if there is a Room.
const (
	// MaxScript is the largest script.
	MaxScript = 32 << 20
	// MaxRequest is the largest stored request without the script. The kernel starts no program
	// with more than 6 MiB of arguments and environment (execve(2)).
	MaxRequest = 16 << 20
)

// The sizes of records that do not exist yet, in bytes: the place, the key, and the content for an
// ordinary job.
const (
	recordRoom = 64
	stateRoom  = 256
	taskRoom   = 256
)

// keeping counts the stored data of users.
type keeping struct {
	room  *Room            // nil for no limits
	users map[string]int64 // in bytes, by owner
	// scriptFiles counts the scripts in files, by user; the bytes are also in users.
	scriptFiles map[string]scriptSpace
	// scripts counts the jobs of each script in a file.
	scripts map[ownScript]int
	// unwritten is the size of the data that Changes has not returned yet and Room.Free does not
	// include.
	unwritten int64
}

// scriptSpace is the space of a user's scripts in files.
type scriptSpace struct{ files, bytes int64 }

// SetRoom sets the limits for new data; nil is no limits. They apply once Changes has been called.
func (c *Cell) SetRoom(r *Room) { c.keeping.room = r }

// Kept returns the number of bytes stored for the jobs and reservations of a user.
func (c *Cell) Kept(user string) int64 { return c.keeping.users[user] }

// limited reports whether there are limits.
func (c *Cell) limited() bool { return c.keeping.room != nil && c.unsaved.on }

// keep records that data of a user now has a size in bytes. was holds its previous size and is
// updated.
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

// checkRoom refuses new data of a user if there is no room for it.
func (c *Cell) checkRoom(of Subject, owner string, more need) error {
	if !c.limited() || more.bytes <= 0 {
		return nil
	}
	r, used, files := c.keeping.room, c.keeping.users[owner], c.keeping.scriptFiles[owner]
	if r.PerUser > 0 && used+more.bytes > r.PerUser {
		return denied(Event{Kind: UserSpaceExceeded, Subject: of, User: owner, Number: more.bytes, Limit: r.PerUser, Used: used})
	}
	if used -= files.bytes; r.MemoryPerUser > 0 && used+more.memory > r.MemoryPerUser {
		return denied(Event{Kind: UserMemoryExceeded, Subject: of, User: owner, Number: more.memory, Limit: r.MemoryPerUser, Used: used})
	}
	if r.FilesPerUser > 0 && more.files > 0 && files.files+more.files > r.FilesPerUser {
		return denied(Event{Kind: UserFilesExceeded, Subject: of, User: owner, Limit: r.FilesPerUser, Used: files.files})
	}
	if free := r.Free - c.keeping.unwritten; more.bytes > free-r.Reserved {
		return denied(Event{Kind: SpoolSpaceExceeded, Subject: of, Number: more.bytes, Limit: max(free, 0), Used: r.Reserved})
	}
	// Data that is not written yet is small: it may use the reserve.
	if r.ReservedFiles > 0 && more.files > r.FreeFiles-r.ReservedFiles {
		return denied(Event{Kind: SpoolFilesExceeded, Subject: of, Limit: r.FreeFiles, Used: r.ReservedFiles})
	}
	return nil
}

// CheckReserve returns a *DeniedError if the reserved space is no longer free.
func (c *Cell) CheckReserve() error {
	if !c.limited() {
		return nil
	}
	r := c.keeping.room
	if free := r.Free - c.keeping.unwritten; free < r.Reserved {
		return denied(Event{Kind: ReserveExceeded, Limit: max(free, 0), Used: r.Reserved})
	}
	return nil
}

// admitSize refuses a new job that is too large, or for which there is no room.
func (c *Cell) admitSize(j *Job) error {
	if !c.limited() {
		return nil
	}
	j.encoded = encode(requestRecordOf(j))
	if n := int64(len(j.script())); n > MaxScript {
		return denied(Event{Kind: ScriptTooLarge, Number: n, Limit: MaxScript})
	}
	if n := int64(len(j.encoded)); n > MaxRequest {
		return tooLarge(NewJob, n)
	}
	if text := j.asked.Script; c.options.SeparateScripts && len(text) >= separateFrom {
		j.scriptFile = &scriptFile{ScriptSum(text), int64(len(text)), text}
	}
	more, size := ofRecords(sum(c.newSizes(j))), c.scriptFileRoom(j)
	if more.bytes += size; size > 0 {
		more.files = 1
	}
	return c.checkRoom(NewJob, j.Owner(), more)
}

func tooLarge(of Subject, size int64) error {
	return denied(Event{Kind: RequestTooLarge, Subject: of, Number: size, Limit: MaxRequest})
}

// jobSizes are the sizes of a job's records in bytes, in the order of jobRecords.
type jobSizes [3]int64

func sum(sizes jobSizes) (all int64) {
	for _, n := range sizes {
		all += n
	}
	return all
}

// newSizes returns the sizes of a job's records, for a job that admitSize has checked.
func (c *Cell) newSizes(j *Job) jobSizes {
	sizes := jobSizes{stateRoom, int64(len(j.encoded)) + recordRoom}
	if n := len(j.script()); j.scriptFile != nil {
		sizes[2] = stateRoom
	} else if n > 0 {
		sizes[2] = int64(n) + recordRoom
	}
	return sizes
}

// RequestSize returns the stored size of the job's request in bytes, including environment and
// arguments and without the script.
func (j *Job) RequestSize() int64 { return j.kept[1] }

// keepNew counts an accepted job.
func (c *Cell) keepNew(j *Job) {
	if !c.unsaved.on {
		return
	}
	for i, n := range c.newSizes(j) {
		c.keep(j.Owner(), &j.kept[i], n)
	}
	c.countScriptFile(j)
}

// admitAltered refuses an alteration that makes a job too large, or for which there is no room.
// more is the largest size that the alteration can add.
func (c *Cell) admitAltered(j, next *Job, more int64) error {
	if !c.limited() {
		return nil
	}
	kept := &j.kept[1]
	size := *kept + more
	if size > MaxRequest || c.checkRoom(AlteredJob, j.Owner(), ofRecords(more)) != nil {
		next.Origin = j.Origin
		size = int64(len(encode(requestRecordOf(next)))) + recordRoom
	}
	if more = size - *kept; more > 0 {
		if size > MaxRequest {
			return tooLarge(AlteredJob, size)
		}
		if err := c.checkRoom(AlteredJob, j.Owner(), ofRecords(more)); err != nil {
			return err
		}
	}
	c.keep(j.Owner(), kept, size)
	return nil
}

// admitReservation counts an advance reservation, or refuses it if it is too large or if there is
// no room for it.
func (c *Cell) admitReservation(r *Reservation) error {
	if !c.limited() {
		return nil
	}
	fields := reservationFields(*r.Request)
	size := int64(len(encode(&reservationRecord{Request: &fields}))) + stateRoom + recordRoom
	if size > MaxRequest {
		return tooLarge(NewReservation, size)
	}
	if err := c.checkRoom(NewReservation, r.Owner, ofRecords(size)); err != nil {
		return err
	}
	c.keep(r.Owner, &r.kept, size)
	return nil
}
