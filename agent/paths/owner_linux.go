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

// Forbidden names the owner of the daemon whose socket the caller may not use, and the remedy. The
// owner is taken from the socket, or if the caller may not access its directory, from the directory
// that denies access.
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
