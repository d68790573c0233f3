// Package verifier runs job submission verifiers (jsv(1)): programs that look at a job
// before it is submitted, and take it, change it or refuse it.
//
// Other projects should not import this package: it may change at any time.
//
// Verifiers of a user (qsub -jsv) run once, as the submitting user (Run). Verifiers of a site
// (jsv_url of sge_conf(5)) run for many jobs in a Server, whose methods may be called by several
// goroutines.
package verifier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/execd-project/execd/submit"
)

// Patience is how long a verifier may take for each answer, and to read each line
// (sge_conf(5), jsv_timeout).
const Patience = 10 * time.Second

// farewell is the time that a verifier has to end after QUIT.
const farewell = time.Second

// URLError is a jsv_url (sge_types(5)) that names no verifier.
type URLError struct{ problem string }

// Error returns the error in the words of Grid Engine.
func (e *URLError) Error() string { return e.problem }

// Path returns the program that a jsv_url of a client names.
func Path(url string) (string, error) {
	user, path, err := split(url)
	if err != nil {
		return "", err
	}
	if user != "" {
		return "", &URLError{"specifying user is not allowed in client JSV URLs"}
	}
	return path, executable(path)
}

// split takes a jsv_url apart: [type:][user@]path.
func split(url string) (user, path string, err error) {
	path = url
	if kind, rest, ok := strings.Cut(url, ":"); ok {
		if kind != "script" {
			return "", "", &URLError{fmt.Sprintf("type %q in JSV URL is invalid", kind)}
		}
		path = rest
	}
	if before, after, ok := strings.Cut(path, "@"); ok && !strings.Contains(before, "/") {
		return before, after, nil
	}
	return "", path, nil
}

func executable(path string) error {
	if info, err := os.Stat(path); err != nil || !strings.HasPrefix(path, "/") || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &URLError{fmt.Sprintf("JSV %q is either not a file or not executable", path)}
	}
	return nil
}

// RejectedError is the refusal of a job.
type RejectedError struct{ text string }

// Error returns the reason.
func (r *RejectedError) Error() string { return r.text }

// Run checks a job with a verifier program. patience is the timeout for each of its answers. The
// error is a *RejectedError, or describes the fault of the program; do not submit the job in either
// case.
func Run(ctx context.Context, path string, parameters []submit.Parameter, environment []submit.Variable, log Log, patience time.Duration) ([]submit.Correction, error) {
	c, err := talkTo(path, whom{}, log, patience)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.end)
	defer stop()
	changes, err := c.verify(parameters, environment)
	c.quit(err == nil || errors.As(err, new(*RejectedError)))
	return changes, err
}
