package message

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// The commands and targets of a Request that a daemon has.
const (
	commandGet       = 1
	commandAdd       = 2
	commandTrigger   = 5
	commandRestarted = 0x8000 // beside commandAdd
	targetExecHosts  = 3
	targetQueues     = 4
	targetJobs       = 5
	targetConf       = 10
)

// Request is a message with TagGDIRequest, or its answer: one task of the Grid Engine
// database interface.
type Request struct {
	Command, Target, Version uint32
	Data                     *cull.List
	Answers                  []Answer
	Condition                *Condition
	What                     *What
	Auth                     string // see Auth
	Task, Packet             uint32
}

// Answer is what became of a Request.
type Answer struct {
	_       struct{} `cull:"AN"`
	Status  uint32   `cull:"status"` // StatusOK, or what is wrong
	Text    string   `cull:"text"`
	Quality uint32   `cull:"quality"` // of no meaning: it is 1 for some errors and some successes
}

// StatusOK is the status of an Answer to a Request that was carried out.
const StatusOK = 1

// Auth says who sends a Request: for a daemon a user who is root or admin_user of
// bootstrap(5).
func Auth(uid, gid int, user, group string) string {
	return fmt.Sprintf("none:%d %d %s %s", uid, gid, user, group)
}

// Condition chooses elements of a list: a comparison with one attribute, or others
// joined by and, or, not.
type Condition struct {
	Operator  uint32
	Position  uint32
	Attribute cull.Attribute
	Value     any          // as package cull has it
	Parts     []*Condition // of and, or: two; of not and of a comparison with a list: one
}

// The operators of a Condition that are used here.
const (
	operatorWithin = 3  // an element of the list meets a condition
	OperatorText   = 26 // without regard to case
	OperatorHost   = 28
	OperatorAnd    = 29
	OperatorOr     = 30
	OperatorNot    = 31
)

// What chooses attributes of elements.
type What struct {
	Kind uint32 // WhatAll, 1 for none, 2 for Attributes
	// Attributes is the number of attributes. Decoding skips their contents.
	Attributes int
}

// WhatAll is What.Kind for all attributes.
const WhatAll = 0

// ConfigurationRequest asks for the global configuration and that of a host.
func ConfigurationRequest(host, auth string, packet uint32) *Request {
	name := cull.DescriptorOf("CONF")[0]
	return &Request{
		Command: commandGet, Target: targetConf, Version: GDIVersion, Auth: auth, Task: 1, Packet: packet, What: &What{Kind: WhatAll},
		Condition: &Condition{Operator: OperatorOr, Parts: []*Condition{
			{Operator: OperatorText, Attribute: name, Value: "global"},
			{Operator: OperatorHost, Attribute: name, Value: host},
		}},
	}
}

// LocalConfigurationRequest asks for the configuration of a host alone. The answer has none
// where there is none.
func LocalConfigurationRequest(host, auth string, packet uint32) *Request {
	r := ConfigurationRequest(host, auth, packet)
	r.Condition = r.Condition.Parts[1]
	return r
}

type execHost struct {
	_          struct{} `cull:"EH"`
	FeatureSet uint32   `cull:"featureset_id"`
}

// RegistrationRequest makes the daemon of the connection known to qmaster. Again says
// that it was before, in the life of the same process: then the states of the queues
// stay as they are.
func RegistrationRequest(auth string, packet uint32, again bool) *Request {
	r := &Request{
		Command: commandAdd, Target: targetExecHosts, Version: GDIVersion, Auth: auth, Task: 1, Packet: packet,
		Data: cull.MarshalList("", []execHost{{FeatureSet: 1}}),
	}
	if again {
		r.Command |= commandRestarted
	}
	return r
}

// reference names what a trigger is about, and says what is to be done.
type reference struct {
	_      struct{} `cull:"ID"`
	Text   string   `cull:"str"`
	Action uint32   `cull:"action"`
}

// clearError is the action of qmod(1), -cq.
const clearError = 0x40004000

// ClearErrorRequest takes queue instances out of error state, as qmod -cq does. Each of them
// has an answer of its own.
func ClearErrorRequest(instances []string, auth string, packet uint32) *Request {
	list := make([]reference, len(instances))
	for i, name := range instances {
		list[i] = reference{Text: name, Action: clearError}
	}
	return &Request{
		Command: commandTrigger, Target: targetQueues, Version: GDIVersion, Auth: auth, Task: 1, Packet: packet,
		Data: cull.MarshalList("", list),
	}
}

// Configuration is one configuration of sge_conf(5), as qmaster has it.
type Configuration struct {
	_       struct{}             `cull:"CONF"`
	Name    string               `cull:"name"` // "global", or a host
	Version uint32               `cull:"version"`
	Entries []ConfigurationEntry `cull:"entries"`
}

