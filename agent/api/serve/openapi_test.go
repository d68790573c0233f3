package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/openapi/openapitest"
)

// TestOpenAPI calls every method, and compares all messages and answers with the document that the
// server sends.
func TestOpenAPI(t *testing.T) {
	r := run(t, func(o *Options) {
		o.Methods = map[string]Method{"/execd.v1.Other/Echo": {
			Summary: "Echo.", In: api.ID{}, Out: api.ID{},
			Do: func(context.Context, *Call) (any, *api.Error) { return api.ID{Job: 3}, nil },
		}}
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+api.PathOpenAPI, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapitest.Read([]byte(r.do(request).text))
	if err != nil {
		t.Fatal(err)
	}
	start := func(n int) api.Start { return aStart(n) }
	task := api.TaskStart{Job: 7, Key: "1", Owner: "alice", Command: []string{"true"}}
	calls := []struct {
		method string
		in     any
	}{
		{"Start", start(7)},
		{"StartBatch", api.BatchRequest{Starts: []api.Start{start(8), start(9)}}},
		{"Admit", start(10)},
		{"StartTask", task},
		{"Attach", api.JobRequest{ID: api.ID{Job: 99}}},
		{"Signal", api.SignalRequest{ID: api.ID{Job: 7}, Order: "suspend"}},
		{"SignalQueue", api.SignalQueueRequest{Queue: "all.q", Order: "suspend_queue"}},
		{"SetTickets", api.TicketsRequest{}},
		{"Configure", api.ConfigureRequest{}},
		{"FullReport", api.Empty{}},
		{"Acknowledge", api.AcknowledgeRequest{Number: 1, Job: &api.ID{Job: 7}}},
		{"Jobs", api.Empty{}},
		{"Job", api.JobRequest{ID: api.ID{Job: 8}}},
		{"Drain", api.DrainRequest{Reason: "x"}},
		{"Health", api.Empty{}},
		{"Resume", api.Empty{}},
		{"Version", api.Empty{}},
		{"Reports", api.ReportsRequest{}},
		{"/execd.v1.Other/Echo", api.ID{}},
		{"Job", api.JobRequest{ID: api.ID{Job: 12345}}},
		{"Shutdown", api.ShutdownRequest{}},
	}
	called := map[string]bool{}
	for _, call := range calls {
		path := call.method
		if !strings.HasPrefix(path, "/") {
			path = api.Path + path
		}
		called[path] = true
		body, err := json.Marshal(call.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range d.Message(path, body) {
			t.Error(w)
		}
		var text string
		good := true
		if call.method == "Reports" {
			ctx, cancel := context.WithCancel(t.Context())
			line := make([]byte, 64<<10)
			n, err := r.stream(ctx, string(body)).Read(line)
			cancel()
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			first, _, _ := bytes.Cut(line[:n], []byte("\n"))
			text = string(first)
		} else if a := r.post(path, string(body)); a.status != http.StatusOK {
			good, text = false, a.text
		} else {
			text = a.text
		}
		for _, w := range d.Answer(path, good, []byte(text)) {
			t.Errorf("%s (%s)", w, text)
		}
		if !good && !slices.Contains([]string{"Attach", "Job", "StartTask"}, call.method) {
			t.Errorf("%s is refused: %s", path, text)
		}
	}
	for _, path := range d.Paths() {
		if !called[path] {
			t.Errorf("%s was not called", path)
		}
	}
	if a := r.post(api.PathOpenAPI, "{}"); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %+v", a)
	}
}
