package message

import "github.com/execd-project/execd/agent/gridengine/cull"

// TaskRequest asks for a task of a parallel job: a message with TagJobExecution of
// another component than qmaster.
type TaskRequest struct {
	_           struct{}   `cull:"PETR"`
	Job         uint32     `cull:"jobid"`
	Task        uint32     `cull:"jataskid"` // 1 for a job that is not an array job
	Queue       string     `cull:"queuename"`
	Owner       string     `cull:"owner"`
	Cwd         string     `cull:"cwd"`
	PathAliases []Alias    `cull:"path_aliases"`
	Environment []Variable `cull:"environment"`
	Submitted   uint32     `cull:"submission_time"` // Unix time
}

// featureSet is the number of a set of features that there is one of.
const featureSet = 1

// Encode packs a request for a task.
func (t *TaskRequest) Encode() []byte {
	e := begin()
	e.Ulong(featureSet)
	e.Element(cull.Marshal(t))
	return e.Bytes()
}

// DecodeTaskRequest reads a request for a task.
func DecodeTaskRequest(payload []byte) (*TaskRequest, error) {
	t := &TaskRequest{}
	return t, decodeWithFeatures(payload, "request for a task", t)
}

func decodeWithFeatures(payload []byte, what string, v any) error {
	d := open(payload)
	if n := d.Ulong(); d.Err() == nil && n != featureSet {
		d.Fail("the set of features %d, expected %d", n, featureSet)
	}
	x := d.Element()
	if err := d.End(); err != nil {
		return within(what, err)
	}
	return within(what, cull.Unmarshal(x, v))
}

// TaskRefused is in place of the id of a task that was not started.
const TaskRefused = "none"

// EncodeTaskID is the answer to a TaskRequest.
func EncodeTaskID(id string) []byte {
	e := begin()
	e.String(id)
	return e.Bytes()
}

// DecodeTaskID reads the answer to a TaskRequest.
func DecodeTaskID(payload []byte) (string, error) {
	d := open(payload)
	id := d.String()
	return id, within("answer to a request for a task", d.End())
}
