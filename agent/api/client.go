package api

import (
	"context"
	"crypto/rand"
)

// Start gives the agent a job. If Start returns without an error, the job is on the disk of the
// host and will run. Repeating the same start changes nothing and returns the current state of the
// job.
func (c *Client) Start(ctx context.Context, s Start) (Job, error) {
	var answer JobAnswer
	err := c.call(ctx, MethodStart, s.packed(), &answer, true)
	return answer.Job, err
}

// StartBatch calls Start for several jobs. Results are in the order of starts. An error applies to
// the call as a whole: it is then unknown which jobs the agent accepted, and the caller can send
// the same batch again.
func (c *Client) StartBatch(ctx context.Context, starts []Start) ([]StartResult, error) {
	request := BatchRequest{Starts: make([]Start, len(starts))}
	for i := range starts {
		request.Starts[i] = starts[i].packed()
	}
	var answer BatchAnswer
	err := c.call(ctx, MethodStartBatch, request, &answer, true)
	return answer.Results, err
}

// Admit asks whether the agent would accept a start now, and changes nothing. It returns nil if the
// agent would.
func (c *Client) Admit(ctx context.Context, s Start) error {
	return c.call(ctx, MethodAdmit, s.packed(), &Empty{}, true)
}

// StartTask starts a task of a parallel job that runs on the host. A task without a key gets a
// random one, by which the agent recognizes repetitions of the call.
func (c *Client) StartTask(ctx context.Context, s TaskStart) (Job, error) {
	if s.Key == "" {
		s.Key = "task-" + rand.Text()
	}
	var answer JobAnswer
	err := c.call(ctx, MethodStartTask, s.packed(), &answer, true)
	return answer.Job, err
}

// Signal gives an order to a job, or with Task -1 to all its tasks. A master without an epoch sends
// Usr1 and Usr2 only once: if no answer comes, it is unknown whether they arrived.
func (c *Client) Signal(ctx context.Context, id ID, o Order) error {
	return c.call(ctx, MethodSignal, SignalRequest{id, o}, &Empty{}, c.options.Epoch > 0 || o != Usr1 && o != Usr2)
}

// SignalQueue suspends or resumes all jobs of a queue of the host.
func (c *Client) SignalQueue(ctx context.Context, queue string, o Order) error {
	return c.call(ctx, MethodSignalQueue, SignalQueueRequest{queue, o}, &Empty{}, true)
}

// SetTickets sets the tickets of running jobs.
func (c *Client) SetTickets(ctx context.Context, tickets []Tickets) error {
	return c.call(ctx, MethodSetTickets, TicketsRequest{tickets}, &Empty{}, true)
}

// Configure makes the agent read its configuration again and returns the version in use. If files
// is not nil, the files first replace the whole configuration. After an error nothing has changed.
func (c *Client) Configure(ctx context.Context, files map[string]string) (version string, err error) {
	var answer ConfigureAnswer
	err = c.call(ctx, MethodConfigure, ConfigureRequest{files}, &answer, true)
	return answer.Version, err
}

// FullReport makes the agent include all load values in its next report of load values.
func (c *Client) FullReport(ctx context.Context) error {
	return c.call(ctx, MethodFullReport, Empty{}, &Empty{}, true)
}

// Acknowledge confirms that all reports up to a number have arrived and will not be requested
// again. The agent then removes the finished jobs among them.
func (c *Client) Acknowledge(ctx context.Context, number uint64) error {
	return c.call(ctx, MethodAcknowledge, AcknowledgeRequest{Number: number}, &Empty{}, true)
}

// AcknowledgeJob confirms the report of the end of one job. number is the number of that report.
func (c *Client) AcknowledgeJob(ctx context.Context, id ID, number uint64) error {
	return c.call(ctx, MethodAcknowledge, AcknowledgeRequest{Number: number, Job: &id}, &Empty{}, true)
}

// Jobs returns all jobs of the host, in the order of their numbers.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	var answer JobsAnswer
	err := c.call(ctx, MethodJobs, Empty{}, &answer, true)
	return answer.Jobs, err
}

// Job returns one job. The error has the code NotFound if the host does not have the job.
func (c *Client) Job(ctx context.Context, id ID) (Job, error) {
	var answer JobAnswer
	err := c.call(ctx, MethodJob, JobRequest{id}, &answer, true)
	return answer.Job, err
}

// Drain makes the agent refuse new jobs until ResumeHost.
func (c *Client) Drain(ctx context.Context, reason string) error {
	return c.call(ctx, MethodDrain, DrainRequest{reason}, &Empty{}, true)
}

// ResumeHost reverts Drain.
func (c *Client) ResumeHost(ctx context.Context) error {
	return c.call(ctx, MethodResume, Empty{}, &Empty{}, true)
}

// Shutdown stops the agent. Its jobs continue unless endJobs is true.
func (c *Client) Shutdown(ctx context.Context, endJobs bool) error {
	return c.call(ctx, MethodShutdown, ShutdownRequest{endJobs}, &Empty{}, true)
}

// Health returns the agent's status.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var answer Health
	err := c.call(ctx, MethodHealth, Empty{}, &answer, true)
	return answer, err
}

// Version returns the version of the agent and the methods that the caller may use.
func (c *Client) Version(ctx context.Context) (VersionAnswer, error) {
	var answer VersionAnswer
	err := c.call(ctx, MethodVersion, Empty{}, &answer, true)
	return answer, err
}
