package gridengine

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/internal/capture"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

func around(host string) *surroundings {
	names := NewNames("", "none", true)
	config := qconf.Builtin(1).Global()
	for _, name := range []string{"rsh_daemon", "rlogin_daemon", "qlogin_daemon"} {
		if c, err := config.With(name, "builtin"); err == nil {
			config = c
		}
	}
	return &surroundings{
		host: host, same: names.Same, config: config, sgeRoot: "/sge", sgeCell: "default", execd: "/opt/execd",
		shellOf: func(string) string { return "/bin/bash" },
	}
}

// deliveries are the jobs of the captures, by their session.
func deliveries(t testing.TB, each func(s *capture.Stream, j *message.Delivery, slave bool)) {
	t.Helper()
	streams, err := capture.Streams()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		r := bytes.NewReader(s.Data)
		if s.Client {
			if c, err := commlib.ReadConnectRequest(r); err != nil || c.From.Component != commlib.Qmaster {
				continue
			}
		} else if c, err := commlib.ReadConnectResponse(r); err != nil || c.From.Component != commlib.Execd {
			continue
		}
		for {
			m, err := commlib.ReadMessage(r, commlib.Limits{})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			codec := &message.Codec{Protocol: message.ProtocolNamed(s.Release())}
			tag, _ := codec.Tag(m.Tag)
			if tag == message.TagJobExecution || tag == message.TagSlaveAllow {
				slave := tag == message.TagSlaveAllow
				j, err := codec.DecodeDelivery(m.Payload, slave)
				if err != nil {
					t.Fatal(err)
				}
				each(s, j, slave)
			}
		}
	}
}

// hostOf returns the name of the execution host of a recorded session.
func hostOf(s *capture.Stream) string {
	host := "ge-exec1"
	if strings.HasSuffix(s.To, "12:6445") || strings.HasPrefix(s.To, "10.77.0.12") {
		host = "ge-exec2"
	}
	if s.Release() != "8.1.9" {
		host = strings.Replace(host, "ge-", "ocs-", 1)
	}
	return host
}

// TestCapturedJobs translates every job that an unmodified sge_qmaster has sent in the captures.
func TestCapturedJobs(t *testing.T) {
	n := 0
	deliveries(t, func(s *capture.Stream, j *message.Delivery, slave bool) {
		start, err := startOf(j, slave, around(hostOf(s)))
		if err != nil {
			t.Errorf("%v: %v", s, err)
			return
		}
		n++
		if start.Owner != "alice" || start.Order.Queue.Queue != "all.q" || start.Order.Slots < 1 || start.Request.Name == "" ||
			len(start.SubmitEnv) == 0 || start.SubmitDir == "" || start.Order.Queue.Tmpdir != "/tmp" || start.Order.KeepTaskID != (s.Release() != "8.1.9") {
			t.Errorf("%v: job %d: %+v", s, j.Job, start)
		}
	})
	if n < 25 {
		t.Errorf("%d jobs", n)
	}
}

// TestAllOptions translates a job that was submitted with all options.
func TestAllOptions(t *testing.T) {
	found := false
	deliveries(t, func(s *capture.Stream, j *message.Delivery, slave bool) {
		if s.Session != "job-options" {
			return
		}
		found = true
		start, err := startOf(j, slave, around("ge-exec1"))
		if err != nil {
			t.Fatal(err)
		}
		r := start.Request
		if !r.Notify || len(r.Shell) == 0 || len(r.Input) == 0 || len(r.Output) == 0 || len(r.Error) == 0 || len(r.Mail) == 0 || r.MailOptions == 0 ||
			r.Checkpoint == "" || start.Order.Ckpt == nil || len(r.Context) == 0 || len(r.Script) == 0 {
			t.Errorf("%+v", r)
		}
	})
	if !found {
		t.Error("there is no such job")
	}
}

