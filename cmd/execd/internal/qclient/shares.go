package qclient

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/outfile"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/standalone/api"
)

// collect runs sge_share_mon(1): it asks as often as the command line says, which may be without
// end.
func (c *Command) collect(ctx context.Context, q *api.CommandRequest, d *api.Client) (status int, err error) {
	s := command.ShareCollections(c.Args)
	out := c.Stdout
	for n := 0; n != s.Count; n++ {
		if n > 0 {
			select {
			case <-ctx.Done():
				return exitFailed, nil
			case <-time.After(time.Duration(s.Interval) * time.Second):
			}
			q.Key, q.Args = rand.Text(), api.Texts(s.Again)
		}
		a, err := d.Command(ctx, q)
		if ctx.Err() != nil {
			return exitFailed, nil
		}
		if err != nil {
			return exitFailed, Explain(err)
		}
		if err := show(c.Stderr, a.Stderr); err != nil || a.Exit != 0 {
			return a.Exit, err
		}
		if n == 0 && s.File != "" {
			f, err := openMode(s.File, s.Mode)
			if err != nil {
				printer.Fprintf(c.Stderr, "can't open file %s: %s\n", s.File, reason(err))
				return exitFailed, nil
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			out = f
		}
		text := string(a.Stdout) // with whatever delimiters the caller wants
		if n > 0 {
			text = s.Delimiter + text
		}
		if _, err := io.WriteString(out, text); err != nil {
			printer.Fprintf(c.Stderr, "write failed\n")
			return exitFailed, nil
		}
	}
	return exitGood, nil
}

// openMode opens a file in a mode of fopen(3).
func openMode(path, mode string) (*os.File, error) {
	flags := map[string]int{
		"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREATE | os.O_TRUNC, "w+": os.O_RDWR | os.O_CREATE | os.O_TRUNC,
		"a": os.O_WRONLY | os.O_CREATE | os.O_APPEND, "a+": os.O_RDWR | os.O_CREATE | os.O_APPEND,
	}
	flag, ok := flags[strings.ReplaceAll(mode, "b", "")]
	if !ok {
		return nil, errors.New("Invalid argument") //nolint:staticcheck // the words of the C library
	}
	return outfile.Open(path, flag, 0o666)
}
