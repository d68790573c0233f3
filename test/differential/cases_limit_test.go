package differential

// limitCases check the limits, and exceed some of them. No job has an h_vmem of a few MB: execd
// kills such a job, depending on when it checks.
func limitCases() []jobCase {
	// Without the limit of CPU time, which differs under this project's shepherd.
	const show = "#!/bin/sh\ngrep -v 'Max cpu time' /proc/self/limits\n"
	return []jobCase{
		{name: "the limits of a request", opts: []string{"-l", "h_vmem=4G,s_vmem=3G,h_cpu=600,s_cpu=500,h_stack=20M,h_data=2G,h_core=0,h_fsize=1G,h_rss=3G"}, script: probeScript},
		{name: "the limits of a queue", queue: attrs("h_vmem", "3G", "h_cpu", "00:10:00", "s_stack", "10M", "h_stack", "30M", "s_core", "0", "s_fsize", "100M", "h_data", "2000000k"), script: probeScript},
		{name: "the lower one of queue and request counts", queue: attrs("h_vmem", "3G", "h_cpu", "600", "s_fsize", "20M"), opts: []string{"-l", "h_vmem=2G,h_cpu=500,h_fsize=10M"}, script: show},
		{name: "a soft limit above the hard one", queue: attrs("s_stack", "100M", "h_stack", "50M", "s_fsize", "3G", "h_fsize", "1G"), script: show},
		{name: "limits below the least that is set", opts: []string{"-l", "h_cpu=1,h_stack=1k,h_fsize=10,h_data=1M,h_rss=1M"}, script: show},
		{name: "limits of a job with three slots", opts: []string{"-pe", "smp", "3", "-l", "h_vmem=2G,h_cpu=100,h_stack=20M,h_fsize=1G,h_data=1G,h_rss=1G,h_core=1M"}, script: show},
		{name: "limits as powers of 1000 and 1024", opts: []string{"-l", "h_fsize=1m,s_fsize=1000k,h_stack=32000000,h_data=1g"}, script: show},
		{name: "too much memory", opts: []string{"-l", "h_vmem=50M"}, script: "#!/bin/sh\ndd if=/dev/zero of=/dev/null bs=100M count=1\necho $?\n"},
		{name: "too big a file", opts: []string{"-l", "h_fsize=20k"}, script: "#!/bin/sh\ncd OUT\ndd if=/dev/zero of=big bs=1k count=100 2>/dev/null\necho $?\n"},
		{name: "too big a file, written by the job itself", opts: []string{"-b", "y", "-shell", "n", "-l", "h_fsize=20k,h_core=0"}, cmd: []string{"/bin/dd", "if=/dev/zero", "of=OUT/big", "bs=1k", "count=100"}},
		{name: "too long, with h_rt", opts: []string{"-l", "h_rt=2"}, script: "#!/bin/sh\nexec sleep 600\n"},
		{name: "too long, with h_rt and a warning", queue: attrs("notify", "00:00:01"), opts: []string{"-l", "h_rt=2", "-notify"}, script: "#!/bin/sh\ntrap 'echo got USR2' USR2\nREADY\nAWAIT\n"},
		{name: "too long, with s_rt", opts: []string{"-l", "s_rt=2"}, script: "#!/bin/sh\ntrap 'trap \"\" USR1; echo got USR1; exit 3' USR1\nREADY\nAWAIT\n"},
		{name: "too much CPU time, with s_cpu", opts: []string{"-l", "s_cpu=2,h_core=0"}, script: "#!/bin/sh\nwhile :; do :; done\n"},
	}
}

// peCases run parallel jobs on one host, with their procedures.
func peCases() []jobCase {
	pe := func(name string, c jobCase) jobCase {
		c.queue = attrs("pe_list", name)
		c.opts = append([]string{"-pe", name, "2"}, c.opts...)
		return c
	}
	return []jobCase{
		{name: "a parallel job", opts: []string{"-pe", "smp", "3"}, script: "#!/bin/sh\nPROBE job\ncat $PE_HOSTFILE\n"},
		{name: "a parallel job that is a command", opts: []string{"-pe", "smp", "2", "-b", "y"}, cmd: []string{"PROBE", "job"}},
		pe("procs", jobCase{name: "start and stop procedures", script: probeScript}),
		pe("procs", jobCase{name: "start and stop procedures with -o to a folder", opts: []string{"-o", "OUT", "-e", "OUT"}, script: probeScript}),
		pe("procs", jobCase{name: "start and stop procedures with -o to a file", opts: []string{"-o", "OUT/o", "-e", "OUT/e"}, script: probeScript}),
		pe("procs", jobCase{name: "start and stop procedures with -j y", opts: []string{"-j", "y"}, script: probeScript}),
		pe("procs", jobCase{name: "the stop procedure is told the exit status", script: "#!/bin/sh\nexit 5\n"}),
		pe("procs-root", jobCase{name: "start and stop procedures as root and bob", script: probeScript}),
		pe("start-1", jobCase{name: "the start procedure exits 1", script: probeScript}),
		pe("start-100", jobCase{name: "the start procedure exits 100", script: probeScript}),
		rerun(pe("start-99", jobCase{name: "the start procedure exits 99 once", script: probeScript})),
		pe("stop-1", jobCase{name: "the stop procedure exits 1", script: probeScript}),
		pe("stop-100", jobCase{name: "the stop procedure exits 100", script: probeScript}),
		rerun(pe("stop-99", jobCase{name: "the stop procedure exits 99 once", script: probeScript})),
		pe("start-none", jobCase{name: "the start procedure is missing, job is a script", script: probeScript}),
		pe("start-none", jobCase{name: "the start procedure is missing, job is a command", opts: []string{"-b", "y"}, cmd: []string{"/bin/true"}}),
		pe("stop-none", jobCase{name: "the stop procedure is missing, job is a script", script: probeScript}),
		pe("stop-none", jobCase{name: "the stop procedure is missing, job is a command", opts: []string{"-b", "y"}, cmd: []string{"/bin/true"}}),
	}
}

// parallelEnvironments maps the names of PEs to their start and stop procedures.
var parallelEnvironments = map[string][2]string{
	"smp":        {"NONE", "NONE"},
	"procs":      {"TOOL/proc start $pe_hostfile $host $job_id $job_owner $job_name $pe $pe_slots $queue $ja_task_id $processors $stdin_path $stdout_path $stderr_path", "TOOL/proc stop $pe_hostfile"},
	"procs-root": {"root@PROBE start", "bob@PROBE stop"},
	"start-1":    {"PROBE start exit=1", "PROBE stop"},
	"start-99":   {"TOOL/rerun start", "PROBE stop"},
	"start-100":  {"PROBE start exit=100", "PROBE stop"},
	"start-none": {"/no/such/procedure", "PROBE stop"},
	"stop-1":     {"NONE", "PROBE stop exit=1"},
	"stop-99":    {"NONE", "TOOL/rerun stop"},
	"stop-100":   {"NONE", "PROBE stop exit=100"},
	"stop-none":  {"NONE", "/no/such/procedure"},
}
