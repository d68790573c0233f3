package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Forbidden says whose daemon it is that listens on a socket which the caller may not use, and
// what to do. The owner is that of the socket, or, where the caller may not even look at that, of
// the directory above it that keeps the caller out.
func Forbidden(socket string) error {
	return errors.Join(fmt.Errorf("cannot connect to the daemon of user %s at %s: permission denied", owner(socket), socket),
		fmt.Errorf("be that user, or root; or set %s to another socket; execd standalone starts a daemon of your own", SocketVariable))
}

func owner(path string) string {
	for {
		info, err := os.Stat(path)
		parent := filepath.Dir(path)
		if errors.Is(err, fs.ErrPermission) && parent != path {
			path = parent
			continue
		}
		if err != nil {
			return "unknown"
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "unknown"
		}
		if u, err := userdb.System().UserID(stat.Uid); err == nil {
			return u.Name
		}
		return fmt.Sprint(stat.Uid)
	}
}
