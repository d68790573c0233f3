// Package api is the interface between the commands of users and the daemon of execd standalone:
// calls on the socket of its agent, in the form of package agent/api. The kernel tells the daemon
// the user of each connection.
//
// Other projects should not import this package: it may change at any time.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"
	"unicode/utf8"

	agentapi "github.com/execd-project/execd/agent/api"
)

// The paths of the calls.
const (
	Path        = "/execd.v1.Cell/"
	PathCommand = Path + "Command" // CommandRequest, CommandAnswer
	PathWait    = Path + "Wait"    // WaitRequest, WaitAnswer
	PathPlaces  = Path + "Places"  // nothing, PlacesAnswer
)

// PathLink is the path of a call to the web pages of a daemon (--web), which execd agent may have, too:
// it takes nothing and returns a LinkAnswer.
const PathLink = "/execd.v1.Web/Link"

// Text is a text that need not be UTF-8. In JSON, a text that is not UTF-8 is an object with the
// base64 of its bytes.
type Text string

type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes a string, or {"base64": "..."}. It does not escape the special characters of
// HTML, because that would double the size of the lists of qstat -xml.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		var b bytes.Buffer
		b.Grow(len(t) + len(t)/16 + 16)
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(string(t))
		return b.Bytes(), err
	}
	return json.Marshal(encoded{[]byte(t)})
}

// JSONSchema returns the schema of both forms.
func (Text) JSONSchema() map[string]any {
	coded := map[string]any{
		"type": "object", "required": []string{"base64"},
		"properties": map[string]any{"base64": map[string]any{"type": "string", "contentEncoding": "base64"}},
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, coded}}
}

