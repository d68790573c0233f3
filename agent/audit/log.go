package audit

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/outfile"
	"github.com/execd-project/execd/internal/trust"
)

// Options say where the log is.
type Options struct {
	Path   string
	Host   string
	Daemon string
	// Journal sends each record to the systemd journal, too, if there is one.
	Journal bool
	// Required refuses changes while the log cannot be written.
	Required bool
	// Report is called with an error when the log cannot be written, and with nil when it can be
	// written again.
	Report func(error)
}

// Log is an open log.
type Log struct {
	options Options
	boot    string
	journal *journal

	mu      sync.Mutex
	file    *os.File
	cut     bool   // the last line of the file is not whole
	pending []byte // lines that could not be written yet
	count   uint64 // of calls
	lost    uint64 // records that there was no room for, and that the file does not speak of yet
	// allLost is the number of lost records since the start, and failures the number of failed
	// writes.
	allLost, failures uint64
	added             uint64 // records so far
	failed            error  // why the last write has failed
	next              time.Time
	callers           map[string]*callerState

	syncing sync.Mutex
	synced  uint64 // how many records are on the disk
	timer   *time.Timer
	closed  bool
}

const (
	// mode is the mode of the file.
	mode = 0o600
	// mostPending is how many bytes wait while the file cannot be written.
	mostPending = 4 << 20
	// lazily is the maximum time before a record is synced to the disk if no caller waits for that.
	lazily = time.Second
	// again is the pause before another attempt after a failed write.
	again = time.Second
)

// Open opens the log, and creates the file if it is missing. It must be a regular file that belongs
// to this process's user and that no other user can write to.
func Open(o Options) (*Log, error) {
	if o.Report == nil {
		o.Report = func(error) {}
	}
	l := &Log{options: o, boot: strings.ToLower(rand.Text()[:8]), callers: map[string]*callerState{}}
	switch err := l.open(); {
	case err == nil:
	case passing(err) && !o.Required:
		l.failed, l.failures = err, 1
		o.Report(err)
	default:
		return nil, err
	}
	if o.Journal {
		l.journal = openJournal()
	}
	return l, nil
}

// passing reports whether an error of opening the file may be temporary, such as a full or broken
// disk: the daemon then continues without the file.
func passing(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// open opens the file. The caller holds mu, unless the log is not in use yet.
func (l *Log) open() error {
	// A user who may rename files in the directory could replace the file.
	if err := trust.Own().CheckDirectory(filepath.Dir(l.options.Path)); err != nil {
		return fmt.Errorf("cannot use the audit log %s: %w", l.options.Path, err)
	}
	fd, err := unix.Open(l.options.Path, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if err != nil {
		return fmt.Errorf("cannot open the audit log %s: %w", l.options.Path, err)
	}
	f := os.NewFile(uintptr(fd), l.options.Path)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			err = errors.New("it is not a regular file")
		case int(st.Uid) != os.Geteuid():
			err = fmt.Errorf("it belongs to user ID %d, expected %d", st.Uid, os.Geteuid())
		case st.Nlink != 1:
			err = fmt.Errorf("it has %d hard links, expected 1", st.Nlink)
		case st.Mode&0o022 != 0:
			err = fmt.Errorf("other users can write to it (mode %04o)", st.Mode&0o7777)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot use the audit log %s: %w", l.options.Path, err), f.Close())
	}
	l.cut = false
	if st.Size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], st.Size-1); err == nil && last[0] != '\n' {
			l.cut = true // of a daemon that was killed, or of a full disk
		}
	}
	if l.file != nil {
		_ = l.file.Sync()
		_ = l.file.Close()
	}
	l.file = f
	return nil
}

// NewID returns the identity of a call.
func (l *Log) NewID() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.boot + "-" + strconv.FormatUint(l.count, 10)
}

// Lines returns the lines of a record for Write, and adds the daemon and the time to the record. It
// shortens records of users who have recently filled much of the log.
func (l *Log) Lines(r *Record) []byte {
	if l == nil {
		return nil
	}
	l.complete(r)
	lines := r.Lines()
	if !l.fits(r.Caller.key(), len(lines), r.Time) {
		r.shorten()
		lines = r.Lines()
	}
	return lines
}

// complete fills in the daemon and the time of a record.
func (l *Log) complete(r *Record) {
	r.Version, r.Host, r.Daemon = Version, l.options.Host, l.options.Daemon
	if r.Time.IsZero() {
		r.Time = time.Now().UTC()
	}
	if r.ID == "" {
		r.ID = l.NewID()
	}
}

// Add adds a record. When Add returns, the record survives the end of this process, and with sync
// also a power loss. While the file cannot be written, Add returns an error, for callers that
// refuse changes without a record, and keeps the record in memory to write it later. A record that
// does not fit there is lost; the file later contains the number of lost ones.
func (l *Log) Add(r *Record, sync bool) error {
	if l == nil {
		return nil
	}
	_, err := l.Write(l.Lines(r))
	if errors.Is(err, ErrNoRoom) {
		l.Lose(1)
	}
	if err == nil && sync {
		err = l.Sync()
	}
	return err
}

// ErrNoRoom means that too many records already wait for the file. A record refused with it is
// neither written nor counted as lost.
var ErrNoRoom = errors.New("too many records wait for the audit log")

