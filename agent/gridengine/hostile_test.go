package gridengine

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/internal/capture"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/jobdir"
)

// TestHostileDeliveries checks that the data of a hostile qmaster becomes neither a path outside of
// the job's directories nor an additional line of a file in the job directory.
func TestHostileDeliveries(t *testing.T) {
	owner := &userdb.User{Name: "alice", UID: 1000, GID: 1000, Home: "/home/alice", Shell: "/bin/sh"}
	var first *message.Delivery
	deliveries(t, func(_ *capture.Stream, j *message.Delivery, slave bool) {
		if first == nil && !slave {
			first = j
		}
	})
	queue := func(name string) func(*message.Delivery) {
		return func(j *message.Delivery) {
			g := &j.Tasks[0].Granted[0]
			settings := *g.Settings
			settings.Name = name
			g.Queue, g.Settings = name+"@"+g.Host, &settings
		}
	}
	for name, c := range map[string]struct {
		change func(*message.Delivery)
		says   string // "" for a job that is taken
	}{
		"as it was sent":       {func(*message.Delivery) {}, ""},
		"number 0":             {func(j *message.Delivery) { j.Job = 0 }, "job_id"},
		"the largest number":   {func(j *message.Delivery) { j.Job = 1<<32 - 1 }, "job_id"},
		"the largest task":     {func(j *message.Delivery) { j.Type |= message.TypeArray; j.Tasks[0].Number = 1<<32 - 1 }, "task"},
		"no task":              {func(j *message.Delivery) { j.Tasks = nil }, "0 tasks"},
		"no queue":             {func(j *message.Delivery) { j.Tasks[0].Granted = nil }, "with a queue"},
		"a queue elsewhere":    {queue("../../etc"), "is not a name"},
		"a queue with a slash": {queue("a/../../etc"), "is not a name"},
		"a queue of two lines": {queue("a\nprolog root@/tmp/x"), "expected one line"},
		"a nameless queue":     {queue(""), "qname: is missing"},
		"all slots":            {func(j *message.Delivery) { j.Tasks[0].Granted[0].Slots = 1<<32 - 1 }, "host_slots"},
		"a name of two lines":  {func(j *message.Delivery) { j.Name = "a\nb" }, "job_name"},
		"a directory of two":   {func(j *message.Delivery) { j.Cwd = "/x\nprolog=root@/tmp/x" }, "newline"},
		"an account of two":    {func(j *message.Delivery) { j.Account = "a\nb" }, "account"},
		"a variable of two": {func(j *message.Delivery) {
			j.Environment = append(slices.Clone(j.Environment), message.Variable{Name: "A\nSGE_ROOT", Value: "/x"})
		}, "is not a name of an environment variable"},
		"a script elsewhere": {func(j *message.Delivery) { j.ScriptFile, j.ExecFile = "../../../etc/cron.d/x", "/etc/passwd" }, ""},
		"the latest time":    {func(j *message.Delivery) { j.Submitted = 1<<32 - 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := *first
			j.Tasks = slices.Clone(first.Tasks)
			j.Tasks[0].Granted = slices.Clone(first.Tasks[0].Granted)
			c.change(&j)
			start, err := startOf(&j, false, around(first.Tasks[0].Granted[0].Host))
			var tmpdir, script string
			if err == nil {
				start.Order.Owner = owner
				d, problem := start.Order.Describe(start.ID, jobdir.Area("/spool"), "")
				if err = problem; err == nil {
					tmpdir, script = d.Tmpdir, d.Command.File
				}
			}
			switch {
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, expected ...%s...", err, c.says)
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says == "" && (tmpdir != "/tmp/1.1.all.q" || !strings.HasPrefix(script, "/spool/") || strings.Contains(script, "..")):
				t.Errorf("the job has TMPDIR %q and the script %q", tmpdir, script)
			}
		})
	}
}
