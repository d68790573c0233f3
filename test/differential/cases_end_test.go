package differential

import "fmt"

// rerunScript asks for a rerun once.
const rerunScript = "#!/bin/sh\necho run $RESTARTED\nREADY\nAWAIT\nPROBE job rerun=99\n"

// busy is a bash command that uses the same CPU time on each run, about two seconds.
const busy = "for ((i=0;i<1000000;i++)); do :; done"

// endCases end by themselves: with a status, through a signal, or with children
// left behind.
func endCases() []jobCase {
	cases := []jobCase{
		rerun(jobCase{name: "exit 99 once", script: rerunScript}),
		rerun(jobCase{name: "exit 99 once, with -r n", opts: []string{"-r", "n"}, script: rerunScript}),
		rerun(jobCase{name: "exit 99 once, appending to its output", opts: []string{"-o", "OUT/appended", "-j", "y"}, script: rerunScript}),
		{name: "exit 100 and procedures", queue: attrs("prolog", "PROBE prolog", "epilog", "PROBE epilog"), script: "#!/bin/sh\nexit 100\n"},
	}
	for _, status := range []int{0, 1, 2, 100, 126, 127, 128, 137, 200, 255} {
		cases = append(cases, jobCase{name: fmt.Sprintf("exit %d", status), script: fmt.Sprintf("#!/bin/sh\nexit %d\n", status)})
	}
	for _, sig := range []string{"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "XCPU", "XFSZ", "SYS"} {
		cases = append(cases, jobCase{
			name: "death through SIG" + sig,
			// Without core files, whose location depends on the kernel's settings.
			script: "#!/bin/bash\nulimit -c 0\nkill -" + sig + " $$\n",
		})
	}
	return append(cases,
		jobCase{name: "a job that writes its own verdict", queue: attrs(), script: "#!/bin/sh\necho 12 >$SGE_JOB_SPOOL_DIR/exit_status\n(date '+%m/%d/%Y %T [0:1]: made up' >$SGE_JOB_SPOOL_DIR/error) 2>/dev/null\nexit 0\n"},
		jobCase{name: "death with a core file", opts: []string{"-wd", "OUT"}, script: "#!/bin/sh\nulimit -c unlimited\nkill -SEGV $$\n"},
		jobCase{name: "death of a child only", opts: []string{"-S", "/bin/bash"}, script: "#!/bin/bash\nulimit -c 0\nexec 2>/dev/null\nbash -c 'kill -SEGV $$'\necho $?\nexit 6\n"},
		jobCase{
			name: "children left behind in the job's process group", script: "#!/bin/sh\nsleep 600 &\necho $! >" + flagDir + "/$JOB_ID.child\n",
			act: func(d *driver, job int) error { return d.steps(job, d.childIsGone) },
		},
		jobCase{
			name: "children left behind in a session of their own", script: "#!/bin/sh\nsetsid sh -c 'echo $$ >" + flagDir + "/$JOB_ID.tmp; mv " + flagDir + "/$JOB_ID.tmp " + flagDir + "/$JOB_ID.child; trap \"\" TERM HUP; exec sleep 600' &\nwhile [ ! -e " + flagDir + "/$JOB_ID.child ]; do sleep 0.05; done\n",
			act: func(d *driver, job int) error { return d.steps(job, d.childIsGone) },
		},
		jobCase{name: "a grandchild keeps the output open", opts: []string{"-j", "y"}, script: "#!/bin/sh\nnohup sleep 600 &\necho started\nexit 3\n"},
		jobCase{name: "CPU time is counted", script: "#!/bin/bash\nbash -c '" + busy + "'\n"},
		// execd never counts a process that it first sees before it knows the job's additional
		// group ID, nor one that has exited before its next check, about every other second. So the
		// job keeps creating processes until execd has seen one.
		jobCase{
			name: "memory is counted", script: "#!/bin/sh\nuntil [ -e " + flagDir + "/$JOB_ID.go ]; do bash -c 'printf -v x %60000000s x; " + busy + "'; done\n",
			act: func(d *driver, job int) error { return d.steps(job, d.memoryCounted, d.mayGo) },
		},
	)
}
