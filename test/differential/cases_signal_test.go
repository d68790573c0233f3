package differential

// trapper is a job that prints the signals that it receives until it is released.
const trapper = "#!/bin/sh\nfor s in HUP INT USR1 USR2 TERM CONT XCPU; do trap \"echo got $s\" $s; done\nREADY\nAWAIT\necho end\n"

// signalCases are suspended, resumed, deleted and warned.
func signalCases() []jobCase {
	const hold = "#!/bin/sh\nPROBE job\nREADY\nAWAIT\necho end\n"
	suspend := func(d *driver, job int) error {
		return d.steps(job, d.ready, d.qmod("-sj"), d.stopped, d.qmod("-usj"), d.continued, d.let)
	}
	del := func(d *driver, job int) error { return d.steps(job, d.ready, d.qdel) }
	return []jobCase{
		{name: "suspended and resumed", script: hold, act: suspend},
		{name: "suspended and resumed with a child in a session of its own", script: "#!/bin/sh\nsetsid sleep 600 &\necho $! >" + flagDir + "/$JOB_ID.child\nREADY\nAWAIT\n", act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmod("-sj"), d.stopped, d.childStopped, d.qmod("-usj"), d.continued, d.let)
		}},
		{name: "suspended and deleted", script: hold, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmod("-sj"), d.stopped, d.qdel)
		}},
		{name: "suspended and resumed with the queue", queue: attrs("notify", "1"), script: hold, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmodQueue("-sq"), d.stopped, d.qmodQueue("-usq"), d.continued, d.let)
		}},
		{name: "a warning before being suspended", queue: attrs("notify", "00:00:02"), opts: []string{"-notify"}, script: trapper, act: suspend},
		{name: "a warning before being deleted", queue: attrs("notify", "00:00:02"), opts: []string{"-notify"}, script: trapper, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qdel, d.endedOrHelped)
		}},
		// The original sends a signal to the process group, and then to each process of the job. On a
		// busy machine the second one arrives after the first has been handled.
		{name: "a warning is enough", queue: attrs("notify", "00:00:30"), opts: []string{"-notify"}, script: "#!/bin/sh\ntrap 'trap \"\" USR2; echo bye; exit 7' USR2\nREADY\nAWAIT\n", act: del},
		{name: "deleted", script: hold, act: del},
		{name: "deleted with an epilog", queue: attrs("epilog", "PROBE epilog"), script: hold, act: del},
		{name: "deleted although signals are ignored", script: "#!/bin/sh\ntrap '' HUP INT TERM USR1 USR2\nREADY\nAWAIT\n", act: del},
		{name: "deleted with a child in a session of its own", script: "#!/bin/sh\nsetsid sleep 600 &\necho $! >" + flagDir + "/$JOB_ID.child\nREADY\nAWAIT\n", act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qdel, d.childIsGone)
		}},
		{name: "a terminate method that is a signal", queue: attrs("terminate_method", "SIGTERM"), script: "#!/bin/sh\ntrap 'trap \"\" TERM; echo bye; exit 5' TERM\nREADY\nAWAIT\n", act: del},
		{name: "a terminate method that is a signal, not caught", queue: attrs("terminate_method", "SIGUSR1"), script: hold, act: del},
		{name: "a terminate method that is a command", queue: attrs("terminate_method", "TOOL/method terminate $job_pid KILL $job_id $queue $job_owner"), script: hold, act: del},
		{name: "suspend and resume methods that are signals", queue: attrs("suspend_method", "SIGUSR1", "resume_method", "SIGUSR2"), script: trapper, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmod("-sj"), d.printed("got USR1"), d.qmod("-usj"), d.printed("got USR2"), d.let)
		}},
		{name: "suspend and resume methods that are commands", queue: attrs("suspend_method", "TOOL/method suspend $job_pid STOP", "resume_method", "TOOL/method resume $job_pid CONT"), opts: []string{"-wd", "OUT"}, script: hold, act: suspend},
		{name: "a suspend method after a warning", queue: attrs("notify", "00:00:01", "suspend_method", "SIGUSR2"), opts: []string{"-notify"}, script: trapper, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmod("-sj"), d.printed("got USR1"), d.printed("got USR2"), d.qmod("-usj"), d.printed("got CONT"), d.let)
		}},
		{name: "an array of which one task is deleted", opts: []string{"-t", "1-2"}, ends: 2, script: "#!/bin/sh\n[ $SGE_TASK_ID = 2 ] && exit 4\nREADY\nAWAIT\n", act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qdelTask(1))
		}},
		{name: "a parallel job is deleted", opts: []string{"-pe", "smp", "2"}, script: hold, act: del},
	}
}
