package api_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/execd-project/execd/agent/api"
)

var errDone = errors.New("done")

// A master gives an agent a job, and follows what becomes of it. Where the line to the agent
// breaks, both calls go on by themselves: a start that arrives twice is one job, and reports
// are repeated until they are acknowledged.
func ExampleClient() {
	ctx := context.Background()
	agent, err := api.Dial(api.Options{Socket: "/run/execd/agent.sock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()
	_, err = agent.Start(ctx, api.Start{
		Job: 7, Owner: "ada", Command: []string{"-l", "h_rt=1:00:00", "-b", "y", "make", "-j4"},
		Grants: []api.Grant{{Queue: "all.q", Host: "n1", Slots: 4}},
	})
	if e, ok := errors.AsType[*api.Error](err); ok {
		fmt.Println("refused:", e.Code, e.Message)
		return
	}
	err = agent.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || r.Job.Outcome == nil {
			return nil // it runs, or it is about the load
		}
		o := r.Job.Outcome
		fmt.Println(r.Job.ID, "ended with", o.ExitStatus, o.Reason)
		// Written down first: what is acknowledged is forgotten by the agent.
		if err := agent.Acknowledge(ctx, r.Number); err != nil {
			return err
		}
		return errDone
	})
	if !errors.Is(err, errDone) {
		fmt.Println(err)
	}
}
