package serve

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
)

// method is a row of the table of methods.
type method struct {
	// users says that ordinary users may call it. The method itself checks the user's permissions.
	users bool
	// orders says that the call changes something or is for masters only. It is refused for a
	// master that has been replaced.
	orders bool
	// masters says that managers may call it only if they may act as the master of the agent.
	masters bool
	// changes says that the audit log records the call. Among the calls with orders, FullReport,
	// Reports and Admit change nothing, and every master calls Acknowledge and SetTickets all the
	// time.
	changes bool
	body    int64 // maximum size of a message; 0 means the value of Limits for the peer
	// do carries out the call. The answer is nil if do has already written it.
	do func(context.Context, *call) (any, *api.Error)
}

// table returns the table of methods.
func table() map[api.Method]method {
	return map[api.Method]method{
		api.MethodStart:       {masters: true, orders: true, changes: true, do: message(start)},
		api.MethodStartBatch:  {masters: true, orders: true, changes: true, do: message(startBatch)},
		api.MethodAdmit:       {masters: true, orders: true, do: message(admit)},
		api.MethodStartTask:   {orders: true, changes: true, users: true, do: message(startTask)},
		api.MethodAttach:      {orders: true, changes: true, users: true, do: message(attach)},
		api.MethodSignal:      {orders: true, changes: true, users: true, do: message(signal)},
		api.MethodSignalQueue: {orders: true, changes: true, do: message(signalQueue)},
		api.MethodSetTickets:  {masters: true, orders: true, do: message(setTickets)},
		api.MethodConfigure:   {masters: true, orders: true, changes: true, do: message(configure)},
		api.MethodFullReport:  {masters: true, orders: true, do: message(fullReport)},
		api.MethodAcknowledge: {masters: true, orders: true, do: message(acknowledge)},
		api.MethodJobs:        {users: true, do: message(jobs)},
		api.MethodJob:         {users: true, do: message(oneJob)},
		api.MethodDrain:       {orders: true, changes: true, do: message(drain)},
		api.MethodResume:      {orders: true, changes: true, do: message(resume)},
		api.MethodShutdown:    {orders: true, changes: true, do: message(shutdown)},
		api.MethodHealth:      {users: true, do: message(health)},
		api.MethodVersion:     {users: true, do: message(version)},
		api.MethodReports:     {masters: true, orders: true, do: message(reports)},
	}
}

// message reads the message of a method.
func message[Q any](f func(context.Context, *call, *Q) (any, *api.Error)) func(context.Context, *call) (any, *api.Error) {
	return func(ctx context.Context, c *call) (any, *api.Error) {
		q, err := decode[Q](c.body)
		if err != nil {
			return nil, err
		}
		if ctx, err = c.audit(ctx, q); err != nil {
			return nil, err
		}
		return f(ctx, c, q)
	}
}

// done returns the empty answer of a method without a result.
func done(err error) (any, *api.Error) {
	if err != nil {
		return nil, failure(err)
	}
	return api.Empty{}, nil
}

func start(ctx context.Context, c *call, q *api.Start) (any, *api.Error) {
	j, err := c.start(ctx, q)
	if err != nil {
		return nil, err
	}
	return api.JobAnswer{Job: *j}, nil
}

// start translates a start, and returns once the agent has accepted the job.
func (c *call) start(ctx context.Context, q *api.Start) (*api.Job, *api.Error) {
	s, err := translateStart(q, c.turn.Epoch)
	if err != nil {
		return nil, err
	}
	r, e := c.server.commands.Start(ctx, s)
	if e != nil {
		return nil, failure(e)
	}
	j := translateJob(&r)
	return &j, nil
}

// startsAtOnce is the maximum number of concurrent starts of a batch: most of the time of a start
// is waiting for the disk.
const startsAtOnce = 16

// startBatch begins the starts of a batch in their order.
func startBatch(ctx context.Context, c *call, q *api.BatchRequest) (any, *api.Error) {
	if most := c.server.options.Limits.Batch; len(q.Starts) > most {
		return nil, refuse(api.ResourceExhausted, "the batch has %d starts, at most %d are possible", len(q.Starts), most)
	}
	results := make([]api.StartResult, len(q.Starts))
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(startsAtOnce, len(q.Starts)) {
		wait.Go(func() {
			for i := range next {
				results[i] = startOne(ctx, c, &q.Starts[i])
			}
		})
	}
	for i := range q.Starts {
		next <- i
	}
	close(next)
	wait.Wait()
	c.notStarted(q, results)
	return api.BatchAnswer{Results: results}, nil
}

