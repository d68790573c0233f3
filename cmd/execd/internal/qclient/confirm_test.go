package qclient

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/standalone/api"
)

// TestCapturedDaemonCannotObtainConfirmations checks that a captured daemon cannot make a user
// confirm jobs that the command line does not name, nor one job repeatedly.
func TestCapturedDaemonCannotObtainConfirmations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // where everything else is right, the launcher is not waited for
	text, err := json.Marshal(&submission.Submission{Command: "true"})
	if err != nil {
		t.Fatal(err)
	}
	amend := func(jobs ...uint32) (list []api.Amend) {
		for _, j := range jobs {
			list = append(list, api.Amend{Job: j, UID: 1000, Key: "k", Submission: text})
		}
		return list
	}
	for _, c := range []struct {
		line string
		q    api.CommandRequest
		list []api.Amend
		want string
	}{
		{"qalter -A x 5 7", api.CommandRequest{}, amend(5, 7), ""},
		{"qalter -A x 5,7", api.CommandRequest{}, amend(7), ""},
		{"qalter -A x 5", api.CommandRequest{}, amend(5, 6), "job 6, which the command does not name"},
		{"qalter -A x -u alice 5", api.CommandRequest{}, amend(6), "job 6, which the command does not name"},
		{"qalter -A x 5", api.CommandRequest{}, amend(5, 5), "job 5 twice"},
		{"qalter -A x -u alice", api.CommandRequest{}, amend(5, 6), ""},
		{"qalter -A x -u alice", api.CommandRequest{}, amend(5, 6, 5), "job 5 twice"},
		{"qalter -A x name", api.CommandRequest{}, amend(5, 6), ""},
		{"qalter -A x 5 na*", api.CommandRequest{}, amend(6), ""},
		{"qalter -A x -u alice", api.CommandRequest{}, amend(make([]uint32, command.MostAmended+1)...), "4097 jobs, expected at most 4096"},
		{"qalter -A x 5", api.CommandRequest{Amended: []api.Amended{{Job: 5}}}, amend(5), "another confirmation"},
		{"qresub 5", api.CommandRequest{}, amend(5), ""},
		{"qresub -h u 5 7", api.CommandRequest{}, amend(7, 6), "job 6, which the command does not name"},
		{"qresub name", api.CommandRequest{}, amend(6), "job 6, which the command does not name"},
		{"qsub -b y true", api.CommandRequest{}, nil, ""},
		{"qsub -b y true", api.CommandRequest{Confirmed: "key"}, nil, "another confirmation"},
	} {
		words := strings.Fields(c.line)
		in := &command.Input{Name: words[0], Args: words[1:], Dir: "/"}
		err := confirm(ctx, &c.q, in, &api.CommandAnswer{Confirm: "/nonexistent/socket", Amend: c.list})
		if c.want == "" && !errors.Is(err, context.Canceled) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %d jobs: %v, expected %q", c.line, len(c.list), err, c.want)
		}
	}
}
