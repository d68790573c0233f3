package scheduler_test

import (
	"fmt"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// ExampleState_Run shows a master that gives the state its data, asks for decisions, carries them out,
// and confirms them to the state.
func ExampleState_Run() {
	cluster, err := qconf.Load(fstest.MapFS{
		"queues/all.q": {Data: []byte("qname all.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\n")},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model, problems := scheduler.NewModel(cluster, scheduler.Options{})
	for _, p := range problems {
		fmt.Println(p)
	}
	state := scheduler.NewState(model)
	for host, load := range map[string]string{"n1": "0.7", "n2": "0.1"} {
		if err := state.SetLoad(host, map[string]string{"np_load_avg": load}); err != nil {
			fmt.Println(err)
		}
	}
	task, _ := rangelist.Of(1, 1, 1)
	jobs := []*scheduler.Job{}
	for id := uint32(1); id <= 3; id++ {
		category, err := model.Category(&scheduler.Requests{User: "ada", Group: "staff"})
		if err != nil {
			fmt.Println(err) // what qsub would say
			return
		}
		j := &scheduler.Job{ID: id, Category: category, Owner: "ada", Submitted: int64(id), Tasks: task}
		if err := state.Enqueue(j); err != nil {
			fmt.Println(err)
		}
		jobs = append(jobs, j)
	}

	const now = 1000
	decisions := state.Run(now)
	for _, s := range decisions.Starts {
		fmt.Println("job", s.Job.ID, "starts in", model.InstanceName(s.Grants[0].Instance))
		state.Dequeue(s.Job)
		if err := state.Start(&scheduler.Running{Job: s.Job, Task: s.Task, Started: now, PE: s.PE, Grants: s.Grants}); err != nil {
			fmt.Println(err)
		}
	}
	decisions = state.Run(now + 15)
	for _, reason := range decisions.Dropped {
		fmt.Println(reason.Text())
	}
	priority, _ := decisions.Of(jobs[2])
	fmt.Printf("job 3 waits with priority %.5f\n", priority.Priority)
	// Output:
	// job 1 starts in all.q@n2
	// job 2 starts in all.q@n1
	// queue instance "all.q@n2" dropped because it is full
	// queue instance "all.q@n1" dropped because it is full
	// All queues dropped because of overload or full
	// job 3 waits with priority 0.25000
}