func startOne(ctx context.Context, c *call, q *api.Start) (result api.StartResult) {
	defer func() {
		if what := recover(); what != nil { // net/http recovers only panics of its own goroutine
			c.server.options.Notify(fmt.Errorf("start of job %d: internal error: %v", q.Job, what))
			result = api.StartResult{Error: refuse(api.Internal, "internal error of the agent: see its log")}
		}
	}()
	result.Job, result.Error = c.start(ctx, q)
	return result
}

func admit(ctx context.Context, c *call, q *api.Start) (any, *api.Error) {
	s, err := translateStart(q, c.turn.Epoch)
	if err != nil {
		return nil, err
	}
	return done(c.server.commands.Admit(ctx, s))
}

func startTask(ctx context.Context, c *call, q *api.TaskStart) (any, *api.Error) {
	t, err := translateTask(q)
	if err != nil {
		return nil, err
	}
	if !c.peer.manager {
		if t.Owner != "" && t.Owner != c.peer.user {
			return nil, refuse(api.PermissionDenied, "owner is %q, and this is %s", t.Owner, c.peer.from)
		}
		t.Owner = c.peer.user
		if err := c.checkOwn(t.Job); err != nil {
			return nil, err
		}
	}
	r, e := c.server.commands.StartTask(ctx, t)
	if e != nil {
		return nil, failure(e)
	}
	return api.JobAnswer{Job: translateJob(&r)}, nil
}

// orders are the orders for a single job; the value tells whether its owner may give them.
var orders = map[agent.Order]bool{
	agent.Terminate: true, agent.Kill: true, agent.Suspend: true, agent.Resume: true, agent.Usr1: true, agent.Usr2: true,
	agent.SuspendThreshold: false, agent.ResumeThreshold: false, agent.SuspendQueue: false, agent.ResumeQueue: false,
	agent.Migrate: false, agent.Reschedule: false,
}

func signal(ctx context.Context, c *call, q *api.SignalRequest) (any, *api.Error) {
	id, err := translateID(q.ID, true)
	if err != nil {
		return nil, err
	}
	o := q.Order
	forOwners, known := orders[o]
	switch {
	case !known:
		return nil, refuse(api.InvalidArgument, "order: there is no %q, expected one of %q", q.Order, slices.Sorted(maps.Keys(orders)))
	case c.peer.manager:
	case !forOwners:
		return nil, refuse(api.PermissionDenied, "%s is ordered by managers and masters, and this is %s", o, c.peer.from)
	default:
		if err := c.checkOwn(id); err != nil {
			return nil, err
		}
	}
	return done(c.server.commands.Signal(agent.WithSequence(ctx, c.turn), id, o))
}

// checkOwn refuses a user who is not the owner of a job, or of all its tasks.
func (c *call) checkOwn(id job.ID) *api.Error {
	found := false
	for _, r := range c.server.jobsOf(id) {
		if r.Owner != c.peer.user {
			return refuse(api.PermissionDenied, "job %s is of %s, and this is %s", r.ID, r.Owner, c.peer.from)
		}
		found = true
	}
	if !found {
		return refuse(api.NotFound, "job %s is not on this host", id)
	}
	return nil
}

// jobsOf returns the jobs of an id; with a negative task number, all tasks of the job.
func (s *Server) jobsOf(id job.ID) []agent.JobReport {
	if id.Task >= 0 {
		if r, ok := s.commands.Job(id); ok {
			return []agent.JobReport{r}
		}
		return nil
	}
	return slices.DeleteFunc(s.commands.Jobs(), func(r agent.JobReport) bool { return r.ID.Job != id.Job })
}

func signalQueue(ctx context.Context, c *call, q *api.SignalQueueRequest) (any, *api.Error) {
	o := q.Order
	if o != agent.SuspendQueue && o != agent.ResumeQueue {
		return nil, refuse(api.InvalidArgument, "order: a queue does not have the order %q, expected %q or %q", q.Order, agent.SuspendQueue, agent.ResumeQueue)
	}
	if q.Queue == "" || strings.Contains(q.Queue, "@") {
		return nil, refuse(api.InvalidArgument, "queue: %q, expected the name of a cluster queue", q.Queue)
	}
	return done(c.server.commands.SignalQueue(agent.WithSequence(ctx, c.turn), q.Queue, o))
}

func setTickets(_ context.Context, c *call, q *api.TicketsRequest) (any, *api.Error) {
	list := make([]agent.Tickets, len(q.Tickets))
	for i, t := range q.Tickets {
		id, err := translateID(t.ID, false)
		if err != nil {
			return nil, err
		}
		if t.Tickets < 0 || math.IsNaN(t.Tickets) {
			return nil, refuse(api.InvalidArgument, "job %s: %v tickets, expected 0 or more", id, t.Tickets)
		}
		list[i] = agent.Tickets{ID: id, Tickets: t.Tickets, Turn: c.turn}
	}
	c.server.commands.SetTickets(list)
	return done(nil)
}

