package message

import (
	"slices"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// JobsRequest asks for the jobs that have slots on a host, according to qmaster.
func (c *Codec) JobsRequest(host string, packet uint32) *Request {
	here := &Condition{Operator: OperatorHost, Value: host}
	here.Position, here.Attribute = c.attribute("JG", "qhostname")
	granted := &Condition{Operator: operatorWithin, Parts: []*Condition{here}}
	granted.Position, granted.Attribute = c.attribute("JAT", "granted_destin_identifier_list")
	tasks := &Condition{Operator: operatorWithin, Parts: []*Condition{granted}}
	tasks.Position, tasks.Attribute = c.attribute("JB", "ja_tasks")
	return &Request{
		Command: commandGet, Target: targetJobs, Task: 1, Packet: packet,
		What: &What{Kind: WhatAll}, Condition: tasks,
	}
}

// attribute returns the place of an attribute among those of a kind of elements, and the attribute.
func (c *Codec) attribute(kind, name string) (uint32, cull.Attribute) {
	i, a := c.format.Attribute(kind, name)
	return uint32(i), a
}

// Listed is a job in the answer to a JobsRequest.
type Listed struct {
	_     struct{}     `cull:"JB"`
	Job   uint32       `cull:"job_number"`
	Owner string       `cull:"owner"`
	Tasks []ListedTask `cull:"ja_tasks"` // those that have been started
}

// ListedTask is a task of such a job.
type ListedTask struct {
	_       struct{}      `cull:"JAT"`
	Number  uint32        `cull:"task_number"` // 1 for a job that is not an array job
	Status  uint32        `cull:"status"`
	Granted []ListedGrant `cull:"granted_destin_identifier_list"`
}

// ListedGrant is a queue instance on which a task has slots.
type ListedGrant struct {
	_     struct{} `cull:"JG"`
	Queue string   `cull:"qname"`
	Host  string   `cull:"qhostname"`
}

// statusRunning is the status of a task whose start has been reported to qmaster.
const statusRunning = 0x80

// RunsOn reports whether a task runs on a host, according to qmaster.
func (t *ListedTask) RunsOn(same func(host string) bool) bool {
	return t.Status&statusRunning != 0 && slices.ContainsFunc(t.Granted, func(g ListedGrant) bool { return same(g.Host) })
}

// Jobs decodes the data of the answer to a JobsRequest.
func (c *Codec) Jobs(r *Request) ([]Listed, error) {
	return cull.UnmarshalList[Listed](c.format, r.Data)
}
