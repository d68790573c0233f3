package qstat

import (
	"strconv"
	"strings"
	"testing"
)

// reasonsOf takes the reasons from what qstat -j printed of a job.
func reasonsOf(text string) []Reason {
	var reasons []Reason
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "scheduling info:") || reasons != nil {
			reasons = append(reasons, Reason{Text: strings.TrimSuffix(line[28:], "\n")})
		}
	}
	return reasons
}

func TestDetails(t *testing.T) {
	submitted := JobDetail{
		UID: 1001, GID: 1001, Group: "alice", Home: "/tmp", Path: "/usr/bin:/bin", Shell: "/bin/bash", WorkDir: "/tmp", Host: "master",
		Account: "sge", Merge: true, Environment: []string{"TERM"}, MailList: []Mail{{"alice", "master"}}, Type: "binary",
	}
	submitted.Owner = "alice"

	full := submitted
	full.Job = Job{
		ID: 75, Name: "full", Owner: "alice", Submitted: ansi("Sat Nov 21 06:29:38 2026"), Deadline: ansi("Wed Dec 31 23:59:59 2031"),
		Project: "p1", Checkpoint: "ck", Hard: []Request{{Name: "lic", Value: "1"}, {Name: "osn", Value: "linux"}, {Name: "h_rt", Value: "100"}},
		Soft: []Request{{Name: "tlim", Value: "5"}}, POSIXPriority: -5, JobShare: 3, HardQueues: []string{"*.q"}, SoftQueues: []string{"b.q"},
		MasterQueues: []string{"a.q"}, PE: &PE{"fill", []Range{{2, 4, 1}}}, PredecessorsAsked: []string{"42", "nosuch"}, Predecessors: []int{42},
		OverrideTickets: 7, Binding: "set linear:1",
	}
	full.ExecutionTime, full.Account, full.CheckpointWhen, full.Directory = ansi("Tue Jan  1 00:00:00 2030"), "myacct", "sx", "/tmp"
	full.Error, full.Output, full.Input = []string{"NONE:NONE:/tmp/e1"}, []string{"NONE:NONE:/tmp/o"}, []string{"NONE:NONE:/tmp/in"}
	full.Reserve, full.Merge, full.Notify, full.Restart, full.Type = true, false, true, "y", ""
	full.MailOptions, full.MailList = "abe", []Mail{{"alice", "n1"}, {"bob", ""}}
	full.Shells, full.Environment = []string{"NONE:/bin/bash", "n1:/bin/sh"}, []string{"TERM", "A=1", "B=2", "C"}
	full.Arguments, full.Script, full.ArraySuccessors, full.Version = []string{"a", "b c"}, "scr.sh", []int{76}, 1
	full.TaskIDs, full.Concurrency, full.Context = []Range{{1, 9, 2}}, 2, []string{"X=1", "Y=2"}

	failed := submitted
	failed.ID, failed.Name, failed.Submitted, failed.HardQueues = 41, "errjob", ansi("Sat Nov 21 06:15:12 2026"), []string{"all.q"}
	failed.Output, failed.Arguments, failed.Script = []string{"NONE:NONE:/nonexistent/dir/x"}, []string{"100"}, "/bin/sleep"
	failed.Details = []TaskDetail{{Task: 1, ErrorReason: `11/21/2026 06:15:12 [1001:1179]: error: can't open output file "/nonexistent/dir/x": No such file or directory`}}

	array := submitted
	array.ID, array.Name, array.Submitted, array.HardQueues = 46, "arr", ansi("Sat Nov 21 06:16:09 2026"), []string{"a.q"}
	array.Hard = []Request{{Name: "lic", Value: "1"}}
	array.Output, array.Arguments, array.Script = []string{"NONE:NONE:/dev/null"}, []string{"3000"}, "/bin/sleep"
	array.Successors, array.ArraySuccessors, array.TaskIDs, array.Concurrency = []int{49}, []int{51}, []Range{{1, 20, 3}}, 2
	array.Details = []TaskDetail{{Task: 4, Running: true}, {Task: 7, Running: true}}

	used := submitted
	used.ID, used.Name, used.Submitted, used.HardQueues = 38, "use1", ansi("Sat Nov 21 06:15:12 2026"), []string{"all.q"}
	used.Output, used.Arguments, used.Script = []string{"NONE:NONE:/dev/null"}, []string{"burn.py"}, "/usr/bin/python3"
	used.Details = []TaskDetail{{
		Task: 1, Running: true, Usage: &Usage{167, 246.38426, 0.00007}, VirtualMemory: 1.474 * (1 << 30), MaxVirtualMemory: 1.474 * (1 << 30),
	}}

	text := read(t, "testdata/details/typed.txt")
	parts := strings.Split(text, strings.Repeat("=", 62)+"\n")[1:]
	jobs := []JobDetail{full, failed, array, used}
	for i := range jobs {
		jobs[i].ExecFile = "job_scripts/" + strconv.Itoa(jobs[i].ID)
		jobs[i].Reasons = reasonsOf(parts[i])
	}
	same(t, text, string(AppendDetails(nil, jobs, DetailOptions{})))
}

func TestReasons(t *testing.T) {
	text := read(t, cluster+"qstat-j.txt")
	global, rest, _ := strings.Cut(text, "\n\n")
	var groups []ReasonGroup
	for part := range strings.SplitSeq(strings.TrimSuffix(rest, "\n"), "\n\n") {
		title, list, _ := strings.Cut(part, "\n\t")
		g := ReasonGroup{Text: title, Number: len(groups)}
		for id := range strings.SplitSeq(list, ",\t") {
			g.Jobs = append(g.Jobs, atoi(id))
		}
		groups = append(groups, g)
	}
	same(t, text, string(AppendReasons(nil, reasonsOf(global+"\n"), groups)))
}