func configure(ctx context.Context, c *call, q *api.ConfigureRequest) (any, *api.Error) {
	commands := c.server.commands
	if q.Files == nil {
		if err := commands.Configure(ctx); err != nil { // the current files, regardless of the caller
			return nil, failure(err)
		}
		return api.ConfigureAnswer{Version: commands.Health().Configuration}, nil
	}
	install := c.server.options.Install
	if install == nil {
		return nil, refuse(api.Unimplemented, "the configuration of this agent does not come from its master")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Files)) {
		if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || hidden(name) {
			return nil, refuse(api.InvalidArgument, "files: %q, expected a path below the directory of the configuration, such as queues/all.q", name)
		}
	}
	if err := commands.InTurn(c.turn, "configure", func() error { return install(ctx, q.Files) }); err != nil {
		if e := failure(err); e.Code != api.Internal {
			return nil, e
		}
		return nil, refuse(api.InvalidArgument, "%v", err)
	}
	return api.ConfigureAnswer{Version: commands.Health().Configuration}, nil
}

func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

func fullReport(_ context.Context, c *call, _ *api.Empty) (any, *api.Error) {
	c.server.commands.FullReport()
	return done(nil)
}

func acknowledge(ctx context.Context, c *call, q *api.AcknowledgeRequest) (any, *api.Error) {
	if q.Number == 0 {
		return nil, refuse(api.InvalidArgument, "number: expected that of a report that has arrived")
	}
	if q.Job == nil {
		return done(c.server.commands.Acknowledge(ctx, q.Number))
	}
	id, err := translateID(*q.Job, false)
	if err != nil {
		return nil, err
	}
	return done(c.server.commands.AcknowledgeJob(ctx, id, q.Number))
}

func jobs(_ context.Context, c *call, _ *api.Empty) (any, *api.Error) {
	list := c.server.commands.Jobs()
	answer := api.JobsAnswer{Jobs: make([]api.Job, len(list))}
	for i := range list {
		answer.Jobs[i] = c.show(&list[i])
	}
	return answer, nil
}

func oneJob(_ context.Context, c *call, q *api.JobRequest) (any, *api.Error) {
	id, err := translateID(q.ID, false)
	if err != nil {
		return nil, err
	}
	r, ok := c.server.commands.Job(id)
	if !ok {
		return nil, refuse(api.NotFound, "job %s is not on this host", id)
	}
	return api.JobAnswer{Job: c.show(&r)}, nil
}

// show returns a job as the caller may see it. Other users than the owner do not see the texts,
// which can contain paths and commands.
func (c *call) show(r *agent.JobReport) api.Job {
	j := translateJob(r)
	if c.peer.manager || c.peer.user == r.Owner {
		return j
	}
	j.Directory, j.PID, j.Notes = "", 0, nil
	if j.Outcome != nil {
		j.Outcome.FailedText, j.Outcome.Reason = "", ""
	}
	return j
}

func drain(ctx context.Context, c *call, q *api.DrainRequest) (any, *api.Error) {
	return c.inTurn("drain", func() error { return c.server.commands.Drain(ctx, q.Reason) })
}

func resume(ctx context.Context, c *call, _ *api.Empty) (any, *api.Error) {
	return c.inTurn("drain", func() error { return c.server.commands.Resume(ctx) })
}

// inTurn carries out an order for the whole agent, unless a later order has overtaken it.
func (c *call) inTurn(what string, do func() error) (any, *api.Error) {
	return done(c.server.commands.InTurn(c.turn, what, do))
}

func shutdown(_ context.Context, c *call, q *api.ShutdownRequest) (any, *api.Error) {
	first := false
	answer, err := c.inTurn("shutdown", func() error {
		first = true
		return nil
	})
	if first { // inTurn has stored the order: a repetition of it does not stop the next agent, too
		c.server.commands.Shutdown(q.EndJobs)
	}
	return answer, err
}

func health(_ context.Context, c *call, _ *api.Empty) (any, *api.Error) {
	h := c.server.commands.Health()
	h.Epoch = max(h.Epoch, c.server.epoch.largest.Load())
	return translateHealth(&h), nil
}

func version(_ context.Context, c *call, _ *api.Empty) (any, *api.Error) {
	v := api.VersionAnswer{API: api.Name, Revision: api.Revision, Version: c.server.options.Version, Capabilities: []string{}}
	for name, m := range c.server.methods {
		if m.users || c.peer.manager && (!m.masters || c.mayBeMaster()) {
			v.Methods = append(v.Methods, name)
		}
	}
	slices.Sort(v.Methods)
	if c.server.options.Install != nil {
		v.Capabilities = append(v.Capabilities, api.CanTakeFiles)
	}
	return v, nil
}
