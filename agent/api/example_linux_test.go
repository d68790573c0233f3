package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/job"
)

var errDone = errors.New("done")

// ExampleClient shows a master that starts a job and follows the reports about it. If the connection
// breaks, both calls retry: a start that arrives twice is one job, and the agent repeats reports until
// the master acknowledges them.
func ExampleClient() {
	socket, stop, err := serveAgent() // elsewhere, the socket of execd agent: /run/execd/agent.sock
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	ctx := context.Background()
	client, err := api.Dial(api.Options{Socket: socket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_, err = client.Start(ctx, api.Start{
		Job: 7, Owner: "ada", Command: []string{"-l", "h_rt=1:00:00", "-b", "y", "make", "-j4"},
		Grants: []api.Grant{{Queue: "all.q", Host: "n1", Slots: 4}},
	})
	if e, ok := errors.AsType[*api.Error](err); ok {
		fmt.Println("refused:", e.Code, e.Message)
		return
	}
	err = client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || r.Job.Outcome == nil {
			return nil // the job is running, or the report is about the load
		}
		fmt.Printf("job %d finished with exit status %d\n", r.Job.Job, r.Job.Outcome.ExitStatus)
		// Write the end down first: the agent removes a job as soon as its end is acknowledged.
		if err := client.Acknowledge(ctx, r.Number); err != nil {
			return err
		}
		return errDone
	})
	if !errors.Is(err, errDone) {
		fmt.Println(err)
	}
	// Output:
	// job 7 finished with exit status 2
}

// serveAgent serves the interface of an agent whose jobs finish at once with exit status 2. stop
// ends the server and removes the socket.
func serveAgent() (socket string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "execd-api")
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "agent.sock")
	server, err := serve.New(serve.Options{Socket: socket})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error, 1)
	go func() { finished <- server.Run(ctx, &finishingAgent{jobs: make(chan agent.JobReport, 1)}) }()
	return socket, func() {
		cancel()
		if err := errors.Join(<-finished, os.RemoveAll(dir)); err != nil {
			fmt.Println(err)
		}
	}, nil
}

// finishingAgent has those commands of an agent that the example uses.
type finishingAgent struct {
	agent.Commands
	jobs chan agent.JobReport
}

func (a *finishingAgent) Start(_ context.Context, s *agent.Start) (agent.JobReport, error) {
	report := agent.JobReport{Number: 1, ID: s.ID, Owner: s.Owner}
	end := report
	end.Number, end.State, end.Outcome = 2, agent.Ended, &job.Outcome{ID: s.ID, Ran: true, ExitStatus: 2}
	a.jobs <- end
	return report, nil
}

func (a *finishingAgent) Reports(ctx context.Context, _ uint64) (agent.Batch, error) {
	select {
	case end := <-a.jobs:
		return agent.Batch{Number: end.Number, Jobs: []agent.JobReport{end}}, nil
	case <-ctx.Done():
		return agent.Batch{}, ctx.Err()
	}
}

func (a *finishingAgent) Acknowledge(context.Context, uint64) error { return nil }

func (a *finishingAgent) Health() agent.Health { return agent.Health{} }
