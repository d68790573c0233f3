package message

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// The commands and targets of a Request that a daemon has.
const (
	commandGet       = 1
	commandAdd       = 2
	commandTrigger   = 5
	commandRestarted = 0x8000 // in addition to commandAdd
	targetExecHosts  = 3
	targetQueues     = 4
	targetJobs       = 5
	targetConf       = 10
)

// Request is a message with TagGDIRequest, or its answer: one task of the Grid Engine
// database interface.
type Request struct {
	Command, Target uint32
	Version         uint32 // of the GDI, which EncodeRequest sets
	Data            *cull.List
	Answers         []Answer
	Condition       *Condition
	What            *What
	Task, Packet    uint32 // which 9.1 does not have
}

// Answer is the result of a Request.
type Answer struct {
	_       struct{} `cull:"AN"`
	Status  uint32   `cull:"status"` // StatusOK or an error
	Text    string   `cull:"text"`
	Quality uint32   `cull:"quality"` // meaningless: 1 for some errors and some successes
}

// StatusOK is the status of an Answer to a Request that was carried out.
const StatusOK = 1

// Condition chooses elements of a list: a comparison with one attribute, or others
// joined by and, or, not.
type Condition struct {
	Operator  uint32
	Position  uint32
	Attribute cull.Attribute
	Value     any          // a type of package cull
	Parts     []*Condition // of and, or: two; of not and of a comparison with a list: one
}

// The operators of a Condition that are used here, as 8.1 numbers them.
const (
	operatorWithin = 3  // an element of the list meets a condition
	OperatorText   = 26 // without regard to case
	OperatorHost   = 28
	OperatorAnd    = 29
	OperatorOr     = 30
	OperatorNot    = 31
)

// What selects attributes of elements.
type What struct {
	Kind uint32 // WhatAll, 1 for none, 2 for Attributes
	// Attributes is the number of attributes. Decoding skips their contents.
	Attributes int
}

// WhatAll is What.Kind for all attributes.
const WhatAll = 0

// ConfigurationRequest asks for the global configuration and that of a host.
func (c *Codec) ConfigurationRequest(host string, packet uint32) *Request {
	name := c.format.DescriptorOf("CONF")[0]
	return &Request{
		Command: commandGet, Target: targetConf, Task: 1, Packet: packet, What: &What{Kind: WhatAll},
		Condition: &Condition{Operator: OperatorOr, Parts: []*Condition{
			{Operator: OperatorText, Attribute: name, Value: "global"},
			{Operator: OperatorHost, Attribute: name, Value: host},
		}},
	}
}

// FirstRequest asks for the configuration while the protocol of sge_qmaster is not certain. For
// releases up to 9.0 it asks for all configurations, because a condition in the form of another
// release crashes an sge_qmaster of 8.1.9 (tested).
func (c *Codec) FirstRequest(host string, packet uint32) *Request {
	r := c.ConfigurationRequest(host, packet)
	if c.conditionHarms() {
		r.Condition = nil
	}
	return r
}

// conditionHarms reports whether a master of another release would parse a request up to its
// condition, and misread the comparisons in it.
func (c *Codec) conditionHarms() bool {
	return slices.ContainsFunc(Protocols, func(p *Protocol) bool { return p.format.Version == c.format.Version && p.operators < c.operators })
}

// LocalConfigurationRequest asks for the local configuration of a host only. If there is none, the
// answer is empty.
func (c *Codec) LocalConfigurationRequest(host string, packet uint32) *Request {
	r := c.ConfigurationRequest(host, packet)
	r.Condition = r.Condition.Parts[1]
	return r
}

type execHost struct {
	_          struct{} `cull:"EH"`
	FeatureSet uint32   `cull:"featureset_id"`
}

// RegistrationRequest registers the daemon of the connection with qmaster. Again says that the same
// process was registered before: the states of the queues then do not change.
func (c *Codec) RegistrationRequest(packet uint32, again bool) *Request {
	r := &Request{
		Command: commandAdd, Target: targetExecHosts, Task: 1, Packet: packet,
		Data: cull.MarshalList(c.format, "", []execHost{{FeatureSet: 1}}),
	}
	if again {
		r.Command |= commandRestarted
	}
	return r
}

// reference names the object of a trigger, and the action.
type reference struct {
	_      struct{} `cull:"ID"`
	Text   string   `cull:"str"`
	Action uint32   `cull:"action"`
}

// clearError is the action of qmod(1), -cq.
const clearError = 0x40004000

// ClearErrorRequest takes queue instances out of error state, as qmod -cq does. Each instance gets
// a separate answer.
func (c *Codec) ClearErrorRequest(instances []string, packet uint32) *Request {
	list := make([]reference, len(instances))
	for i, name := range instances {
		list[i] = reference{Text: name, Action: clearError}
	}
	return &Request{
		Command: commandTrigger, Target: targetQueues, Task: 1, Packet: packet,
		Data: cull.MarshalList(c.format, "", list),
	}
}

