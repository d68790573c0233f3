package standalone

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
)

// room returns the disk space for submissions of users. If it cannot be determined, none of it is
// reserved.
func (m *Master) room() *cell.Room {
	if m.host.Spool == "" {
		return nil
	}
	fs, err := fileSystem(m.host.Spool)
	if err != nil {
		m.log.Warn("cannot determine how much room there is for jobs", "directory", m.host.Spool, "error", err)
		return nil
	}
	return &cell.Room{
		PerUser: m.host.PerUser.Of(fs.size), Free: fs.free - m.batch.size, Reserved: m.host.Reserve.Of(fs.size),
		FilesPerUser: m.host.PerUser.OfFiles(fs.files), FreeFiles: fs.freeFiles, ReservedFiles: m.host.Reserve.OfFiles(fs.files),
		MemoryPerUser: m.host.Memory.Of(memory()),
	}
}

// smallRequest is the size in bytes below which a request is not counted when its job starts: as much
// as the other files take that the agent has of each job.
const smallRequest = 64 << 10

// noRoomToStart returns the reason why a task cannot start now, or nil. The agent has the
// environment and the arguments of each running task in the spool directory: an array job could
// have a copy of them for each slot of the host. Therefore they count towards the limit on the
// space of a user's jobs, and cannot take the reserve.
func (m *Master) noRoomToStart(r *run) error {
	if r.size < smallRequest {
		return nil
	}
	room := m.room()
	if room == nil {
		return nil
	}
	var ofUser, coming int64
	for _, other := range m.runs {
		switch {
		case !other.counted || other.size < smallRequest:
			continue
		case other.owner == r.owner:
			ofUser += other.size
		}
		if !other.taken {
			coming += other.size
		}
	}
	switch {
	case room.PerUser > 0 && ofUser > 0 && ofUser+r.size > room.PerUser:
		return tooMuch("those of the tasks of user %q that run take too much of %d", r.size, r.owner, room.PerUser)
	case room.Free-coming-r.size < room.Reserved:
		return tooMuch("the file system has too little left, of which %d are reserved", r.size, room.Reserved)
	}
	return nil
}

// tooMuch returns the refusal of a start. It has no numbers that change: it is logged once.
func tooMuch(why string, size int64, args ...any) error {
	return &agent.Error{
		Code: agent.ResourceExhausted,
		Err:  fmt.Errorf("environment and arguments of a task take %d bytes in the spool directory, and "+why, append([]any{size}, args...)...),
	}
}

// alters are the commands of users that change jobs without creating any. Each of them still adds
// data to the store, the answers and the audit log.
var alters = map[string]bool{"qalter": true, "qhold": true, "qmod": true}

// noRoom returns the reason why a user may not alter jobs now, or "". The reserve is for jobs that
// were accepted, for users who release or delete their jobs, and for operators.
func (m *Master) noRoom(in *command.Input) string {
	if !alters[in.Name] || m.cell.IsOperator(in.By.User) {
		return ""
	}
	if err := m.cell.CheckReserve(); err != nil {
		return command.ErrorText(err) + "\n"
	}
	return ""
}

// volume is a file system: its size and the free space for this process, in bytes and in files
// (inodes). A file system that creates inodes on demand has files 0.
type volume struct{ size, free, files, freeFiles int64 }

// fileSystem returns the file system that a path is on.
func fileSystem(path string) (volume, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return volume{}, err
	}
	left := fs.Bavail
	if unix.Geteuid() == 0 { // file systems reserve space for root
		left = fs.Bfree
	}
	return volume{int64(fs.Blocks) * fs.Frsize, int64(left) * fs.Frsize, int64(fs.Files), int64(fs.Ffree)}, nil
}

// memory returns the size of the memory of the host in bytes, 0 if that cannot be found out.
func memory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
