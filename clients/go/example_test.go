package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	client "github.com/execd-project/execd/clients/go"
)

// Example submits an array job and prints its output.
func Example() {
	ctx := context.Background()
	var c client.Client
	job, err := c.Submit(ctx, &client.Submission{
		Text:      "echo task $SGE_TASK_ID of $LETTERS",
		Tasks:     &client.Tasks{First: 1, Last: 3},
		Resources: map[string]string{"h_rt": "0:10:0"},
		Env:       map[string]string{"LETTERS": "a,b,c"},
	})
	if err != nil {
		log.Fatal(err)
	}
	finished, err := c.Wait(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range finished[0].Records {
		fmt.Println(record.Task, record.ExitStatus, record.WallClock, record.MaxVMem)
		if err := c.Logs(job, record.Task, os.Stdout); err != nil {
			log.Print(err)
		}
	}
}
