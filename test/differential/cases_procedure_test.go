package differential

import "fmt"

// procedureCases run prologs and epilogs that look, fail, ask for a rerun, die,
// or are not there.
func procedureCases() []jobCase {
	const pseudo = " $host $ja_task_id $job_owner $job_id $job_name $processors $queue $stdin_path $stdout_path $stderr_path $merge_stderr" +
		" $fs_stdin_host $fs_stdin_path $fs_stdin_tmp_path $fs_stdin_file_staging $fs_stdout_file_staging $fs_stderr_tmp_path"
	cases := []jobCase{
		{name: "prolog and epilog", queue: attrs("prolog", "PROBE prolog", "epilog", "PROBE epilog"), script: probeScript},
		{name: "prolog and epilog that are scripts", queue: attrs("prolog", "TOOL/proc prolog", "epilog", "TOOL/proc epilog"), script: probeScript},
		{name: "prolog and epilog as root and bob", queue: attrs("prolog", "root@TOOL/proc prolog", "epilog", "bob@TOOL/proc epilog"), script: probeScript},
		{name: "prolog and epilog around a command", queue: attrs("prolog", "TOOL/proc prolog", "epilog", "root@TOOL/proc epilog"), opts: []string{"-b", "y", "-shell", "n", "-j", "y"}, cmd: []string{"PROBE", "job"}},
		{name: "pseudo variables in prolog and epilog", queue: attrs("prolog", "PROBE prolog"+pseudo, "epilog", "PROBE epilog"+pseudo), opts: []string{"-N", "pseudo"}, script: probeScript},
		{name: "pseudo variables with -j y and an array", queue: attrs("prolog", "PROBE prolog"+pseudo), opts: []string{"-t", "2", "-j", "y", "-o", "OUT", "-i", "OUT/existing"}, script: probeScript},
		{name: "quotes in a procedure's arguments mean nothing", queue: attrs("prolog", `PROBE prolog "two words" 'x' \\a * $queue.x`), script: probeScript},
		{name: "procedures found in PATH, job is a command", queue: attrs("prolog", "echo a prolog", "epilog", "pwd"), opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job"}},
		{name: "an epilog found in PATH, job is a script", queue: attrs("epilog", "pwd"), script: probeScript},
		{name: "procedures without an interpreter line", queue: attrs("prolog", "TOOL/proc-plain prolog", "epilog", "TOOL/proc-plain epilog"), script: probeScript},
		{name: "the epilog is told of exit status 3", queue: attrs("epilog", "PROBE epilog"), script: "#!/bin/sh\nPROBE job exit=3\n"},
		{name: "the epilog is told of a signal", queue: attrs("epilog", "PROBE epilog"), script: "#!/bin/sh\nulimit -c 0\nkill -SEGV $$\n"},
		{name: "the epilog runs after a failed prolog", queue: attrs("prolog", "PROBE prolog exit=1", "epilog", "PROBE epilog"), script: probeScript},
		{name: "the epilog runs after a job that could not be started", queue: attrs("epilog", "PROBE epilog"), opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"/no/such/command"}},
		{name: "a limit does not hold for the procedures", queue: attrs("prolog", "TOOL/proc prolog", "epilog", "root@TOOL/proc epilog", "h_core", "1M", "h_stack", "64M", "h_fsize", "100M", "s_cpu", "100", "h_cpu", "200"), script: probeScript},
		{name: "a prolog of root edits the environment", queue: attrs("prolog", "root@TOOL/edit environment", "epilog", "PROBE epilog"), opts: []string{"-v", "USERS=mine"}, script: probeScript},
		{name: "an epilog of root edits the usage", queue: attrs("epilog", "root@TOOL/edit usage"), script: "#!/bin/sh\nexit 3\n"},
		{name: "prolog in the working directory of the job", queue: attrs("prolog", "PROBE prolog"), opts: []string{"-wd", "OUT"}, script: probeScript},
	}
	for _, step := range []string{"prolog", "epilog"} {
		for _, status := range []int{1, 2, 100, 255} {
			cases = append(cases, jobCase{
				name:  fmt.Sprintf("%s exits %d", step, status),
				queue: attrs(step, fmt.Sprintf("PROBE %s exit=%d", step, status)), script: probeScript,
			})
		}
		cases = append(cases,
			rerun(jobCase{name: step + " exits 99 once", queue: attrs(step, "TOOL/rerun "+step), script: probeScript}),
			jobCase{name: step + " dies through SIGTERM", queue: attrs(step, "TOOL/kill-self TERM"), script: probeScript},
			jobCase{name: step + " dies through SIGKILL", queue: attrs(step, "TOOL/kill-self KILL"), script: probeScript},
			jobCase{name: step + " missing, job is a command", queue: attrs(step, "/no/such/procedure x"), opts: []string{"-b", "y"}, cmd: []string{"/bin/true"}},
		)
	}
	return append(cases,
		// A missing prolog of a script is a matter for the whole host: hostErrorCases.
		jobCase{name: "epilog missing, job is a script", queue: attrs("epilog", "/no/such/procedure x"), script: probeScript},
		jobCase{name: "epilog not executable, job is a script", queue: attrs("epilog", "TOOL/no-exec x"), script: probeScript},
		jobCase{name: "epilog of an unknown user, job is a command", queue: attrs("epilog", "nobody-knows@PROBE epilog"), opts: []string{"-b", "y"}, cmd: []string{"/bin/true"}},
		jobCase{name: "epilog of an unknown user, job is a script", queue: attrs("epilog", "nobody-knows@PROBE epilog"), script: probeScript},
		jobCase{
			name: "qdel while the prolog runs", queue: attrs("prolog", "TOOL/hold-prolog", "epilog", "PROBE epilog"), script: probeScript,
			act: func(d *driver, job int) error {
				return d.steps(job, d.ready, d.qdel, d.signalled("KILL", 2), d.let)
			},
		},
	)
}

