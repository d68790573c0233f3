package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenRotated opens for reading the file that previously had the name: among the regular files in
// the same directory that are called NAME.SUFFIX or NAME-SUFFIX (logrotate(8)) and belong to the
// user of this process, the one that was written last. Names with one of the suffixes except belong
// to other files, and compressed files are no candidates either. The result is nil if there is
// none.
func OpenRotated(path string, except ...string) (*os.File, error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var best *os.File
	var last int64
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), base)
		if !is || rest == "" || rest[0] != '.' && rest[0] != '-' || !e.Type().IsRegular() || isOther(rest, except) {
			continue
		}
		fd, err := unix.Open(filepath.Join(dir, e.Name()), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) { // it was removed or replaced meanwhile
			continue
		}
		f := os.NewFile(uintptr(fd), filepath.Join(dir, e.Name()))
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			if best != nil {
				best.Close()
			}
			return nil, &os.PathError{Op: "open", Path: filepath.Join(dir, e.Name()), Err: err}
		}
		if at := st.Mtim.Nano(); st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || best != nil && at <= last {
			f.Close()
			continue
		} else if last = at; best != nil {
			best.Close()
		}
		best = f
	}
	return best, nil
}

// isOther reports whether the rest after the name makes it the name of another file.
func isOther(rest string, except []string) bool {
	for _, e := range except {
		if strings.HasPrefix(rest, e) {
			return true
		}
	}
	for _, e := range [...]string{".gz", ".xz", ".bz2", ".zst"} {
		if strings.HasSuffix(rest, e) {
			return true
		}
	}
	return false
}