// UnmarshalJSON reads the format of MarshalJSON.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encoded
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		*t = Text(e.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// Texts are the words as they are sent.
func Texts(words []string) []Text {
	list := make([]Text, len(words))
	for i, w := range words {
		list[i] = Text(w)
	}
	return list
}

// Strings returns the opposite of Texts.
func Strings(list []Text) []string {
	words := make([]string, len(list))
	for i, t := range list {
		words[i] = string(t)
	}
	return words
}

// CommandRequest is a command line with the user's environment, directory and files.
type CommandRequest struct {
	// Key identifies the request: repetitions have the same key, and the daemon carries the command
	// out only once.
	Key         string   `json:"key"`
	Name        string   `json:"name"` // of the command, as qsub
	Args        []Text   `json:"args,omitempty"`
	Directory   Text     `json:"directory"`
	Home        Text     `json:"home,omitempty"`
	Environment []Text   `json:"environment,omitempty"`
	Files       []File   `json:"files,omitempty"`  // that the command line names
	Stdin       []byte   `json:"stdin,omitempty"`  // base64
	Edited      [][]byte `json:"edited,omitempty"` // the edited texts of each CommandAnswer.Edit, in order
	// Verified says that the client has carried out CommandAnswer.Verify; Corrections is the
	// result.
	Verified    bool         `json:"verified,omitempty"`
	Corrections []Correction `json:"corrections,omitempty"`
	// Confirmed and Digest are the key and the digest of the submission that the client has
	// confirmed to the launcher, if CommandAnswer.Confirm asked for that.
	Confirmed string `json:"confirmed,omitempty"`
	Digest    string `json:"digest,omitempty"`
	// Amended are such keys and digests where CommandAnswer.Amend has asked for them.
	Amended     []Amended    `json:"amended,omitempty"`
	Zone        string       `json:"zone,omitempty"` // the user's time zone, in the form of TZ
	Interactive *Interactive `json:"interactive,omitempty"`
	// Terminal says that standard error is a terminal: people read it, and no scripts.
	Terminal bool `json:"terminal,omitempty"`
	// TerminalOut says the same of standard output.
	TerminalOut bool `json:"terminal_out,omitempty"`
}

// File is the text of a file, or why it cannot be read.
type File struct {
	Name  Text   `json:"name"`
	Text  []byte `json:"text,omitempty"` // base64
	Error string `json:"error,omitempty"`
}

// Verify asks the client to verify a job with programs of the user (qsub(1), -jsv), and to send the
// same command again, with Verified.
type Verify struct {
	Programs    []Text       `json:"programs"`
	Parameters  []Correction `json:"parameters"`
	Environment []Correction `json:"environment,omitempty"`
}

// Correction is a parameter of a job, or a variable of its environment. In a CommandRequest it has
// the new value.
type Correction struct {
	Name     Text `json:"name"`
	Value    Text `json:"value"`
	Variable bool `json:"variable,omitempty"`
	Remove   bool `json:"remove,omitempty"`
}

// Interactive is for jobs with a terminal (qrsh, qlogin).
type Interactive struct {
	Rows uint16 `json:"rows,omitempty"` // of the window, 0 if unknown
	Cols uint16 `json:"cols,omitempty"`
	Term string `json:"term,omitempty"`
}

// CommandAnswer is the result of a command line.
type CommandAnswer struct {
	Stdout Text `json:"stdout,omitempty"`
	Stderr Text `json:"stderr,omitempty"`
	Exit   int  `json:"exit"` // exit status
	// Job is the number of the job that was submitted. Wait tells how it ends.
	Job  uint32 `json:"job,omitempty"`
	Sync bool   `json:"sync,omitempty"` // the command waits for the end of the job
	// Boot is that of a WaitAnswer of the same process of the daemon. It is set if Sync is.
	Boot string `json:"boot,omitempty"`
	// Terse says that nothing but its number is printed of the job (-terse).
	Terse bool `json:"terse,omitempty"`
	// Command is the name of the command.
	Command string `json:"command,omitempty"`
	// Interactive says that the command attaches itself to the job when it runs; Verbose, that
	// it says so (-verbose), and NoStdin, that nothing is typed (-nostdin).
	Interactive bool  `json:"interactive,omitempty"`
	Verbose     bool  `json:"verbose,omitempty"`
	NoStdin     bool  `json:"no_stdin,omitempty"`
	Edit        *File `json:"edit,omitempty"` // to be edited: then the same command again, with Edited
	// Verify is a job to be verified; nothing has been done yet.
	Verify *Verify `json:"verify,omitempty"`
	// Confirm is the socket of the launcher. The client confirms the job there and sends the same
	// command again, with Confirmed. Until then the command has changed nothing.
	Confirm Text `json:"confirm,omitempty"`
	// Amend are jobs that the command changes or copies, and of which the launcher is to be told: then the same
	// command again, with Amended.
	Amend []Amend `json:"amend,omitempty"`
}

// Amend is a job that was submitted before, with what its owner has told the launcher of it.
type Amend struct {
	Job        uint32          `json:"job"`
	UID        uint32          `json:"uid"` // of the owner
	Key        string          `json:"key"`
	Submission json.RawMessage `json:"submission"` // see docs/design/front-and-launcher.md
}

// Amended is the confirmation of such a job to the launcher.
type Amended struct {
	Job    uint32 `json:"job"` // of Amend
	Key    string `json:"key"`
	Digest string `json:"digest"`
}

// WaitRequest asks for the ends of the tasks of a job of the caller, without the first After ends,
// which the caller already knows. The daemon answers when there is a new end, or after a while
// without one.
type WaitRequest struct {
	Job   uint32 `json:"job"`
	After int    `json:"after,omitempty"`
	Boot  string `json:"boot,omitempty"` // that of the answer from which After is
	// Start requests an answer also when the job begins to run.
	Start bool `json:"start,omitempty"`
}

// WaitAnswer holds new ends of tasks and the state of the job.
type WaitAnswer struct {
	// Boot identifies the daemon's process: another process may report the same ends again.
	Boot string `json:"boot"`
	Ends []End  `json:"ends,omitempty"`
	// Gone says that the job has left the queue, and that no more ends will follow.
	Gone bool `json:"gone,omitempty"`
	// Running says that the job runs. It is also set in answers to requests without Start.
	Running bool `json:"running,omitempty"`
	// Later is the number of seconds after which the caller, who has too many waiting calls, has to
	// ask again; 0 for at once.
	Later int `json:"later,omitempty"`
}

// PlacesAnswer holds the paths of the daemon's files that users read themselves.
type PlacesAnswer struct {
	Accounting Text `json:"accounting,omitempty"` // the accounting file (accounting(5)); empty if there is none
}

// LinkAnswer is a link with which the caller enters the web pages. It works once.
type LinkAnswer struct {
	Link    string `json:"link"`
	Seconds int    `json:"seconds"` // after which it is invalid
}

// End describes the end of a task.
type End struct {
	Task       uint32 `json:"task,omitempty"` // 0 for a job that is not an array job
	Ran        bool   `json:"ran"`
	ExitStatus int    `json:"exit_status"`
	Signal     int    `json:"signal,omitempty"`
	Failed     int    `json:"failed,omitempty"`
	Reason     string `json:"reason,omitempty"` // one sentence for people
}

// Client talks to the daemon.
type Client struct {
	agent    *agentapi.Client
	retry    time.Duration
	stranger atomic.Bool
}

// Patience is how long the daemon waits with an answer to Wait.
const Patience = 20 * time.Second

// Dial makes a client for a socket. The first call connects to the daemon. Dial calls lost each
// time the daemon cannot be reached, before the next attempt.
func Dial(socket string, retry time.Duration, lost func(error)) (*Client, error) {
	c := &Client{retry: retry}
	var err error
	c.agent, err = agentapi.Dial(agentapi.Options{
		Socket: socket, RetryFor: retry, Timeout: 10 * time.Minute, Lost: lost,
		Connected: func(conn net.Conn) error {
			uid, err := peer(conn)
			if err == nil && uid != 0 && uid != os.Geteuid() {
				c.stranger.Store(true)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Stranger reports whether any connection of the client was with a process that is neither root's nor of this user: the
// front of a daemon of two processes, which could not do anything in the name of this user.
func (c *Client) Stranger() bool { return c.stranger.Load() }

// Agent returns the client for the agent in the same process.
func (c *Client) Agent() *agentapi.Client { return c.agent }

// Command makes the daemon carry out a command line.
func (c *Client) Command(ctx context.Context, q *CommandRequest) (*CommandAnswer, error) {
	a := &CommandAnswer{}
	if err := c.call(ctx, PathCommand, q, a); err != nil {
		return nil, err
	}
	return a, nil
}

// Ending is the error of a daemon that is stopping: ask the next daemon.
const Ending = "the daemon is stopping; submitted jobs are saved"

// call makes a call. If the daemon is stopping, it asks the next daemon.
func (c *Client) call(ctx context.Context, path string, q, a any) error {
	for end := time.Now().Add(c.retry); ; {
		err := c.agent.Call(ctx, path, q, a)
		e, ok := errors.AsType[*agentapi.Error](err)
		if !ok || e.Code != agentapi.Unavailable || e.Message != Ending || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(endingPause):
		case <-ctx.Done():
			return err
		}
	}
}

const endingPause = 100 * time.Millisecond

// Wait waits for ends of tasks of a job: see WaitRequest.
func (c *Client) Wait(ctx context.Context, q WaitRequest) (*WaitAnswer, error) {
	for {
		a := &WaitAnswer{}
		if err := c.call(ctx, PathWait, q, a); err != nil {
			return nil, fmt.Errorf("job %d: %w", q.Job, err)
		}
		if a.Later <= 0 {
			return a, nil
		}
		c.agent.Close() // others can do with the connection
		// A random pause, so that waiting clients do not all call at the same moment.
		pause := time.Duration(a.Later)*time.Second + rand.N(time.Second)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("job %d: %w", q.Job, ctx.Err())
		}
	}
}

// Places returns the paths of the daemon's files that users read themselves.
func (c *Client) Places(ctx context.Context) (*PlacesAnswer, error) {
	a := &PlacesAnswer{}
	if err := c.call(ctx, PathPlaces, struct{}{}, a); err != nil {
		return nil, err
	}
	return a, nil
}

// Link makes a link to the web pages of the daemon.
func (c *Client) Link(ctx context.Context) (*LinkAnswer, error) {
	a := &LinkAnswer{}
	if err := c.call(ctx, PathLink, struct{}{}, a); err != nil {
		return nil, err
	}
	return a, nil
}

type remoteKey struct{}

// From returns a context for calls that a user makes from an address to the master of the same process, such as
// calls of web pages.
func From(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, remoteKey{}, address)
}

// Remote returns the address of From; empty for none.
func Remote(ctx context.Context) string {
	address, _ := ctx.Value(remoteKey{}).(string)
	return address
}