// ConfigurationEntry is one parameter.
type ConfigurationEntry struct {
	_     struct{} `cull:"CF"`
	Name  string   `cull:"name"`
	Value string   `cull:"value"`
}

// Configurations are the data of the answer to a ConfigurationRequest.
func (r *Request) Configurations() ([]Configuration, error) {
	return cull.UnmarshalList[Configuration](r.Data)
}

// Failure is the first answer that says that something is wrong; nil for none.
func (r *Request) Failure() *Answer {
	for i := range r.Answers {
		if r.Answers[i].Status != StatusOK {
			return &r.Answers[i]
		}
	}
	return nil
}

// Remark reports whether the answer is no refusal: e.g. that there was nothing to do.
func (a *Answer) Remark() bool {
	const info = 3
	return a.Quality >= info
}

// Message is the text of the answer without its end of line.
func (a *Answer) Message() string { return strings.TrimSpace(a.Text) }

// Encode packs a request.
func (r *Request) Encode() []byte {
	e := begin()
	e.Ulong(r.Command)
	e.Ulong(r.Target)
	e.Ulong(r.Version)
	e.List(r.Data)
	e.List(cull.MarshalList("", r.Answers))
	encodeCondition(e, r.Condition)
	e.Bool(r.What != nil)
	if r.What != nil {
		e.Ulong(r.What.Kind)
	}
	e.String(r.Auth)
	e.Ulong(r.Task)
	e.Ulong(r.Packet)
	e.Ulong(0) // no further task
	return e.Bytes()
}

func encodeCondition(e *cull.Encoder, c *Condition) {
	e.Bool(c != nil)
	if c == nil {
		return
	}
	e.Ulong(c.Operator)
	if c.Operator < OperatorAnd {
		e.Ulong(c.Position)
		e.Ulong(c.Attribute.Word)
		e.Ulong(c.Attribute.ID)
		switch v := c.Value.(type) {
		case uint32:
			e.Ulong(v)
		case bool:
			e.Bool(v)
		case float64:
			e.Double(v)
		case string:
			e.String(v)
		}
	}
	for _, p := range c.Parts {
		encodeCondition(e, p)
	}
}

// DecodeRequest reads a request or its answer, of one task.
func DecodeRequest(payload []byte) (*Request, error) {
	d := open(payload)
	r := &Request{Command: d.Ulong(), Target: d.Ulong(), Version: d.Ulong(), Data: d.List()}
	answers := d.List()
	r.Condition = decodeCondition(d, 0)
	r.What = decodeWhat(d, 0)
	r.Auth, r.Task, r.Packet = d.String(), d.Ulong(), d.Ulong()
	if more := d.Bool(); more {
		d.Fail("a request of several tasks")
	}
	if err := d.End(); err != nil {
		return nil, within("GDI request", err)
	}
	var err error
	r.Answers, err = cull.UnmarshalList[Answer](answers)
	return r, within("GDI request", err)
}

// maxConditions bounds how deep conditions and choices are within each other.
const maxConditions = 16

func decodeCondition(d *cull.Decoder, depth int) *Condition {
	if !d.Bool() {
		return nil
	}
	if depth > maxConditions {
		d.Fail("conditions are more than %d deep", maxConditions)
		return nil
	}
	c := &Condition{Operator: d.Ulong()}
	switch c.Operator {
	case OperatorAnd, OperatorOr:
		c.Parts = []*Condition{decodeCondition(d, depth+1), decodeCondition(d, depth+1)}
	case OperatorNot:
		c.Parts = []*Condition{decodeCondition(d, depth+1)}
	default:
		c.Position = d.Ulong()
		c.Attribute.Word, c.Attribute.ID = d.Ulong(), d.Ulong()
		switch c.Attribute.Type() {
		case cull.Ulong:
			c.Value = d.Ulong()
		case cull.Bool:
			c.Value = d.Bool()
		case cull.Double:
			c.Value = d.Double()
		case cull.String, cull.Host:
			c.Value = d.String()
		case cull.ListOf:
			c.Parts = []*Condition{decodeCondition(d, depth+1)}
		default:
			d.Fail("a comparison with %v", c.Attribute.Type())
		}
	}
	if d.Err() != nil {
		return nil
	}
	return c
}

func decodeWhat(d *cull.Decoder, depth int) *What {
	if !d.Bool() {
		return nil
	}
	if depth > maxConditions {
		d.Fail("choices of attributes are more than %d deep", maxConditions)
		return nil
	}
	w := &What{Kind: d.Ulong()}
	const some = 2
	if w.Kind == some {
		n := d.Ulong()
		for w.Attributes = 0; w.Attributes < int(n) && d.Err() == nil; w.Attributes++ {
			for range 3 {
				d.Ulong()
			}
			decodeWhat(d, depth+1)
		}
	}
	return w
}
