package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/openapi/openapitest"
	"github.com/execd-project/execd/standalone/api"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPI compares the OpenAPI document of a daemon with docs/openapi.json, and the daemon's answers
// to all calls of its master with the document. A test of package serve does so for those of the agent.
func TestOpenAPI(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	if r := m.root("qstat"); r.status != 0 { // it waits for the daemon
		t.Fatalf("%+v", r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.socket())
	}}}
	call := func(method, path string, in any) (int, []byte) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		q, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text
	}
	_, text := call(http.MethodGet, agentapi.PathOpenAPI, nil)
	text = append(text, '\n')
	const golden = "../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil { //nolint:gosec // it is public
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(text, want) {
		t.Errorf("docs/openapi.json differs from the document of the server (%v); -update writes it", err)
	}
	d, err := openapitest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	for _, c := range []struct {
		path string
		in   any
		good bool
	}{
		{api.PathCommand, api.CommandRequest{Key: "k1", Name: "qstat", Args: api.Texts([]string{"-f"}), Directory: "/"}, true},
		{api.PathCommand, api.CommandRequest{Key: "k2", Name: "qsub", Args: api.Texts([]string{"-h", "-b", "y", "a\xff"}), Directory: "/"}, true},
		{api.PathCommand, api.CommandRequest{Name: "nosuch"}, false},
		{api.PathPlaces, agentapi.Empty{}, true},
		{api.PathRecent, agentapi.Empty{}, true},
		{api.PathNames, api.NamesRequest{Of: api.NamableJobs}, true},
		{api.PathNames, api.NamesRequest{Of: api.NamableUsers, Prefix: "r"}, true},
		{api.PathNames, api.NamesRequest{Of: "secrets"}, false},
		{api.PathStates, api.StatesRequest{}, true},
		{api.PathEnds, api.EndsRequest{Now: true}, true},
		{api.PathWait, api.WaitRequest{Job: 99}, false},
	} {
		called[c.path] = true
		message, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := call(http.MethodPost, c.path, c.in)
		if (status == http.StatusOK) != c.good {
			t.Errorf("%s: status %d: %s", c.path, status, answer)
		}
		for _, w := range append(d.Message(c.path, message), d.Answer(c.path, status == http.StatusOK, answer)...) {
			t.Errorf("%s (%s)", w, answer)
		}
	}
	for _, path := range d.Paths() {
		if strings.HasPrefix(path, api.Path) && !called[path] {
			t.Errorf("%s was not called", path)
		}
	}
}
