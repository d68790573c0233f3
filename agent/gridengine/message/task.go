package message

import "github.com/execd-project/execd/agent/gridengine/cull"

// TaskRequest asks for a task of a parallel job: a message with TagJobExecution of
// another component than qmaster.
type TaskRequest struct {
	_           struct{}    `cull:"PETR"`
	Job         uint32      `cull:"jobid"`
	Task        uint32      `cull:"jataskid"` // 1 for a job that is not an array job
	Queue       string      `cull:"queuename"`
	Owner       string      `cull:"owner"`
	Cwd         string      `cull:"cwd"`
	PathAliases []Alias     `cull:"path_aliases"`
	Environment []Variable  `cull:"environment"`
	Submitted   cull.Micros `cull:"submission_time"` // since 1970
	Certificate string      `cull:"cred"`            // of the client, in PEM; security_mode tls
}

// EncodeTaskRequest packs a request for a task.
func (c *Codec) EncodeTaskRequest(t *TaskRequest) []byte { return c.encodeElement(t) }

// DecodeTaskRequest reads a request for a task.
func (c *Codec) DecodeTaskRequest(payload []byte) (*TaskRequest, error) {
	t := &TaskRequest{}
	return t, c.decodeElement(payload, "request for a task", t)
}

// featureSet is the number of a set of features that there is one of.
const featureSet = 1

// encodeElement packs a message of one element.
func (c *Codec) encodeElement(v any) []byte {
	e := c.begin()
	if c.features {
		e.Ulong(featureSet)
	}
	e.Element(c.format.Marshal(v))
	return e.Bytes()
}

// decodeElement reads a message of one element.
func (c *Codec) decodeElement(payload []byte, what string, v any) error {
	d := c.open(payload)
	if c.features {
		if n := d.Ulong(); d.Err() == nil && n != featureSet {
			d.Fail("the set of features %d, expected %d", n, featureSet)
		}
	}
	x := d.Element()
	if err := d.End(); err != nil {
		return within(what, err)
	}
	return within(what, c.format.Unmarshal(x, v))
}

// TaskRefused is the answer instead of an id if a task was not started.
const TaskRefused = "none"

// EncodeTaskID returns the answer to a TaskRequest.
func (c *Codec) EncodeTaskID(id string) []byte {
	e := c.begin()
	e.String(id)
	return e.Bytes()
}

// DecodeTaskID reads the answer to a TaskRequest.
func (c *Codec) DecodeTaskID(payload []byte) (string, error) {
	d := c.open(payload)
	id := d.String()
	return id, within("answer to a request for a task", d.End())
}
