package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// pushPoints returns the places of a push at which the agent may be killed, read from the source.
func pushPoints(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("../../agent/daemon/configuration.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`failpoint\.At\("([^"]+)"\)`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	if len(list) < 4 {
		t.Fatalf("only %q were found", list)
	}
	return list
}

// push pushes a configuration once, with any content: a Client would repeat the call, and cannot
// push an empty configuration.
func (n *node) push(ctx context.Context, files map[string]string) error {
	body, err := json.Marshal(map[string]any{"files": files})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/execd.v1.Agent/Configure", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.socket)
		},
	}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		n.Errorf("the push was answered with %s", answer.Status)
	}
	return nil
}

// TestPushKilledAtEachPoint kills the agent at each step of a push: the next agent has either the
// previous configuration or the pushed one, complete and without remains of the other.
func TestPushKilledAtEachPoint(t *testing.T) {
	queue := func(slots string) map[string]string {
		return map[string]string{"queues/all.q": "qname all.q\nhostlist node1\nslots " + slots + "\n"}
	}
	for _, point := range pushPoints(t) {
		for name, push := range map[string]map[string]string{"another one": queue("7"), "none": {}} {
			t.Run(point+"/"+name, func(t *testing.T) {
				t.Parallel()
				n := newNode(t, "failpoint")
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				version := func() string {
					h, err := n.client.Health(ctx)
					if err != nil {
						t.Fatalf("%v\n%s", err, n.log())
					}
					return h.Configuration
				}
				n.start()
				own := version()
				configure := func(files map[string]string) {
					t.Helper()
					if _, err := n.client.Configure(ctx, files); err != nil {
						t.Fatal(err)
					}
				}
				configure(queue("7"))
				pushed := version()
				configure(queue("5"))
				before := version()
				n.agent.Kill()
				n.start("EXECD_FAILPOINT=" + point)
				if err := n.push(ctx, push); err == nil && point != "configuration-aside" { // of file systems that cannot exchange
					t.Errorf("it is not killed at %s", point)
				}
				n.agent.Kill()
				n.start()
				want := []string{before, pushed}
				if len(push) == 0 {
					want[1] = own
				}
				if got := version(); !slices.Contains(want, got) {
					t.Errorf("afterwards the configuration is %s, neither of %q\n%s", got, want, n.log())
				}
				if left, err := filepath.Glob(n.spool() + "/configuration.*"); err != nil || len(left) > 0 {
					t.Errorf("there are %q, %v", left, err)
				}
			})
		}
	}
}