// TestGranted reads the resources that schedulers of 9.0 and 9.1 have granted in the captures.
func TestGranted(t *testing.T) {
	type granted struct {
		Elements map[string][]string
		Amounts  map[string]float64
	}
	var bindings []launch.GrantedBinding
	var got []granted
	flags := 0
	deliveries(t, func(s *capture.Stream, j *message.Delivery, slave bool) {
		start, err := startOf(j, slave, around(hostOf(s)))
		if err != nil {
			t.Fatalf("%v: job %d: %v", s, j.Job, err)
		}
		if start.MasterForksSlaves && start.DaemonForksSlaves {
			flags++
		}
		if b := start.Order.GrantedBinding; (b != nil) != (s.Release() == "9.1") {
			t.Errorf("%v: job %d: the binding is %v", s, j.Job, b)
		} else if b != nil && len(b.Trees) > 0 {
			bindings = append(bindings, *b)
		}
		if g := (granted{start.Order.Elements, start.Order.Amounts}); g.Elements != nil || g.Amounts != nil {
			got = append(got, g)
		}
	})
	gpus := map[string][]string{"gpu": {"gpu0", "gpu1"}}
	want := []granted{
		{Elements: gpus}, // 9.0.13
		{Elements: gpus}, // 9.1.4
		// For the master task, and for the slave task on its host.
		{Elements: map[string][]string{"gpu": {"gpu0", "gpu0", "gpu1"}}, Amounts: map[string]float64{"lic": 1}},
		{Amounts: map[string]float64{"lic": 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	first := []string{"(N(S(X(y(c(t)))(Y(C(T))))))"}
	if diff := cmp.Diff([]launch.GrantedBinding{{Instance: binding.Set, Trees: first}, {Instance: binding.Env, Trees: first}}, bindings); diff != "" {
		t.Error(diff)
	}
	if flags == 0 {
		t.Error("there is no job with master_forks_slaves and daemon_forks_slaves")
	}
}

// minimal returns a job that a change can be made to.
func minimal() *message.Delivery {
	return &message.Delivery{
		Job: 7, Name: "n", Owner: "alice", ScriptFile: "n.sh", Script: "#!/bin/sh\n", Priority: message.PriorityZero, Restart: 1, PTY: 2,
		Tasks: []message.Task{{Number: 1, Granted: []message.Grant{{Queue: "all.q@h", Host: "h", Slots: 2, Settings: &message.Queue{
			Name: "all.q", Slots: 4, Tmpdir: "/tmp", Shell: "/bin/sh", ShellStartMode: "unix_behavior", HardRT: "100", HardVmem: "1G", Notify: "00:01:00",
		}}}}},
	}
}

func TestTranslations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*message.Delivery)
		check  func(*agent.Start) (got, want any)
	}{
		"a job that is not an array job has task 0": {
			func(*message.Delivery) {}, func(s *agent.Start) (any, any) { return s.ID, job.ID{Job: 7} },
		},
		"a task of an array job has its number": {
			func(j *message.Delivery) {
				j.Type, j.Tasks[0].Number, j.Structure = message.TypeArray, 5, []message.Range{{Min: 1, Max: 9, Step: 4}}
			}, func(s *agent.Start) (any, any) {
				return []any{s.ID, *s.Request.Array}, []any{job.ID{Job: 7, Task: 5}, submit.Array{First: 1, Last: 9, Step: 4}}
			},
		},
		"the end of a reservation is a limit": {
			func(j *message.Delivery) { j.Tasks[0].Wallclock = cull.InSeconds(60) },
			func(s *agent.Start) (any, any) { return s.Order.Queue.Limits[job.RT].Hard, uint64(60) },
		},
		"no end of a reservation is none": {
			func(j *message.Delivery) { j.Tasks[0].Wallclock = cull.Unlimited },
			func(s *agent.Start) (any, any) { return s.Order.Queue.Limits[job.RT].Hard, uint64(100) },
		},
		"a limit that is not there is none": {
			func(*message.Delivery) {}, func(s *agent.Start) (any, any) { return s.Order.Queue.Limits[job.CPU].Hard, quantity.Infinity },
		},
		"what is consumable per job is not for each slot": {
			func(j *message.Delivery) {
				j.Hard = []message.Resource{{Name: "h_vmem", Consumable: message.ConsumableJob}, {Name: "s_rt", Consumable: 1}}
			}, func(s *agent.Start) (any, any) {
				l := s.Order.Queue.Limits
				return []bool{l[job.Vmem].HardPerJob, l[job.RT].SoftPerJob}, []bool{true, false}
			},
		},
		"requests for scratch space and private files are passed on": {
			func(j *message.Delivery) {
				j.Hard = []message.Resource{{Name: "private_tmp", Text: "TRUE", Value: 1}, {Name: "scratch", Text: "4M", Value: 4 << 20, Consumable: message.ConsumableJob}, {Name: "arch", Text: "lx-amd64"}}
			}, func(s *agent.Start) (any, any) {
				return s.Request.Resources, []submit.ResourceRequest{{Name: "private_tmp", Value: "TRUE"}, {Name: "scratch", Value: "4M"}}
			},
		},
		"scratch space that is booked for each slot counts for those of this host": {
			func(j *message.Delivery) {
				j.Tasks[0].Granted[0].Slots = 3
				j.Hard = []message.Resource{{Name: "scratch", Text: "4M", Value: 4 << 20, Consumable: message.ConsumableYes}}
			}, func(s *agent.Start) (any, any) {
				return s.Request.Resources, []submit.ResourceRequest{{Name: "scratch", Value: "12582912"}}
			},
		},
		"priorities count from 1024": {
			func(j *message.Delivery) { j.Priority = 1000 }, func(s *agent.Start) (any, any) { return s.Request.Priority, -24 },
		},
		"what was submitted where is passed on": {
			func(j *message.Delivery) {
				j.Environment = []message.Variable{{Name: "__SGE_PREFIX__O_HOME", Value: "/h"}, {Name: "__SGE_PREFIX__O_WORKDIR", Value: "/w"}, {Name: "A", Value: "b=c"}}
			}, func(s *agent.Start) (any, any) {
				return []any{s.SubmitEnv, s.SubmitDir, s.Request.Env}, []any{[]string{"HOME=/h"}, "/w", []submit.Variable{{Name: "A", Value: "b=c"}}}
			},
		},
		"a directory is translated": {
			func(j *message.Delivery) {
				j.Cwd, j.PathAliases = "/a/b/c", []message.Alias{{Origin: "/x", SubmitHost: "*", ExecHost: "*", Translation: "/no"}, {Origin: "/a/b/", SubmitHost: "*", ExecHost: "h", Translation: "/t/"}}
			}, func(s *agent.Start) (any, any) { return s.Request.WorkingDir, "/t/c" },
		},
		"a directory that only begins alike is not": {
			func(j *message.Delivery) {
				j.Cwd, j.PathAliases = "/ab", []message.Alias{{Origin: "/a", SubmitHost: "*", ExecHost: "*", Translation: "/t"}}
			}, func(s *agent.Start) (any, any) { return s.Request.WorkingDir, "/ab" },
		},
		"one on another host is not": {
			func(j *message.Delivery) {
				j.Cwd, j.PathAliases = "/a", []message.Alias{{Origin: "/a", SubmitHost: "*", ExecHost: "other", Translation: "/t"}}
			}, func(s *agent.Start) (any, any) { return s.Request.WorkingDir, "/a" },
		},
		"a binding is understood": {
			func(j *message.Delivery) {
				j.Binding = []message.Binding{{Strategy: "linear_automatic", Amount: 2, Type: 2}}
			},
			func(s *agent.Start) (any, any) { return s.Request.Binding.String(), "env linear:2" },
		},
		"a binding of cores by name is understood": {
			func(j *message.Delivery) {
				j.Binding = []message.Binding{{Strategy: "explicit", Explicit: "explicit:0,1", Type: 3}}
			},
			func(s *agent.Start) (any, any) { return s.Request.Binding.String(), "explicit:0,1" },
		},
		"a procedure is taken unchanged from the cell": {
			func(j *message.Delivery) {
				j.Tasks[0].Granted[0].Settings.Prolog, j.Tasks[0].Granted[0].Settings.Epilog = "echo $other", "none"
			},
			func(s *agent.Start) (any, any) {
				return []string{s.Order.Queue.Prolog, s.Order.Queue.Epilog}, []string{"echo $other", ""}
			},
		},
		"no binding is none": {
			func(j *message.Delivery) { j.Binding = []message.Binding{{Strategy: "no_job_binding"}} },
			func(s *agent.Start) (any, any) { return s.Request.Binding == nil, true },
		},
		"qrsh runs what connects it": {
			func(j *message.Delivery) { j.Type, j.ScriptFile = message.TypeQrsh|message.TypeBinary, "cat" },
			func(s *agent.Start) (any, any) {
				return append([]string{s.Request.Command}, s.Request.Args...), []string{"/opt/execd", "interactive-job", "h", "/bin/bash", "pipe"}
			},
		},
		"qlogin is a shell": {
			func(j *message.Delivery) { j.Type, j.ScriptFile, j.Name = message.TypeQlogin, "", "QLOGIN" },
			func(s *agent.Start) (any, any) { return s.Request.Args[len(s.Request.Args)-1], "login" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := minimal()
			c.change(j)
			s, err := startOf(j, false, around("h"))
			if err != nil {
				t.Fatal(err)
			}
			got, want := c.check(s)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusedJobs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*message.Delivery)
		want   string
	}{
		"no task":                        {func(j *message.Delivery) { j.Tasks = nil }, "0 tasks, expected one"},
		"a queue of another host":        {func(j *message.Delivery) { j.Tasks[0].Granted[0].Host = "x" }, "none of its queue instances is on this host, h"},
		"a queue without settings":       {func(j *message.Delivery) { j.Tasks[0].Granted[0].Settings = nil }, "none of its queue instances"},
		"a prolog of two lines":          {func(j *message.Delivery) { j.Tasks[0].Granted[0].Settings.Prolog = "/a\nshell /evil" }, "expected one line"},
		"a value that goes on":           {func(j *message.Delivery) { j.Tasks[0].Granted[0].Settings.Tmpdir = "/a\\" }, "expected one line"},
		"a limit that is none":           {func(j *message.Delivery) { j.Tasks[0].Granted[0].Settings.HardRT = "soon" }, "soon"},
		"a variable without a name":      {func(j *message.Delivery) { j.Environment = []message.Variable{{Value: "x"}} }, "not a name of an environment variable"},
		"a variable of two lines":        {func(j *message.Delivery) { j.Environment = []message.Variable{{Name: "A\nB"}} }, "not a name of an environment variable"},
		"qsh, which needs an X terminal": {func(j *message.Delivery) { j.Type = message.TypeQsh }, "use qrsh or qlogin"},
		"a parallel environment that is none": {func(j *message.Delivery) {
			j.Tasks[0].PE = &message.PE{Name: "p", AllocationRule: "whatever"}
		}, "whatever"},
		"a resource whose name is none": {func(j *message.Delivery) {
			j.Tasks[0].Resources = []message.GrantedResource{{Type: message.GrantedAmount, Name: "a=b", Amount: 1}}
		}, "not a name of a resource"},
		"an id of two words": {func(j *message.Delivery) {
			j.Tasks[0].Resources = []message.GrantedResource{{Type: message.GrantedMap, Name: "gpu", Map: []message.GrantedID{{ID: "0 1", Amount: 1}}}}
		}, "not an id of the resource map gpu"},
		"an id without end": {func(j *message.Delivery) {
			j.Tasks[0].Resources = []message.GrantedResource{{Type: message.GrantedMap, Name: "gpu", Map: []message.GrantedID{{ID: "0", Amount: 1 << 31}}}}
		}, "not an id of the resource map gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			j := minimal()
			c.change(j)
			if _, err := startOf(j, false, around("h")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestConfigurationFiles(t *testing.T) {
	known := func(name, value string) bool { return name != "strange" && value != "wrong" }
	files, err := configurationFiles([]message.Configuration{
		{Name: "global", Entries: []message.ConfigurationEntry{
			{Name: "mailer", Value: "wrong"}, {Name: "prolog", Value: "/p"}, {Name: "user_lists", Value: "staff"}, {Name: "prolog", Value: "/second"}, {Name: "strange", Value: "x"},
		}},
		{Name: "h", Entries: []message.ConfigurationEntry{{Name: "epilog", Value: "/e"}}},
	}, known)
	want := map[string]string{"conf/global": "prolog /p\n", "conf/h": "epilog /e\n"}
	if diff := cmp.Diff(want, files); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, c := range []message.Configuration{
		{Name: "../../etc/passwd"},
		{Name: ""},
		{Name: ".hidden"},
		{Name: "global", Entries: []message.ConfigurationEntry{{Name: "prolog", Value: "/a\nepilog /b"}}},
	} {
		if files, err := configurationFiles([]message.Configuration{c}, known); err == nil {
			t.Errorf("%+v became %q", c, files)
		}
	}
}

func TestReports(t *testing.T) {
	at := time.Unix(1000, 5e8)
	running := agent.JobReport{ID: job.ID{Job: 3}, Queue: "all.q", Started: at, Submitted: time.Unix(900, 0), QueuePriority: 5}
	m := reportOf(&running, "h", false)
	if m.State != message.StateWritten || m.Task != 1 || m.Queue != "all.q@h" || len(message.GridEngine81.Usage(m.Usage, false)) != 6 || m.DeletedBy != "" {
		t.Errorf("running: %+v", m)
	}
	over := running
	over.Outcome = &job.Outcome{Ran: true, ExitStatus: 3, Start: at, End: at.Add(10 * time.Second), Usage: job.Usage{UserTime: 2, SystemTime: 1, CPU: 2.5, MaxRSS: 4096, PeakRSS: 8192, IOOps: 7}}
	m = reportOf(&over, "h", false)
	usage := map[string]float64{}
	for _, u := range m.Usage {
		usage[u.Name] = u.Value
	}
	if m.State != message.StateExiting || m.WaitStatus != 0x31 || m.CkptArena != 1 || usage["exit_status"] != 3 ||
		usage["start_time"] != 1000.5 || usage["end_time"] != 1010.5 || usage["ru_wallclock"] != 10 || usage["acct_cpu"] != 3 || usage["ru_maxrss"] != 4 ||
		usage["submission_time"] != 900 || usage["priority"] != 5 || usage["maxrss"] != 8192 || usage["acct_maxrss"] != 8192 ||
		usage["ioops"] != 7 || usage["acct_ioops"] != 7 {
		t.Errorf("ended: %+v", m)
	}
	for p, n := range map[*message.Protocol]int{message.GridEngine81: 35, message.OCS90: 39, message.OCS91: 41} {
		if list := p.Usage(m.Usage, true); len(list) != n {
			t.Errorf("%s has %d values: %+v", p.Name, len(list), list)
		}
	}
	for p, want := range map[*message.Protocol]float64{message.GridEngine81: 1000, message.OCS90: 1_000_500_000, message.OCS91: 1_000_500_000} {
		list := p.Usage(m.Usage, true)
		if i := slices.IndexFunc(list, func(u message.Usage) bool { return u.Name == "start_time" }); i < 0 || list[i].Value != want {
			t.Errorf("%s is told %+v, want the start time %v", p.Name, list, want)
		}
	}
	for p, n := range map[*message.Protocol]int{message.GridEngine81: 35, message.OCS90: 39, message.OCS91: 44} {
		details := reportOf(&over, "h", true)
		list := p.Usage(details.Usage, true)
		if i := slices.IndexFunc(list, func(u message.Usage) bool { return u.Name == "acct_maxpss" }); len(list) != n || n == 44 && (i < 0 || list[i].Value != 8192) {
			t.Errorf("%s with ENABLE_MEM_DETAILS has %d values: %+v", p.Name, len(list), list)
		}
	}
	over.Outcome.Limit = &job.LimitExceeded{Name: "h_rt"}
	if m := reportOf(&over, "h", false); m.DeletedBy != "execd@h" {
		t.Errorf("ended for a limit: %+v", m)
	}
	over.Outcome.Limit = &job.LimitExceeded{Name: "s_rt"}
	if m := reportOf(&over, "h", false); m.DeletedBy != "" {
		t.Errorf("ended after a warning: %+v", m)
	}
	failed := running
	failed.Outcome = &job.Outcome{Failed: job.FailedProlog, FailedText: "text", Class: job.ClassQueue, Reason: "the prolog ended with 1"}
	m = reportOf(&failed, "h", false)
	if m.Failed != 8 || m.GeneralFailure != message.FailureQueue || m.Error != "the prolog ended with 1" || len(m.Usage) != 2 || m.WaitStatus != 0 {
		t.Errorf("failed: %+v", m)
	}
	slave := agent.JobReport{ID: job.ID{Job: 3}, Slave: true}
	if m := reportOf(&slave, "h", false); m.State != message.StateSlave || m.Usage != nil {
		t.Errorf("slave: %+v", m)
	}
	slave.Outcome = &job.Outcome{}
	if m := reportOf(&slave, "h", false); m.State != message.StateSlave || len(m.Usage) != 1 || m.Usage[0].Name != "exit_status" {
		t.Errorf("slave that has ended: %+v", m)
	}
}

func TestNames(t *testing.T) {
	n := NewNames("# comment\nnode1 node1.cluster node1-ib\n", "cluster", false)
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"node1", "NODE1-IB", true}, {"node2", "node2.cluster", true}, {"node2", "node2.other", false}, {"node2", "Node2", true}, {"a", "b", false},
	} {
		if got := n.Same(c.a, c.b); got != c.same {
			t.Errorf("Same(%q, %q) is %v", c.a, c.b, got)
		}
	}
	if got := n.Canonical("node1-ib."); got != "node1" {
		t.Errorf("Canonical is %q", got)
	}
	if short := NewNames("", "none", true); !short.Same("a.x", "a.y") || short.Same("a", "b") {
		t.Error("ignore_fqdn does not compare the first parts of names")
	}
}

func TestCell(t *testing.T) {
	root := t.TempDir()
	common := filepath.Join(root, "default", "common")
	if err := os.MkdirAll(common, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(common, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := func(extra map[string]string) func(string) string {
		return func(name string) string {
			if v, ok := extra[name]; ok {
				return v
			}
			return map[string]string{"SGE_ROOT": root}[name]
		}
	}
	if _, err := OpenCell(env(nil)); err == nil || !strings.Contains(err.Error(), "bootstrap") {
		t.Errorf("without files: %v", err)
	}
	write("bootstrap", "# Version\nadmin_user   sgeadmin\nsecurity_mode none\nignore_fqdn true\ndefault_domain none\n")
	write("act_qmaster", "head.cluster\n")
	c, err := OpenCell(env(map[string]string{"SGE_QMASTER_PORT": "16444"}))
	if err != nil {
		t.Fatal(err)
	}
	if c.AdminUser != "sgeadmin" || c.QmasterPort != 16444 || c.ExecdPort == 0 || c.Name != "default" {
		t.Errorf("got %+v", c)
	}
	if m, err := c.Master(); err != nil || m != "head.cluster" {
		t.Errorf("qmaster is on %q, %v", m, err)
	}
	for name, wrong := range map[string]map[string]string{
		"SGE_ROOT is ":           {"SGE_ROOT": "relative"},
		"SGE_QMASTER_PORT is ":   {"SGE_QMASTER_PORT": "65536"},
		"SGE_EXECD_PORT is ":     {"SGE_EXECD_PORT": "x"},
		`of the cell "elsewhere`: {"SGE_CELL": "elsewhere"},
	} {
		if _, err := OpenCell(env(wrong)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	write("bootstrap", "security_mode csp\n")
	if _, err := OpenCell(env(nil)); err == nil || !strings.Contains(err.Error(), `"csp", expected none, munge, tls`) {
		t.Errorf("with csp: %v", err)
	}
	if n, err := port(env(nil), "X", "sge_execd", "gridengine 1/udp sge_execd\nsge-exec 4711/tcp sge_execd # x\n", 1); n != 4711 || err != nil {
		t.Errorf("the services file has %d, %v", n, err)
	}
}

// TestLimitsOfTheQueue checks that a queue's own limits reach the job only where the job requests
// nothing: qmaster lowers the queue's limits to the job's requests.
func TestLimitsOfTheQueue(t *testing.T) {
	q := &qconf.QueueInstance{Limits: job.Unlimited()}
	q.Limits[job.Fsize] = job.Limit{Soft: 1, Hard: 1}
	q.Limits[job.Stack] = job.Limit{Soft: 5, Hard: 6}
	q.Limits[job.Core] = job.Limit{Soft: 7, Hard: 8}
	got := queueLimitsOf(q, &message.Delivery{Hard: []message.Resource{{Name: "h_fsize"}, {Name: "s_core"}, {Name: "arch"}}})
	want := job.Unlimited()
	want[job.Stack] = q.Limits[job.Stack]
	want[job.Core].Hard = 8
	if *got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

func TestGPUsOfAJob(t *testing.T) {
	request := func(name, text string, value float64, consumable uint32) []message.Resource {
		return []message.Resource{{Name: "h_rt", Value: 60}, {Name: name, Text: text, Value: value, Consumable: consumable}}
	}
	for name, c := range map[string]struct {
		requests   []message.Resource
		consumable string
		slots      int
		slave      bool
		want       int
		fails      bool
	}{
		"for each slot":                      {request("gpu", "2", 2, 1), "gpu", 3, false, 6, false},
		"for each slot of a slave host":      {request("gpu", "2", 2, 1), "gpu", 3, true, 6, false},
		"for the job":                        {request("gpu", "2", 2, 2), "gpu", 3, false, 2, false},
		"for the job, on another host":       {request("gpu", "2", 2, 2), "gpu", 3, true, 0, false},
		"not consumable":                     {request("gpu", "2", 2, 0), "gpu", 1, false, 0, false},
		"another resource":                   {request("ngpus", "2", 2, 1), "gpu", 1, false, 0, false},
		"an agent that does not choose GPUs": {request("gpu", "2", 2, 1), "", 1, false, 0, false},
		"none":                               {request("gpu", "0", 0, 1), "gpu", 1, false, 0, false},
		"for each host, as in 9.x":           {request("gpu", "1", 1, 3), "gpu", 3, false, 0, true},
		"half a GPU":                         {request("gpu", "0.5", 0.5, 1), "gpu", 1, false, 0, true},
		"less than none":                     {request("gpu", "-1", -1, 1), "gpu", 1, false, 0, true},
		"infinitely many":                    {request("gpu", "INFINITY", math.Inf(1), 1), "gpu", 1, false, 0, true},
		"not a number":                       {request("gpu", "NaN", math.NaN(), 1), "gpu", 1, false, 0, true},
	} {
		got, err := gpusOf(c.requests, c.consumable, c.slots, c.slave)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}
