package qclient

import (
	"context"
	"os"
	"time"

	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/cmd/execd/internal/qacct"
	"github.com/execd-project/execd/standalone/api"
)

// placesPatience is how long a daemon may take to say where its files are. Records can be
// read without it.
const placesPatience = 5 * time.Second

// What is said where there are no records at the place where they are looked for.
const (
	noAccounting = "the daemon keeps no records (--accounting none)"
	unanswered   = "where its records are the daemon knows, and it does not answer: name the file with -f FILE or EXECD_ACCOUNTING (it is accounting in the directory of --spool)"
)

// AccountingFile is the file that qacct reads by default: what EXECD_ACCOUNTING says, or
// that of the daemon that runs, or where one that does not run would have it. advice is for
// who finds no file there; it is empty where the daemon has named the file.
func AccountingFile(ctx context.Context) (file, advice string) {
	if file := os.Getenv(qacct.FileVariable); file != "" {
		return file, ""
	}
	ctx, cancel := context.WithTimeout(ctx, placesPatience)
	defer cancel()
	for _, path := range paths.Sockets(os.Getuid() == 0) {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		d, err := api.Dial(path, -1, nil)
		if err != nil {
			break
		}
		switch a, err := d.Places(ctx); {
		case err != nil: // other commands would ask this one, too
			return qacct.DefaultFile(), unanswered
		case a.Accounting == "":
			return "", noAccounting
		default:
			return string(a.Accounting), ""
		}
	}
	return qacct.DefaultFile(), unanswered
}