// Write adds the lines of records, and returns their number among all that were taken, from 1:
// Synced says when they are on the disk. The number is 0 if they were not taken; the error is then
// os.ErrClosed or ErrNoRoom. With any other error they wait in memory.
func (l *Log) Write(lines []byte) (number uint64, err error) {
	if l == nil || len(lines) == 0 {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, os.ErrClosed
	}
	if len(l.pending)+len(lines) > mostPending {
		// Any number of lines is taken while nothing waits: they are written at once.
		if err := l.flush(); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
	l.journal.send(lines)
	l.added++
	l.pending = append(l.pending, lines...)
	return l.added, l.flush()
}

// Lose notes that records were lost: the file says how many, in one record, as soon as it can be
// written.
func (l *Log) Lose(records uint64) {
	if l == nil || records == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += records
	l.allLost += records
	_ = l.flush() // it is tried again
}

// flush writes pending records. The caller holds mu.
func (l *Log) flush() error {
	if len(l.pending) == 0 && l.lost == 0 {
		return l.failed
	}
	now := time.Now()
	if l.failed != nil && now.Before(l.next) {
		l.later(l.next.Sub(now)) // this call may be that of a timer set before the failure
		return l.failed
	}
	err := l.append()
	if err == nil && l.lost > 0 {
		l.pending = append(l.pending, l.gap(now)...)
		l.lost = 0
		err = l.append()
	}
	if (err == nil) != (l.failed == nil) {
		l.options.Report(err)
	}
	l.failed, l.next = err, now.Add(again)
	if err != nil {
		l.failures++
		l.later(again)
		return err
	}
	l.later(lazily)
	return nil
}

// gap returns a record that counts the lost records. The caller holds mu.
func (l *Log) gap(now time.Time) []byte {
	r := &Record{Command: "gap", Outcome: Failed, Error: fmt.Sprintf("%d records were lost while this file could not be written", l.lost)}
	r.Version, r.Host, r.Daemon, r.Time = Version, l.options.Host, l.options.Daemon, now.UTC()
	l.count++
	r.ID = l.boot + "-" + strconv.FormatUint(l.count, 10)
	return r.Lines()
}

// append writes pending records to the file that currently has the name. The caller holds mu.
func (l *Log) append() error {
	if err := l.follow(); err != nil {
		return err
	}
	if len(l.pending) == 0 {
		return nil
	}
	text := l.pending
	if l.cut {
		text = append([]byte{'\n'}, text...)
	}
	n, err := l.file.Write(text)
	if err == nil {
		l.pending, l.cut = l.pending[:0], false
		return nil
	}
	// A partly written first line cannot be removed, because the file may be append-only (chattr
	// +a): the complete line follows on a new line.
	if n > 0 {
		l.cut = true
		if end := strings.LastIndexByte(string(text[:n]), '\n'); end >= 0 {
			whole := end + 1
			if len(text) > len(l.pending) {
				whole--
			}
			l.pending = append([]byte(nil), l.pending[max(whole, 0):]...)
			l.cut = end+1 < n
		}
	}
	return fmt.Errorf("cannot write to the audit log %s: %w", l.options.Path, err)
}

// follow opens the file again if it was moved away (logrotate(8)). The caller holds mu.
func (l *Log) follow() error {
	if l.file == nil {
		return l.open()
	}
	var open, named unix.Stat_t
	if err := unix.Fstat(int(l.file.Fd()), &open); err != nil {
		return err
	}
	err := unix.Lstat(l.options.Path, &named)
	if err == nil && open.Dev == named.Dev && open.Ino == named.Ino {
		return nil
	}
	return l.open()
}

// later schedules a sync, or another attempt after a failure. The caller holds mu.
func (l *Log) later(d time.Duration) {
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(d, func() { _ = l.Sync() })
	}
}

// Sync returns once all accepted records are on disk.
func (l *Log) Sync() error {
	if l == nil {
		return nil
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	err, number := l.flush(), l.added
	f := l.file
	if l.closed {
		err = os.ErrClosed
	}
	l.mu.Unlock()
	if err != nil || f == nil {
		return err
	}
	if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // it was reopened, and synced for that
		return fmt.Errorf("cannot write to the audit log %s: %w", l.options.Path, err)
	}
	l.mu.Lock()
	l.synced = max(l.synced, number)
	l.mu.Unlock()
	return nil
}

// Synced returns the number of the last Write whose records, and all before them, are on disk.
func (l *Log) Synced() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// Check returns the reason why no change may be made: the configuration requires the log, and it
// cannot be written.
func (l *Log) Check() error {
	if l == nil || !l.options.Required {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.flush(); err != nil {
		return fmt.Errorf("cannot change anything without a record in the audit log: %w", err)
	}
	return nil
}

// Err returns the reason why the log cannot be written, or nil.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Counts returns the number of failed writes and of lost records since the log was opened.
func (l *Log) Counts() (failures, lost uint64) {
	if l == nil {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures, l.allLost
}

// Reopen opens the file again after it has been moved away.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open()
}

// Close writes pending records and closes the log.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	err := l.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.journal.close()
	if l.file == nil {
		return err
	}
	return errors.Join(err, l.file.Close())
}

// tailSize is the number of bytes at the end of the file in which Has searches for lines.
const tailSize = 4 << 20

// Has reports whether lines are already at the end of the file, or of the file that was moved away
// last. That happens if a process was killed before it recorded that it had written them.
func (l *Log) Has(lines []byte) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follow() != nil {
		return false
	}
	if has(l.file, lines) {
		return true
	}
	f, err := outfile.OpenRotated(l.options.Path)
	if f == nil || err != nil {
		return false // writing it twice is better than not at all
	}
	defer f.Close()
	return has(f, lines)
}

// has reports whether lines are at the end of a file.
func has(f *os.File, lines []byte) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	text := make([]byte, min(info.Size(), tailSize))
	n, err := f.ReadAt(text, info.Size()-int64(len(text)))
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Contains(text[:n], lines)
}
