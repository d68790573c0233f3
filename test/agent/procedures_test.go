package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// TestProcedures checks that a host with a file of permitted procedures runs no other program as
// another user for its master, and reports this before any part of the job has run.
func TestProcedures(t *testing.T) {
	testenv.Require(t, testenv.Root)
	n := newNode(t, "")
	procedures, seen := filepath.Join(n.dir, "procedures"), filepath.Join(n.dir, "seen")
	n.write("procedures", "root "+n.dir+"/site/permitted\n")
	for _, name := range []string{"permitted", "other"} {
		n.write("site/"+name, "#!/bin/sh\necho $0 $(id -u) >>"+seen+"\n")
		if err := os.Chmod(filepath.Join(n.dir, "site", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	queue := func(name, attributes string) {
		n.write("conf/queues/"+name, "qname "+name+"\nhostlist "+host+"\nslots 9\nshell /bin/sh\nload_thresholds NONE\npe_list pe\ntmpdir "+n.dir+"/tmp\n"+attributes)
	}
	site := n.dir + "/site/"
	queue("permitted.q", "prolog root@"+site+"permitted\n")
	queue("refused.q", "prolog root@"+site+"permitted\nepilog root@"+site+"other\n")
	queue("arguments.q", "prolog root@"+site+"permitted $job_id\n")
	queue("path.q", "prolog root@"+n.dir+"/site/../site/permitted\n")
	queue("user.q", "prolog daemon@"+site+"permitted\n")
	queue("owner.q", "prolog "+site+"other\nepilog "+n.owner.Username+"@"+site+"other\n")
	n.write("conf/pes/pe", "pe_name pe\nslots 9\nstart_proc_args root@"+site+"other\n")
	if err := os.WriteFile(seen, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(seen, 0o666); err != nil {
		t.Fatal(err)
	}
	n.args = append(n.args, "--procedures", procedures)
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := n.job(1, "exit 0\n")
	first.Grants = []api.Grant{{Queue: "permitted.q", Host: host, Slots: 1}}
	n.mustStart(ctx, first) // the agent accepts jobs
	number := 1
	begin := func(queue, pe string) error {
		number++
		s := n.job(number, "exit 0\n")
		s.Grants, s.PE = []api.Grant{{Queue: queue, Host: host, Slots: 1}}, pe
		if pe != "" {
			s.Command = append([]string{"-pe", pe, "1"}, s.Command...)
		}
		_, err := n.client.Start(ctx, s)
		return err
	}
	for name, c := range map[string]struct{ queue, pe, says string }{
		"the epilog":           {"refused.q", "", "epilog: this host does not run"},
		"with arguments":       {"arguments.q", "", "prolog: this host does not run"},
		"by another path":      {"path.q", "", "prolog: this host does not run"},
		"as another user":      {"user.q", "", "as user daemon"},
		"of an environment":    {"permitted.q", "pe", "start_proc_args: this host does not run"},
		"what is permitted":    {"permitted.q", "", ""},
		"as the owner of jobs": {"owner.q", "", ""},
	} {
		err := begin(c.queue, c.pe)
		e, ok := errors.AsType[*api.Error](err)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!ok || e.Code != api.PermissionDenied || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	// An editor may move the file away before it writes the next one.
	if err := os.Rename(procedures, procedures+"~"); err != nil {
		t.Fatal(err)
	}
	if err := begin("permitted.q", "pe"); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("without the file: %v", err)
	}
	if err := os.Rename(procedures+"~", procedures); err != nil {
		t.Fatal(err)
	}
	// shepherd_cmd runs as root.
	n.write("conf/conf/global", "gid_range "+groupIDs()+"\nshepherd_cmd "+site+"other\nload_sensor "+site+"permitted,"+site+"other\n")
	if _, err := n.client.Configure(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := begin("permitted.q", ""); err == nil || !strings.Contains(err.Error(), "shepherd_cmd: this host does not run") {
		t.Errorf("shepherd_cmd: %v", err)
	}
	if log := n.log(); !strings.Contains(log, "a load sensor is not run") || !strings.Contains(log, `other\" as user nobody`) {
		t.Errorf("a load sensor that is not permitted:\n%s", log)
	}
	if err := n.forgotten(ctx); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(seen)
	if err != nil || strings.Contains(string(text), "other 0") || strings.Contains(string(text), "permitted 1") || !strings.Contains(string(text), "permitted 0") {
		t.Errorf("what has run: %q, %v", text, err)
	}
}
