package differential

// checkpointCases run under checkpointing environments.
func checkpointCases() []jobCase {
	ckpt := func(name string, c jobCase) jobCase {
		c.opts = append([]string{"-ckpt", name}, c.opts...)
		if c.queue == nil {
			c.queue = attrs("ckpt_list", name)
		}
		return c
	}
	return []jobCase{
		ckpt("user", jobCase{name: "a job that checkpoints itself ends without one", script: probeScript}),
		ckpt("app", jobCase{name: "an application checkpoint is never asked for", script: probeScript}),
		ckpt("app", jobCase{
			name: "an application checkpoint when suspended", phase: phaseRerun, ends: 2, opts: []string{"-c", "sx"},
			script: "#!/bin/sh\nPROBE job\n[ $RESTARTED = 0 ] || exit 6\nREADY\nAWAIT\n",
			act: func(d *driver, job int) error {
				return d.steps(job, d.ready, d.hold, d.qmod("-sj"), d.awaitEnd, d.forgotten, d.qmod("-usj"), d.release)
			},
		}),
		ckpt("user", jobCase{
			name: "a job that checkpoints itself is suspended", phase: phaseRerun, ends: 2, opts: []string{"-c", "sx"},
			script: "#!/bin/sh\nPROBE job\n[ $RESTARTED = 0 ] || exit 6\nREADY\nAWAIT\n",
			act: func(d *driver, job int) error {
				return d.steps(job, d.ready, d.hold, d.qmod("-sj"), d.awaitEnd, d.forgotten, d.qmod("-usj"), d.release)
			},
		}),
		rerun(ckpt("user", jobCase{name: "a checkpoint job exits 99 once", script: rerunScript})),
	}
}

// checkpoints are the checkpointing environments by name.
var checkpoints = map[string]map[string]string{
	"user": {"interface": "userdefined", "signal": "USR1", "ckpt_dir": "/tmp"},
	"app": {
		"interface": "application-level", "ckpt_command": "PROBE ckpt", "ckpt_dir": "/home/alice",
		"migr_command": "TOOL/method migrate $job_pid KILL $ckpt_dir", "clean_command": "PROBE clean $job_id $ckpt_dir",
	},
}

// paramCases look at what execd_params and qmaster_params change.
func paramCases() []jobCase {
	return []jobCase{
		{name: "without the daemon's environment", phase: phaseRerun, script: probeScript},
		{name: "without the daemon's environment, a command", phase: phaseRerun, opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job"}},
		{name: "limits of execd_params", phase: phaseRerun, script: "#!/bin/sh\ncat /proc/self/limits\n"},
		{name: "limits of execd_params times two slots", phase: phaseRerun, opts: []string{"-pe", "smp", "2"}, script: "#!/bin/sh\ncat /proc/self/limits\n"},
		{name: "limits of execd_params in procedures", phase: phaseRerun, queue: attrs("prolog", "TOOL/proc prolog", "epilog", "root@TOOL/proc epilog"), script: probeScript},
		{name: "another warning before being deleted", phase: phaseRerun, queue: attrs("notify", "00:00:01"), opts: []string{"-notify"}, script: trapper, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qdel)
		}},
		{name: "no warning before being suspended", phase: phaseRerun, queue: attrs("notify", "00:00:30"), opts: []string{"-notify"}, script: trapper, act: func(d *driver, job int) error {
			return d.steps(job, d.ready, d.qmod("-sj"), d.stopped, d.qmod("-usj"), d.continued, d.let)
		}},
		{name: "the group of qsub, the library path", phase: phaseParams, script: probeScript},
		{name: "exit 99 means nothing", phase: phaseParams, script: "#!/bin/sh\nexit 99\n"},
		{name: "exit 100 means nothing", phase: phaseParams, script: "#!/bin/sh\nexit 100\n"},
		rerun(jobCase{name: "prolog exit 99 means something", phase: phaseParams, queue: attrs("prolog", "TOOL/rerun prolog"), script: probeScript}),
		{
			name: "children in a session of their own stay", phase: phaseParams, script: "#!/bin/sh\nsetsid sh -c 'echo $$ >" + flagDir + "/$JOB_ID.tmp; mv " + flagDir + "/$JOB_ID.tmp " + flagDir + "/$JOB_ID.child; exec sleep 600' &\nwhile [ ! -e " + flagDir + "/$JOB_ID.child ]; do sleep 0.05; done\n",
			act: func(d *driver, job int) error { return d.steps(job, d.childStays) },
		},
	}
}
