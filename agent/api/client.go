package api

import (
	"context"
	"crypto/rand"
)

// Start has the agent take a job. When it returns without an error the job is on the
// disk of the host and will run. The same start again changes nothing and is answered
// with what became of the job.
func (c *Client) Start(ctx context.Context, s Start) (Job, error) {
	var answer JobAnswer
	err := c.call(ctx, MethodStart, s.packed(), &answer, true)
	return answer.Job, err
}

// StartBatch is Start for several jobs. Results are in the order of starts; the error is
// one of the call as a whole, after which it is unknown which jobs were taken, and the
// same batch can be sent again.
func (c *Client) StartBatch(ctx context.Context, starts []Start) ([]StartResult, error) {
	request := BatchRequest{Starts: make([]Start, len(starts))}
	for i := range starts {
		request.Starts[i] = starts[i].packed()
	}
	var answer BatchAnswer
	err := c.call(ctx, MethodStartBatch, request, &answer, true)
	return answer.Results, err
}

// Admit asks whether a start would be accepted now, and changes nothing: nil if it
// would.
func (c *Client) Admit(ctx context.Context, s Start) error {
	return c.call(ctx, MethodAdmit, s.packed(), &Empty{}, true)
}

// StartTask starts a task of a parallel job that runs on the host. Without a key the
// task gets a random one, so that repetitions are known.
func (c *Client) StartTask(ctx context.Context, s TaskStart) (Job, error) {
	if s.Key == "" {
		s.Key = "task-" + rand.Text()
	}
	var answer JobAnswer
	err := c.call(ctx, MethodStartTask, s.packed(), &answer, true)
	return answer.Job, err
}

// Signal delivers an order to a job, or with Task -1 to all its tasks. Usr1 and Usr2
// are sent once by a master without an epoch: if no answer comes, they may have arrived or
// not.
func (c *Client) Signal(ctx context.Context, id ID, o Order) error {
	return c.call(ctx, MethodSignal, SignalRequest{id, o}, &Empty{}, c.options.Epoch > 0 || o != Usr1 && o != Usr2)
}

// SignalQueue suspends or resumes all jobs of a queue of the host.
func (c *Client) SignalQueue(ctx context.Context, queue string, o Order) error {
	return c.call(ctx, MethodSignalQueue, SignalQueueRequest{queue, o}, &Empty{}, true)
}

// SetTickets gives running jobs their tickets.
func (c *Client) SetTickets(ctx context.Context, tickets []Tickets) error {
	return c.call(ctx, MethodSetTickets, TicketsRequest{tickets}, &Empty{}, true)
}

// Configure has the agent read its configuration again, with files after they have
// taken the place of all that there are, and returns the version in use. After an error
// nothing has changed.
func (c *Client) Configure(ctx context.Context, files map[string]string) (version string, err error) {
	var answer ConfigureAnswer
	err = c.call(ctx, MethodConfigure, ConfigureRequest{files}, &answer, true)
	return answer.Version, err
}

// FullReport makes the next report of load values one of all of them.
func (c *Client) FullReport(ctx context.Context) error {
	return c.call(ctx, MethodFullReport, Empty{}, &Empty{}, true)
}

// Acknowledge says that all reports up to a number have arrived, and will not be asked
// for again: ended jobs among them are removed.
func (c *Client) Acknowledge(ctx context.Context, number uint64) error {
	return c.call(ctx, MethodAcknowledge, AcknowledgeRequest{Number: number}, &Empty{}, true)
}

// AcknowledgeJob does so for the end of one job, of which the report had this number.
func (c *Client) AcknowledgeJob(ctx context.Context, id ID, number uint64) error {
	return c.call(ctx, MethodAcknowledge, AcknowledgeRequest{Number: number, Job: &id}, &Empty{}, true)
}

// Jobs returns all jobs of the host, in the order of their numbers.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	var answer JobsAnswer
	err := c.call(ctx, MethodJobs, Empty{}, &answer, true)
	return answer.Jobs, err
}

// Job returns one job; the error has the code NotFound if it is not there.
func (c *Client) Job(ctx context.Context, id ID) (Job, error) {
	var answer JobAnswer
	err := c.call(ctx, MethodJob, JobRequest{id}, &answer, true)
	return answer.Job, err
}

// Drain has the agent refuse new jobs until ResumeHost.
func (c *Client) Drain(ctx context.Context, reason string) error {
	return c.call(ctx, MethodDrain, DrainRequest{reason}, &Empty{}, true)
}

// ResumeHost takes back Drain.
func (c *Client) ResumeHost(ctx context.Context) error {
	return c.call(ctx, MethodResume, Empty{}, &Empty{}, true)
}

// Shutdown ends the agent; jobs go on, unless they are to be ended, too.
func (c *Client) Shutdown(ctx context.Context, endJobs bool) error {
	return c.call(ctx, MethodShutdown, ShutdownRequest{endJobs}, &Empty{}, true)
}

// Health returns how the agent fares.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var answer Health
	err := c.call(ctx, MethodHealth, Empty{}, &answer, true)
	return answer, err
}

// Version says with what one talks, and what this caller may do.
func (c *Client) Version(ctx context.Context) (VersionAnswer, error) {
	var answer VersionAnswer
	err := c.call(ctx, MethodVersion, Empty{}, &answer, true)
	return answer, err
}
