package messages

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/quantity"
)

// The names of the files with receivers.
const (
	SiteFile = "messages"               // in the directory of the configuration
	UserFile = ".config/execd/messages" // in the home directory
)

// Limits for a file with receivers.
const (
	MostBytes     = 64 << 10
	mostReceivers = 20
)

// Event is a change of a job that receivers can get a message about.
type Event string

// The events. An array job has only the events Started (of its first task), Failed (if a task
// has failed), Array and Pending.
const (
	Started Event = "started" // the job began to run
	Ended   Event = "ended"   // the job has finished
	Failed  Event = "failed"  // the job has finished, and not with exit status 0, or is in error state
	Array   Event = "array"   // all tasks of an array job have left the queue
	Pending Event = "pending" // the job has been pending for longer than a time
	Test    Event = "test"    // execd messages --test
)

// Kind is a kind of receiver.
type Kind string

// The kinds of receivers.
const (
	Webhook Kind = "webhook"
	Program Kind = "program"
	Desktop Kind = "desktop"
)

// Receiver is a line of a file with receivers.
type Receiver struct {
	Kind   Kind    `json:"kind"`
	Events []Event `json:"events"`
	// After is the time of pending:TIME.
	After time.Duration `json:"after,omitempty"`
	// To is the URL of a webhook or the path of a program.
	To string `json:"to,omitempty"`
	// Secret is a file with the key of the signatures of a webhook, and CA a file with the
	// certificates of authorities to trust besides those of the host; empty for none.
	Secret string `json:"secret,omitempty"`
	CA     string `json:"ca,omitempty"`
	// Site is set for receivers of the site: their webhooks may have private addresses and, if
	// the line says http, no TLS.
	Site bool `json:"site,omitempty"`
	HTTP bool `json:"http,omitempty"`
	Line int  `json:"line"` // in the file
}

// File holds the receivers of a user or of the site.
type File struct {
	Receivers []Receiver
	// RunAs is the user whose rights the receivers of the site have; empty for the default.
	RunAs string
	// NoUsers is set if the site permits no receivers of users.
	NoUsers bool
}

// LineError is a mistake in a file with receivers.
type LineError struct {
	Line    int
	Problem string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Parse reads a file with receivers; site tells whether it is that of the site. The error joins a
// *LineError for each mistake. Receivers without a mistake are returned, too.
//
// A line is KIND EVENT,... [TO] [OPTION...]. Empty lines and lines that begin with # are comments.
func Parse(text []byte, site bool) (*File, error) {
	f := &File{}
	if len(text) > MostBytes {
		return f, &LineError{1, fmt.Sprintf("the file has %d bytes, at most %d are read", len(text), MostBytes)}
	}
	var errs []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if problem := f.parseLine(words, number, site); problem != "" {
			errs = append(errs, &LineError{number, problem})
		}
	}
	return f, errors.Join(errs...)
}

func (f *File) parseLine(words []string, line int, site bool) (problem string) {
	if site && (words[0] == "user" || words[0] == "users") {
		if len(words) != 2 {
			f.NoUsers = f.NoUsers || words[0] == "users"
			return fmt.Sprintf("expected one word after %s", words[0])
		}
		switch {
		case words[0] == "user":
			f.RunAs = words[1]
		case words[1] != "yes":
			f.NoUsers = true // also after a mistake
			if words[1] != "no" {
				return fmt.Sprintf("users %q: expected yes or no", words[1])
			}
		}
		return ""
	}
	r, err := parseReceiver(words, site)
	switch {
	case err != nil:
		return err.Error()
	case len(f.Receivers) == mostReceivers:
		return fmt.Sprintf("there are more than %d receivers", mostReceivers)
	}
	r.Line = line
	f.Receivers = append(f.Receivers, *r)
	return ""
}

