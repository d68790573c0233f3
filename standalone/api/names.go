package api

import "context"

// PathNames is the path of the call for names that complete a command line: NamesRequest, NamesAnswer.
const PathNames = Path + "Names"

// Namable is a kind of names.
type Namable string

// The kinds of names.
const (
	NamableJobs  Namable = "jobs"  // jobs that the caller may change, by number
	NamableUsers Namable = "users" // the users of the configuration, and the owners of jobs
)

// NamesRequest asks for the names of a kind that begin with a prefix.
type NamesRequest struct {
	Of     Namable `json:"of"`
	Prefix Text    `json:"prefix,omitempty"`
}

// NamesAnswer holds the names, jobs by number and users by name. If there are too many, some are missing. All
// names then begin with the same characters as those of the answer.
type NamesAnswer struct {
	Names []Name `json:"names,omitempty"`
}

// Name is a name, and a few words that describe it.
type Name struct {
	Name Text `json:"name"`
	Text Text `json:"text,omitempty"`
}

// Names returns the names that begin with a prefix.
func (c *Client) Names(ctx context.Context, q NamesRequest) (*NamesAnswer, error) {
	a := &NamesAnswer{}
	if err := c.call(ctx, PathNames, q, a); err != nil {
		return nil, err
	}
	return a, nil
}
