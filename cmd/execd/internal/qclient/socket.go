package qclient

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/execd-project/execd/agent/paths"
)

const (
	// beginning is the time to wait for a socket if there has never been a daemon, because the
	// previous command may have started one. If there was a daemon, the command waits as for one
	// that is being restarted (patience).
	beginning = 3 * time.Second
	// silence is the time after which the command says that it waits.
	silence      = 500 * time.Millisecond
	socketPeriod = 10 * time.Millisecond
)

// socket returns the path of the daemon's socket: the first one that exists among the possible
// paths. It waits until one exists, and calls waiting when that takes long.
func socket(ctx context.Context, waiting func()) (string, error) {
	again := time.NewTicker(socketPeriod)
	defer again.Stop()
	begin, told, most := time.Now(), false, beginning
	if expected() {
		most = patience
	}
	for {
		places := paths.Sockets(os.Getuid() == 0)
		for _, path := range places {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				return path, nil
			}
		}
		switch gone := time.Since(begin); {
		case gone > most:
			return "", noDaemon(places)
		case gone > silence && !told:
			waiting()
			told = true
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", noDaemon(places)
		}
	}
}

// expected reports whether there is or was a daemon: the environment names one, or one has left a
// queue.
func expected() bool {
	if os.Getenv(paths.SocketVariable) != "" {
		return true
	}
	for _, root := range []bool{os.Getuid() == 0, true} {
		if spool, ok := paths.Spool(root); ok {
			if _, err := os.Stat(filepath.Join(spool, "cell.db")); err == nil {
				return true
			}
		}
	}
	return false
}

// noDaemon returns the error for a missing daemon, with the remedy.
func noDaemon(places []string) error {
	if path := os.Getenv(paths.SocketVariable); path != "" {
		return errors.New("no daemon is running: " + paths.SocketVariable + " names the socket " + path + ", which does not exist")
	}
	return errors.New("no daemon is running here: start execd standalone, or set " + paths.SocketVariable + " to its socket; there is no " + places[len(places)-1])
}