// starterCases replace the job's shell.
func starterCases() []jobCase {
	var cases []jobCase
	for _, mode := range shellModes {
		queue := func() map[string]string {
			return attrs("shell_start_mode", mode, "starter_method", "TOOL/run-job")
		}
		cases = append(cases,
			jobCase{name: "a starter method for a script in mode " + mode, queue: queue(), script: probeScript, cmd: []string{"a", "b c"}},
			jobCase{name: "a starter method for a command in mode " + mode, queue: queue(), opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job", "b c"}},
		)
	}
	for _, status := range []int{0, 1, 2, 100, 255} {
		cases = append(cases, jobCase{
			name:  fmt.Sprintf("a starter method exits %d", status),
			queue: attrs("starter_method", fmt.Sprintf("TOOL/starter-exit-%d", status)), script: probeScript,
		})
	}
	return append(cases,
		// The value is a path, blanks and all.
		jobCase{name: "a starter method with arguments", queue: attrs("starter_method", "TOOL/run-job x"), script: probeScript},
		jobCase{name: "a starter method and procedures", queue: attrs("starter_method", "TOOL/run-job", "prolog", "PROBE prolog", "epilog", "PROBE epilog"), script: probeScript},
		jobCase{name: "a starter method without a login shell", queue: attrs("starter_method", "TOOL/run-job", "shell", "/bin/dash"), script: probeScript},
		jobCase{name: "a starter method and -b y -shell n", queue: attrs("starter_method", "TOOL/run-job"), opts: []string{"-b", "y", "-shell", "n"}, cmd: []string{"PROBE", "job", "b c"}},
		jobCase{name: "a starter method that is missing, job is a script", queue: attrs("starter_method", "/no/such/starter"), script: probeScript},
		jobCase{name: "a starter method that is missing, job is a command", queue: attrs("starter_method", "/no/such/starter"), opts: []string{"-b", "y"}, cmd: []string{"/bin/true"}},
		rerun(jobCase{name: "a starter method exits 99 once", queue: attrs("starter_method", "TOOL/starter-rerun"), script: probeScript}),
	)
}

// hostErrorCases put every queue of the host into error state.
func hostErrorCases() []jobCase {
	cases := []jobCase{
		{name: "prolog missing, job is a script", queue: attrs("prolog", "/no/such/procedure x", "epilog", "PROBE epilog"), script: probeScript},
		{name: "prolog of an unknown user, job is a script", queue: attrs("prolog", "nobody-knows@PROBE prolog", "epilog", "PROBE epilog"), script: probeScript},
		{name: "prolog of an unknown user, job is a command", queue: attrs("prolog", "nobody-knows@PROBE prolog"), opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job"}},
		{name: "prolog found in PATH, job is a script", queue: attrs("prolog", "echo a prolog", "epilog", "PROBE epilog"), script: probeScript},
		{name: "prolog with an unknown pseudo variable", queue: attrs("prolog", "PROBE prolog $other", "epilog", "PROBE epilog"), script: probeScript},
		{name: "prolog with a lone dollar sign", queue: attrs("prolog", "PROBE prolog $$"), script: probeScript},
		{name: "epilog with an unknown pseudo variable", queue: attrs("epilog", "PROBE epilog $other"), script: probeScript},
		{name: "prolog with an unknown pseudo variable, job is a command", queue: attrs("prolog", "PROBE prolog $other"), opts: []string{"-b", "y"}, cmd: []string{"PROBE", "job"}},
	}
	for i := range cases {
		cases[i].phase = phaseHostError + phase(i)
	}
	return cases
}
