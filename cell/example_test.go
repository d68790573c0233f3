package cell_test

import (
	"fmt"
	"testing/fstest"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Example shows a master that reports events with their times to the cell, and carries out the actions
// that the cell returns. Here the host has one slot, so the second job starts after the first has
// finished.
func Example() {
	cluster, err := qconf.Load(fstest.MapFS{
		"queues/all.q": {Data: []byte("qname all.q\nhostlist n1\nslots 1\nload_thresholds NONE\n")},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := int64(1_700_000_000)
	c := cell.New(now, cluster, cell.Options{})
	if _, err := c.HostReport(now, "n1", map[string]string{"np_load_avg": "0.1"}); err != nil {
		fmt.Println(err)
	}

	ada := cell.Caller{User: "ada", Group: "staff", Host: "n1"}
	for _, name := range []string{"first", "second"} {
		request, err := submit.Parse(submit.Input{Args: []string{"-N", name, "-b", "y", "make"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, err := c.Submit(now, ada, request)
		if err != nil {
			fmt.Println(command.ErrorText(err)) // such as "job rejected: ..."
			return
		}
		for _, event := range answer.Events {
			fmt.Println(command.EventText(event))
		}
	}

	for range 2 {
		for _, action := range c.Schedule(now).Actions {
			if action.Kind != cell.StartTask {
				continue
			}
			job, task, attempt := action.Task.Job.ID(), action.Task.Number, action.Attempt
			for _, grant := range action.Task.Running().Grants {
				fmt.Printf("start job %d in %s\n", job, c.Model().InstanceName(grant.Instance))
			}
			if err := c.TaskStarted(now, job, task, attempt); err != nil {
				fmt.Println(err)
			}
			now += 60
			if _, err := c.TaskEnded(now, job, task, attempt, cell.End{ExitStatus: 0}); err != nil {
				fmt.Println(err)
			}
			fmt.Printf("job %d has finished\n", job)
		}
	}
	// Output:
	// Your job 1 ("first") has been submitted
	// Your job 2 ("second") has been submitted
	// start job 1 in all.q@n1
	// job 1 has finished
	// start job 2 in all.q@n1
	// job 2 has finished
}
