package qclient

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/cmd/execd/internal/qacct"
	"github.com/execd-project/execd/standalone/api"
)

// The messages for a missing accounting file.
const (
	noAccounting = "the daemon keeps no records (--accounting none)"
	unanswered   = "where its records are the daemon knows, and it does not answer: name the file with -f FILE or EXECD_ACCOUNTING (it is accounting in the directory of --spool)"
)

// AccountingFile returns the file that qacct reads by default: that of EXECD_ACCOUNTING, that of
// the daemon, or, if no daemon answers, the file of a daemon without options. advice is for a user
// who finds no file there; it is empty if the daemon has named the file.
//
// It waits for a daemon that is being restarted, as the other commands do: another file would not
// have the record of a job that has just finished.
func AccountingFile(ctx context.Context) (file, advice string) {
	if file := os.Getenv(qacct.FileVariable); file != "" {
		return file, ""
	}
	c := &Command{Name: "qacct", Stderr: os.Stderr}
	a, err := c.places(ctx)
	switch {
	case err != nil:
		return qacct.DefaultFile(), unanswered
	case a.Accounting == "":
		return "", noAccounting
	default:
		return string(a.Accounting), ""
	}
}

// places asks the daemon where its files are. Without a socket, and without a variable that names
// one, there is no daemon.
func (c *Command) places(ctx context.Context) (*api.PlacesAnswer, error) {
	there := func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if os.Getenv(paths.SocketVariable) == "" && !slices.ContainsFunc(paths.Sockets(os.Getuid() == 0), there) {
		return nil, fs.ErrNotExist
	}
	d, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return d.Places(ctx)
}
