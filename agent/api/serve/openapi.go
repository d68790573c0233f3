package serve

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/openapi"
)

// shapes describes the methods of the agent for the OpenAPI document.
func shapes() map[api.Method]openapi.Operation {
	return map[api.Method]openapi.Operation{
		api.MethodStart:       {Summary: "Start a job.", In: api.Start{}, Out: api.JobAnswer{}},
		api.MethodStartBatch:  {Summary: "Start several jobs.", In: api.BatchRequest{}, Out: api.BatchAnswer{}},
		api.MethodAdmit:       {Summary: "Ask whether the host has room for a job.", In: api.Start{}, Out: api.Empty{}},
		api.MethodStartTask:   {Summary: "Start a task of a parallel job.", In: api.TaskStart{}, Out: api.JobAnswer{}},
		api.MethodAttach:      {Summary: "Connect a terminal with an interactive job.", In: api.JobRequest{}, Out: api.Empty{}, Connection: true},
		api.MethodSignal:      {Summary: "Suspend, resume or end a job.", In: api.SignalRequest{}, Out: api.Empty{}},
		api.MethodSignalQueue: {Summary: "Suspend or resume the jobs of a queue.", In: api.SignalQueueRequest{}, Out: api.Empty{}},
		api.MethodSetTickets:  {Summary: "Set the tickets of running jobs.", In: api.TicketsRequest{}, Out: api.Empty{}},
		api.MethodConfigure:   {Summary: "Replace the configuration.", In: api.ConfigureRequest{}, Out: api.ConfigureAnswer{}},
		api.MethodFullReport:  {Summary: "Have the next report contain everything.", In: api.Empty{}, Out: api.Empty{}},
		api.MethodAcknowledge: {Summary: "Confirm that the end of a job has arrived.", In: api.AcknowledgeRequest{}, Out: api.Empty{}},
		api.MethodJobs:        {Summary: "List the jobs of the host.", In: api.Empty{}, Out: api.JobsAnswer{}},
		api.MethodJob:         {Summary: "Show a job.", In: api.JobRequest{}, Out: api.JobAnswer{}},
		api.MethodDrain:       {Summary: "Accept no more jobs.", In: api.DrainRequest{}, Out: api.Empty{}},
		api.MethodResume:      {Summary: "Accept jobs again.", In: api.Empty{}, Out: api.Empty{}},
		api.MethodShutdown:    {Summary: "End the agent.", In: api.ShutdownRequest{}, Out: api.Empty{}},
		api.MethodHealth:      {Summary: "Show the status of the agent.", In: api.Empty{}, Out: api.Health{}},
		api.MethodVersion:     {Summary: "Show the version and the methods of the agent.", In: api.Empty{}, Out: api.VersionAnswer{}},
		api.MethodReports:     {Summary: "Follow the changes on the host.", In: api.ReportsRequest{}, Out: api.Report{}, Lines: true},
	}
}

// OpenAPI returns the OpenAPI document of the agent and of further methods.
func OpenAPI(further map[string]Method) ([]byte, error) {
	d := openapi.Document{
		Title: "execd", Version: strings.TrimPrefix(api.Name, "execd.v") + "." + strconv.Itoa(api.Revision), Error: api.Error{},
		Description: "The interface of execd: JSON over HTTP, as the unary calls of the Connect protocol. docs/api.md describes the methods, the permissions and the meaning of the fields.",
	}
	for _, name := range slices.Sorted(maps.Keys(table())) {
		o := shapes()[name]
		o.Path = api.Path + string(name)
		d.Operations = append(d.Operations, o)
	}
	for _, path := range slices.Sorted(maps.Keys(further)) {
		if m := further[path]; m.In != nil {
			d.Operations = append(d.Operations, openapi.Operation{Path: path, Summary: m.Summary, In: m.In, Out: m.Out})
		}
	}
	return d.JSON()
}

// serveOpenAPI sends the document to every caller who may make calls.
func (c *call) serveOpenAPI() *api.Error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		c.w.Header().Set("Allow", "GET, HEAD")
		c.status = http.StatusMethodNotAllowed
		return refuse(api.Unimplemented, "the HTTP method is %s, expected GET", c.r.Method)
	}
	if _, err := c.server.identify(c.r); err != nil {
		return err
	}
	text, err := c.server.document()
	if err != nil {
		return refuse(api.Internal, "%v", err)
	}
	c.begin()
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(text) // fails only if the peer has disconnected
	return nil
}
