package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/printable"
)

// Version is the version of the format. It increases if a field is removed or changes its meaning.
const Version = 1

// Record describes a change or a refused change. A Log fills in Version, Time, ID, Host and Daemon
// if they are empty.
type Record struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	// ID identifies the call: the records of one call share it.
	ID     string `json:"id"`
	Part   int    `json:"part,omitempty"` // of a record that was divided, from 2 on
	Host   string `json:"host"`
	Daemon string `json:"daemon"` // standalone or agent
	Caller Caller `json:"caller"`
	// Command is the name of a command, such as qalter, of a method of the API, such as Start, or
	// of an event of the daemon: start, stop, reload.
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Exit    int      `json:"exit,omitempty"` // status of a command that is not 0
	// Error says why it was refused, or has failed.
	Error   string   `json:"error,omitempty"`
	Objects []Object `json:"objects,omitempty"`
	// Omitted is how many refused calls of the user before this one have no record.
	Omitted int `json:"omitted,omitempty"`
}

// Outcome is the result of a call.
type Outcome string

// The outcomes.
const (
	// Begun means that the call was about to be carried out. It succeeded unless a later record
	// with the same ID says that it was refused or failed.
	Begun   Outcome = "begun"
	Done    Outcome = "done"
	Refused Outcome = "refused" // nothing has changed
	Failed  Outcome = "failed"  // it could not be carried out or stored: nothing has changed
)

// Caller identifies the caller. Unknown fields are left out.
type Caller struct {
	// Via is the way of the call: socket, tls, loopback, web, gridengine, signal or file.
	Via  string  `json:"via"`
	UID  *uint32 `json:"uid,omitempty"`
	User string  `json:"user,omitempty"`
	// PID is the process that has connected to the socket. It may have ended since.
	PID         int32  `json:"pid,omitempty"`
	Certificate string `json:"certificate,omitempty"` // the name of a master in it
	Token       bool   `json:"token,omitempty"`       // that of --token-file was sent
	Remote      string `json:"remote,omitempty"`      // address and port
}

// Object is a changed object.
type Object struct {
	Kind       string               `json:"kind"` // job, task, queue, conf/global, ...
	Name       string               `json:"name,omitempty"`
	Change     string               `json:"change"` // added, changed or removed
	Attributes map[string]Attribute `json:"attributes,omitempty"`
}

// Attribute holds the old and the new value of one attribute. The old value of an added attribute
// and the new value of a removed one are left out.
type Attribute struct {
	Was any `json:"was,omitempty"`
	Is  any `json:"is,omitempty"`
}

// The changes of objects.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

const (
	// mostText is the maximum length of a text in bytes.
	mostText = 4 << 10
	// mostArgs is the maximum number of words of a command line, and mostArgsText their maximum
	// total length in bytes.
	mostArgs     = 256
	mostArgsText = 16 << 10
	// mostObjects is how many objects a line has: the others follow in lines of their own.
	mostObjects = 200
)

// Lines returns the lines of a record, each with its line break.
func (r *Record) Lines() []byte {
	var b []byte
	part := *r
	part.Args, part.Error = shortArgs(r.Args), short(r.Error)
	rest := r.Objects
	for {
		n := min(len(rest), mostObjects)
		part.Objects = make([]Object, n)
		for i, o := range rest[:n] {
			part.Objects[i] = o.short()
		}
		rest = rest[n:]
		b = append(b, encode(&part)...)
		if len(rest) == 0 {
			return b
		}
		part.Part = max(part.Part, 1) + 1
		part.Args, part.Error = nil, ""
	}
}

// encode returns one line. It escapes, as in JSON, all characters that control a terminal or change
// how a line is displayed, so that no text can forge a record.
func encode(r *Record) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil { // an attribute that cannot be JSON
		r.Objects, r.Error = nil, strings.TrimPrefix(r.Error+"; the objects cannot be written: "+err.Error(), "; ")
		b.Reset()
		_ = e.Encode(r)
	}
	return append(printable.AppendJSON(nil, bytes.TrimRight(b.Bytes(), "\n")), '\n')
}

// short cuts a text to its maximum length.
func short(s string) string {
	s = printableBytes(s)
	if len(s) <= mostText {
		return s
	}
	n := mostText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s ... (%d bytes)", s[:n], len(s))
}

// printableBytes escapes bytes that are not UTF-8, so that they stay distinct: encoding/json
// replaces all of them by the same character.
func printableBytes(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return printable.String(s)
}

// shortText is how many bytes of a text a record has that is shortened.
const shortText = 64

// shorten removes the parts of a record with which a user could fill the disk. The user, the
// objects and the names of changed attributes stay.
func (r *Record) shorten() {
	cut := func(s string) string {
		if s = printableBytes(s); len(s) <= shortText {
			return s
		}
		n := shortText
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		return fmt.Sprintf("%s ... (%d bytes)", s[:n], len(s))
	}
	value := func(v any) any {
		switch v := v.(type) {
		case nil, bool, float64, json.Number:
			return v
		case string:
			return cut(v)
		}
		text, err := json.Marshal(v)
		if err != nil || len(text) > shortText {
			return cut(string(text))
		}
		return v
	}
	r.Args = []string{cut(strings.Join(r.Args, " "))}
	r.Error = cut(r.Error)
	objects := make([]Object, len(r.Objects))
	for i, o := range r.Objects {
		objects[i] = Object{Kind: o.Kind, Name: cut(o.Name), Change: o.Change}
		if o.Change != Changed { // its attributes are in the record that has added it
			continue
		}
		objects[i].Attributes = make(map[string]Attribute, len(o.Attributes))
		for name, a := range o.Attributes {
			objects[i].Attributes[cut(name)] = Attribute{value(a.Was), value(a.Is)}
		}
	}
	r.Objects = objects
}

func shortArgs(args []string) []string {
	var list []string
	room := mostArgsText
	for i, a := range args {
		if i == mostArgs || room <= 0 {
			return append(list, fmt.Sprintf("... (%d words)", len(args)))
		}
		a = short(a)
		room -= len(a)
		list = append(list, a)
	}
	return list
}

func (o Object) short() Object {
	o.Name = short(o.Name)
	if o.Attributes != nil {
		attributes := make(map[string]Attribute, len(o.Attributes))
		for name, a := range o.Attributes {
			attributes[short(name)] = Attribute{shortValue(a.Was), shortValue(a.Is)}
		}
		o.Attributes = attributes
	}
	return o
}

// shortValue cuts a value: a value that is too long becomes a text with its beginning.
func shortValue(v any) any {
	switch v := v.(type) {
	case nil, bool, float64, json.Number:
		return v
	case string:
		return short(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return short(fmt.Sprint(v))
	}
	if len(text) > mostText {
		return short(string(text))
	}
	return v
}