func parseReceiver(words []string, site bool) (*Receiver, error) {
	r := &Receiver{Kind: Kind(words[0]), Site: site}
	if !slices.Contains([]Kind{Webhook, Program, Desktop}, r.Kind) {
		more := ""
		if site {
			more = ", user or users"
		}
		return nil, fmt.Errorf("unknown kind of receiver %q: expected webhook, program or desktop%s", words[0], more)
	}
	if r.Kind == Desktop && site {
		return nil, errors.New("a site has no desktop: expected webhook or program")
	}
	if len(words) < 2 {
		return nil, fmt.Errorf("%s without events: expected a list of started, ended, failed, array, pending:TIME", r.Kind)
	}
	if err := r.parseEvents(words[1]); err != nil {
		return nil, err
	}
	words = words[2:]
	if r.Kind != Desktop {
		if len(words) == 0 {
			return nil, fmt.Errorf("%s without a target: expected %s", r.Kind, map[Kind]string{Webhook: "a URL", Program: "an absolute path"}[r.Kind])
		}
		r.To, words = words[0], words[1:]
	}
	for _, option := range words {
		if err := r.parseOption(option); err != nil {
			return nil, err
		}
	}
	return r, r.checkTarget()
}

func (r *Receiver) parseEvents(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		name, after, timed := strings.Cut(word, ":")
		event := Event(name)
		switch {
		case event == Pending && timed:
			seconds, err := quantity.Time(after)
			if d, e := time.ParseDuration(after); e == nil && d > 0 {
				seconds, err = uint64(d/time.Second), nil
			}
			if err != nil {
				return fmt.Errorf("event %q: expected a time such as 2h or 0:30:0 after the colon", word)
			}
			const most = 10 * 365 * 24 * 3600
			if seconds == 0 || seconds > most {
				return fmt.Errorf("event %q: expected a time of at least one second, and at most ten years", word)
			}
			r.After = time.Duration(seconds) * time.Second
		case event == Pending:
			return errors.New("event pending: expected a time, as in pending:2h")
		case timed || !slices.Contains([]Event{Started, Ended, Failed, Array}, event):
			return fmt.Errorf("unknown event %q: expected started, ended, failed, array or pending:TIME", word)
		}
		if slices.Contains(r.Events, event) {
			return fmt.Errorf("event %s is listed twice", event)
		}
		r.Events = append(r.Events, event)
	}
	return nil
}

func (r *Receiver) parseOption(option string) error {
	name, value, _ := strings.Cut(option, "=")
	switch {
	case r.Kind != Webhook:
	case option == "http":
		if !r.Site {
			return errors.New("only receivers of the site may use http: expected https")
		}
		r.HTTP = true
		return nil
	case name == "secret" || name == "ca":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("%s: expected the absolute path of a file", name) // the value may be the secret itself
		}
		if name == "secret" {
			r.Secret = value
		} else {
			r.CA = value
		}
		return nil
	}
	if r.Kind == Webhook { // it may be a secret
		return errors.New("unexpected word after the URL: expected secret=FILE or ca=FILE")
	}
	return fmt.Errorf("unexpected %q", option)
}

func (r *Receiver) checkTarget() error {
	switch r.Kind {
	case Program:
		if !filepath.IsAbs(r.To) {
			return fmt.Errorf("program %q: expected an absolute path", r.To)
		}
	case Webhook: // the URL is not in errors, because it often contains a key, and errors go to a log
		u, err := url.Parse(r.To)
		if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil {
			return errors.New("the target of the webhook: expected a URL such as https://host/path, without a user")
		}
		if u.Scheme != "https" && (u.Scheme != "http" || !r.HTTP) {
			return fmt.Errorf("the URL of the webhook begins with %s://: expected https://", u.Scheme)
		}
	}
	return nil
}

// For returns the receivers of a message.
func (f *File) For(m *Message) []Receiver {
	var list []Receiver
	for _, r := range f.Receivers {
		wanted := m.Event == Test || slices.ContainsFunc(m.events(), func(e Event) bool { return slices.Contains(r.Events, e) })
		if wanted && (m.Event != Pending || r.After == time.Duration(m.After)*time.Second) {
			list = append(list, r)
		}
	}
	return list
}

// PendingTimes returns the times after which receivers expect a message about a pending job, sorted.
func (f *File) PendingTimes() []time.Duration {
	var list []time.Duration
	for _, r := range f.Receivers {
		if r.After > 0 && !slices.Contains(list, r.After) {
			list = append(list, r.After)
		}
	}
	slices.Sort(list)
	return list
}
