package command_test

import (
	"fmt"
	"strings"
	"testing/fstest"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/qconf"
)

// Example shows a master that reads command lines, has the cell schedule, carries out the actions, and
// reports the results to the cell.
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
	typed := func(name string, args ...string) {
		in := &command.Input{
			Name: name, Args: args, By: cell.Caller{User: "ada", Group: "staff", Host: "n1"},
			Dir: "/home/ada", Home: "/home/ada", Files: map[string][]byte{"job.sh": []byte("make\n")},
		}
		for files, _ := command.Needs(in); len(files) > 0; files, _ = command.Needs(in) {
			in.Unreadable = map[string]string{}
			for _, f := range files { // such as ~/.sge_request
				in.Unreadable[f.Name] = "No such file or directory"
			}
		}
		r := command.Run(c, now, in)
		for line := range strings.Lines(r.Stdout + r.Stderr) {
			fmt.Println(strings.TrimRight(line, " \n"))
		}
	}

	typed("qsub", "-N", "first", "job.sh")
	typed("qsub", "-N", "second", "-hold_jid", "first", "job.sh")
	for _, a := range c.Schedule(now).Actions {
		fmt.Println("to be started: job", a.Task.Job.ID())
		if err := c.TaskStarted(now, a.Task.Job.ID(), a.Task.Number, a.Attempt); err != nil {
			fmt.Println(err)
		}
	}
	now += 60
	typed("qstat")
	if _, err := c.TaskEnded(now, 1, 1, 0, cell.End{ExitStatus: 0}); err != nil {
		fmt.Println(err)
	}
	for _, a := range c.Schedule(now).Actions {
		fmt.Println("to be started: job", a.Task.Job.ID())
	}
	// Output:
	// Your job 1 ("first") has been submitted
	// Your job 2 ("second") has been submitted
	// to be started: job 1
	// job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
	// -----------------------------------------------------------------------------------------------------------------
	//       1 0.50000 first      ada          r     11/14/2023 22:13:20 all.q@n1                           1
	//       2 0.00000 second     ada          hqw   11/14/2023 22:13:20                                    1
	// to be started: job 2
}