// Configuration is one configuration of sge_conf(5) in qmaster.
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
func (c *Codec) Configurations(r *Request) ([]Configuration, error) {
	return cull.UnmarshalList[Configuration](c.format, r.Data)
}

// Failure returns the first answer with an error, or nil.
func (r *Request) Failure() *Answer {
	for i := range r.Answers {
		if r.Answers[i].Status != StatusOK {
			return &r.Answers[i]
		}
	}
	return nil
}

// Remark reports whether the answer is only a remark, e.g. that there was nothing to do.
func (a *Answer) Remark() bool {
	const info = 3
	return a.Quality >= info
}

// Message returns the text of the answer without its end of line.
func (a *Answer) Message() string { return strings.TrimSpace(a.Text) }

// EncodeRequest packs a request.
func (c *Codec) EncodeRequest(r *Request) []byte {
	e := c.begin()
	if c.envelope {
		e.Ulong(c.gdi)
		e.Ulong(r.Command &^ commandRestarted)
		e.Ulong(r.Command & commandRestarted)
		e.Ulong(r.Target)
	} else {
		e.Ulong(r.Command)
		e.Ulong(r.Target)
		e.Ulong(c.gdi)
	}
	e.List(r.Data)
	e.List(cull.MarshalList(c.format, "", r.Answers))
	c.encodeCondition(e, r.Condition)
	e.Bool(r.What != nil)
	if r.What != nil {
		e.Ulong(r.What.Kind)
	}
	if !c.envelope {
		e.String(c.auth())
		e.Ulong(r.Task)
		e.Ulong(r.Packet)
	}
	e.Ulong(0) // no further task
	return e.Bytes()
}

func (c *Codec) encodeCondition(e *cull.Encoder, x *Condition) {
	e.Bool(x != nil)
	if x == nil {
		return
	}
	e.Ulong(c.operatorNumber(x.Operator))
	if x.Operator < OperatorAnd {
		e.Ulong(x.Position)
		e.Ulong(x.Attribute.Word)
		e.Ulong(x.Attribute.ID)
		switch v := x.Value.(type) {
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
	for _, p := range x.Parts {
		c.encodeCondition(e, p)
	}
}

// DecodeRequest reads a request or its answer, of one task.
func (c *Codec) DecodeRequest(payload []byte) (*Request, error) {
	d := c.open(payload)
	r := &Request{}
	if c.envelope {
		r.Version, r.Command = d.Ulong(), d.Ulong()
		r.Command |= d.Ulong() & commandRestarted
		r.Target = d.Ulong()
	} else {
		r.Command, r.Target, r.Version = d.Ulong(), d.Ulong(), d.Ulong()
	}
	r.Data = d.List()
	answers := d.List()
	r.Condition = c.decodeCondition(d, 0)
	r.What = decodeWhat(d, 0)
	if !c.envelope {
		_ = d.String() // the sender
		r.Task, r.Packet = d.Ulong(), d.Ulong()
	}
	if more := d.Bool(); more {
		d.Fail("a request of several tasks")
	}
	if err := d.End(); err != nil {
		return nil, within("GDI request", err)
	}
	var err error
	r.Answers, err = cull.UnmarshalList[Answer](c.format, answers)
	return r, within("GDI request", err)
}

// maxConditions bounds how deep conditions and choices are within each other.
const maxConditions = 16

func (c *Codec) decodeCondition(d *cull.Decoder, depth int) *Condition {
	if !d.Bool() {
		return nil
	}
	if depth > maxConditions {
		d.Fail("conditions are more than %d deep", maxConditions)
		return nil
	}
	x := &Condition{Operator: c.operatorOf(d.Ulong())}
	switch x.Operator {
	case OperatorAnd, OperatorOr:
		x.Parts = []*Condition{c.decodeCondition(d, depth+1), c.decodeCondition(d, depth+1)}
	case OperatorNot:
		x.Parts = []*Condition{c.decodeCondition(d, depth+1)}
	default:
		x.Position = d.Ulong()
		x.Attribute.Word, x.Attribute.ID = d.Ulong(), d.Ulong()
		switch x.Attribute.Type() {
		case cull.Ulong:
			x.Value = d.Ulong()
		case cull.Bool:
			x.Value = d.Bool()
		case cull.Double:
			x.Value = d.Double()
		case cull.String, cull.Host:
			x.Value = d.String()
		case cull.ListOf:
			x.Parts = []*Condition{c.decodeCondition(d, depth+1)}
		default:
			d.Fail("a comparison with %v", x.Attribute.Type())
		}
	}
	if d.Err() != nil {
		return nil
	}
	return x
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

// ListOf packs elements as the data of a Request: []Configuration, for instance.
func ListOf[T any](c *Codec, elements []T) *cull.List {
	return cull.MarshalList(c.format, "", elements)
}
