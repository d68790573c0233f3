package differential

// expectedDifferences lists the intended differences between sge_shepherd-go and the original, by
// topic. docs/differences.md also describes those that a user or an administrator may notice.
func expectedDifferences() []expectation {
	var all []expectation
	for _, table := range [][]expectation{
		expectedFiles, expectedLimits, expectedOutlets, expectedEdits, expectedInjection, expectedProcedureEnvironment, expectedProcedures, expectedFromStdin, expectedMethods,
	} {
		all = append(all, table...)
	}
	if ocs() {
		all = append(all, expectedOCS...)
	}
	return all
}

// expectedFiles are about the job directory and the job's output.
var expectedFiles = []expectation{
	{
		field:    `(active/\d+|seen/[^/]+/Spool)/(config|environment)`,
		original: `-rw-r--r-- .*`, ours: `-rw------- .*`,
		why: "security: variables and arguments are nobody else's business",
	},
	{
		field:    `(active/\d+|seen/[^/]+/Spool)/(error|exit_status|trace)`,
		original: `-rw-r--r-- 200[12]:200[12]`, ours: `-rw-r--r-- \d{1,3}:\d{1,3}`,
		why: "security: the original gives these files to the job's owner, who may then write what became of the job",
	},
	{
		field:    `active/\d+/usage/(cpu|mem|io|ioops|maxvmem|maxrss|exact_start_time|exact_end_time|wallclock)`,
		original: `\(absent\)`, ours: `[\d.]+|number: true`,
		why: "more than the original tells; a real execd reads over keys that it does not know",
	},
	{
		field:    `seen/[^/]+/Spool/\.usage\.new`,
		original: `\(absent\)`, ours: `-rw-r--r-- \d{1,3}:\d{1,3}`,
		why: "robustness: room on the disk for the usage is taken before the job is started",
	},
	{
		field:    `seen/[^/]+/Spool/usage_online`,
		original: `\(absent\)`,
		why:      "what a running job has used so far, for whoever reports it",
	},
	{
		field:    `active/\d+/error/content`,
		original: `(?s).+`, ours: `(?s).+`,
		why: "the wording of messages",
	},
	{
		field: `home/.*\.o\d+`, cases: `-e where alice may not write`,
		original: `\(absent\)`, ours: `\(present\)`,
		why: "files are opened one after the other; the original looks at both paths before",
	},
	{
		field: `seen/[^/]+/Processes/\d+/Environ/SGE_BINDING`, cases: `binding to one core`,
		original: `\(absent\)`, ours: `\d+( \d+)*`,
		why: "promise: sge_submit(1) names the variable without a condition; the original loses it with INHERIT_ENV=false",
	},
}

// expectedLimits are about jobs that a limit has ended.
var expectedLimits = []expectation{
	{
		field:    `seen/1\.job\.1/Processes/\d+/Limits/cpu time`,
		original: `\d+ \d+ seconds`, ours: `\d+ \d+ seconds`,
		why: "promise: h_cpu and s_cpu are those of all processes together, and watched; the kernel's, of each process, stands behind them",
	},
	{
		field: `seen/1\.job\.1/Processes/\d+/Limits/address space`, cases: `the limits of a request`,
		original: `3221225472 4294967296 bytes`, ours: `4294967296 4294967296 bytes`,
		why: "promise: a job above s_vmem gets SIGXCPU; with the kernel's soft limit its allocations fail instead",
	},
	{
		field: `acct/0\.1/failed`, cases: `too much CPU time, with s_cpu`,
		original: `100`, ours: `37`,
		why: "promise: a job that a limit has ended is told from one that somebody killed",
	},
	{
		field: `active/1/(exit_status/content|error/content|usage/(signal|limit|reason))`, cases: `too much CPU time, with s_cpu`,
		original: `0\n|24||\(absent\)`, ours: `37\n|0|.*s_cpu.*\n?`,
		why: "as above: which limit it was is in the error text and in the usage",
	},
}

// expectedOutlets are about the output and the limits of procedures.
var expectedOutlets = []expectation{
	{
		field:    `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/FDs/[12]`,
		original: `[\dN]+ /home/alice/.*`, ours: `01 pipe`,
		why: "security: a procedure that writes to the user's file ends when the user wants it to; a process of the user's writes that file",
	},
	{
		field:    `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Std/[12]`,
		original: `-rw.*`, ours: `prw------- \d+:\d+`,
		why: "security: as above",
	},
	{
		field:    `seen/1\.(prolog|epilog)\.1/Processes/0/Limits/(core file size|cpu time|file size|stack size)`,
		cases:    `a limit does not hold for the procedures`,
		original: `\d+ \d+ (bytes|seconds)`, ours: `unlimited unlimited (bytes|seconds)`,
		why: "security: with the requests of its job a user could have a procedure fail; a real execd does not tell them from what the queue has",
	},
	{
		field:    `seen/\d+\.(prolog|epilog|start|stop|clean|migrate)\.\d+/Processes/\d+/Limits/processes`,
		original: `(5000|10000) (5000|10000) processes`,
		why:      "security: all processes of the user on the host count, so that others of them would have a procedure fail",
	},
	{
		field: `acct/0\.1/failed|active/1/exit_status/content`, cases: `(prolog|epilog) dies through SIG(TERM|KILL)`,
		original: `(8|15)\n?`, ours: `(30|14)\n?`,
		why: "security: the owner of a job can kill what runs as the owner; that is no error of the queue",
	},
	{
		field: consequences, cases: `(prolog|epilog) dies through SIG(TERM|KILL)`,
		why: "as above",
	},
}

// expectedEdits are about what procedures do to the files of the job directory.
var expectedEdits = []expectation{
	{
		field: `(?s)seen/[^/]+/Processes/\d+/Environ/no variable.*`, cases: `a prolog of root edits the environment`,
		ours: `\(absent\)`,
		why:  "robustness: for the original a line without a value is a name, its end included",
	},
	{
		field: `seen/1\.epilog\.1/Processes/\d+/Environ/JOB_NAME`, cases: `a prolog of root edits the environment`,
		original: `changed`, ours: `c\d+\.sh`,
		why: "security: a line may be made of a value of the user's; what the daemon says of a job, it says to procedures itself",
	},
}

// expectedInjection are attempts of a job to forge data that only Grid Engine may write.
var expectedInjection = []expectation{
	{
		field: `acct/0\.1/failed|active/1/exit_status/content`, cases: `an argument of two lines.*`,
		original: `26\n?`, ours: `30\n?`,
		why: "security: the second line became a setting, and the original started the job as another user; ours refuses it as the job's own mistake",
	},
	{
		field: `active/1/(addgrpid|job_pid|trace)`, cases: `an argument of two lines.*`,
		original: `\(present\)`, ours: `\(absent\)`,
		why: "security: the job is refused before anything is started",
	},
	{
		field: `acct/0\.1/failed|active/1/exit_status/content`, cases: `a job that writes its own verdict`,
		original: `12\n?`, ours: `0\n?`,
		why: "security: the job's owner cannot write the files of the verdict",
	},
	{
		field: `acct/0\.1/(start|end)_time|active/1/usage`, cases: `a job that writes its own verdict`,
		original: `set: false|\(absent\)`, ours: `set: true|\(present\)`,
		why: "security: with the verdict 12 the original's execd takes the job for one that never ran",
	},
	{
		field: `active/1/error/content`, cases: `a job that writes its own verdict`,
		original: `made up\n`, ours: ``,
		why: "security: the job's owner cannot write the files of the verdict",
	},
	{
		field: `home/.*\.e\d+/content`, cases: `a job that writes its own verdict`,
		original: ``, ours: `.*cannot create .*/exit_status: Permission denied\n`,
		why: "security: the job's owner cannot write the files of the verdict",
	},
}

// expectedProcedureEnvironment is about the variables of the site's procedures.
var expectedProcedureEnvironment = []expectation{
	{
		field:    `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/Environ/PATH`,
		original: `/tmp/.*`, ours: `/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
		why: "security: PATH is the user's, and begins with a folder of the user's",
	},
	{
		field:    `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/Environ/LD_(FROM_EXECD|LIBRARY_PATH|BIND_NOW)`,
		original: `.+`, ours: `\(absent\)`,
		why: "security: what the dynamic linker reads is not for a procedure of the site, even one that runs as the job's owner",
	},
	{
		field: `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/Environ/(SGE_JOB_ENV_.*|FROM_EXECD|TERM|TMP|TMPDIR|TZ|PWD|OLDPWD|` +
			`SGE_O_.*|SGE_SINGLE_LINE|BASH_ENV|ENV|ENVOY|KRB5_CONFIG|LANG|LC_ALL|NLSPATH|TZDIR)`,
		cases: otherUser,
		why:   "security: a procedure that does not run as the job's owner has the user's variables only under the prefix SGE_JOB_ENV_",
	},
	{
		field: `seen/\d+\.(prolog|epilog)\.\d+/Processes/\d+/Environ/(SGE_(BINARY_PATH|RSH_COMMAND|CKPT_DIR|CKPT_ENV|QMASTER_PORT|EXECD_PORT|` +
			`NOTIFY_KILL_SIGNAL|STARTER_SHELL_PATH|BINDING)|PE|PE_HOSTFILE)`,
		cases:    `names of Grid Engine with values.*`,
		original: `/evil`, ours: `\(absent\)|/var/lib/gridengine/bin/lx-amd64`,
		why: "security: a procedure of root would execute what the user named so; one of the owner would fail, and with it the queue",
	},
	{
		field: `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/Environ/(HOME|SHELL)`, cases: otherUser,
		original: `/home/alice|/bin/sh`, ours: `/home/bob|/root|/bin/(ba)?sh`,
		why: "security: a shell of root reads files in HOME, which was the user's",
	},
	{
		field: `seen/\d+\.(prolog|epilog|start)\.\d+/Processes/\d+/Environ/ENVIRONMENT`, cases: otherUser,
		original: `\(absent\)`, ours: `BATCH`,
		why: "promise: the original removes ENV for root, and with it every name that begins so",
	},
	{
		field: `seen/\d+\.(epilog|stop)\.\d+/Tmpdir`, cases: otherUser,
		original: `drwx.*`, ours: `error: no such file or directory`,
		why: "the probe looks where TMPDIR says, which is a user's variable",
	},
	{
		field:    `seen/\d+\.(epilog|stop|clean)\.\d+/Processes/\d+/Environ/SGE_JOBEXIT_STAT`,
		original: `\(absent\)`, ours: `\d+`,
		why: "promise: queue_conf(5) promises the variable to the epilog; the original loses it with INHERIT_ENV=false",
	},
}

// otherUser matches the cases with a procedure that does not run as the job's owner.
const otherUser = `.*root's prolog|prolog and epilog as root and bob|prolog and epilog around a command|a limit does not hold for the procedures|` +
	`a queue with priority 19 and procedures|start and stop procedures as root and bob|limits of execd_params in procedures`

// Fields that differ if the outcome of a case differs.
const consequences = `acct/[^/]+/(exit_status|qsub_time|start_time|end_time|slots|granted_pe)|active/1/usage(/exit_status|/wait_status)?|` +
	`active/1/(error|exit_status|failed)(/content)?|note/(state|queue|all\.q) afterwards|home/.*|seen/[^/]+`

// expectedProcedures is about procedures that cannot be started.
var expectedProcedures = []expectation{
	{
		field: `acct/0\.1/failed`, cases: `prolog (missing|of an unknown user), job is a (script|command)`,
		original: `7|27`, ours: `8`,
		why: "robustness: a prolog that cannot be started is an error of its queue, not of every queue of the host, nor of the job",
	},
	{
		field: `acct/0\.1/failed`, cases: `epilog missing, job is a command`,
		original: `27`, ours: `14`,
		why: "robustness: the job has run; the original tells so for scripts only",
	},
	{
		field: `acct/0\.1/failed`, cases: `the (start|stop) procedure is missing, job is a command`,
		original: `27|10|13`, ours: `9|12`,
		why: "robustness: a procedure that is missing is the same mistake for scripts and commands",
	},
	{
		field: `acct/0\.1/failed`, cases: `(an epilog|prolog) found in PATH, job is a script`,
		original: `7|14`, ours: `0`,
		why: "robustness: the original looks along PATH for a command's procedures, and for a script's only where it is",
	},
	{
		field: `acct/0\.1/failed`, cases: `(prolog|epilog) with (an unknown pseudo variable|a lone dollar sign).*`,
		original: `7|14`, ours: `0`,
		why: "robustness: what is no pseudo variable stays as it is; for the original it is a reason to take the host out of service",
	},
	{
		field: consequences,
		cases: `(prolog|epilog) (missing|of an unknown user), job is a (script|command)|the (start|stop) procedure is missing, job is a command|` +
			`(an epilog|prolog) found in PATH, job is a script|(prolog|epilog) with (an unknown pseudo variable|a lone dollar sign).*`,
		why: "what follows from the other outcome",
	},
	{
		field: `seen/\d+\.prolog\.\d+/Processes/\d+/Argv/11`, cases: `pseudo variables with -j y and an array`,
		original: `/home/alice`, ours: `/home/alice/.*\.o\d+\.2`,
		why: "promise: $stderr_path is the file that standard error goes to, with -j y that of standard output",
	},
	{
		field: `seen/\d+\.start\.\d+/Processes/\d+/Argv/14`, cases: `start and stop procedures with -j y`,
		original: `/home/alice`, ours: `/home/alice/.*\.po\d+`,
		why: "promise: as above",
	},
}

// expectedFromStdin is about commands in queues for scripts from standard input.
var expectedFromStdin = []expectation{
	{
		field: `seen/[^/]+/(Std/0|Processes/\d+/FDs/(0|16|19))`, cases: commandFromStdin,
		original: `.*/probe|-rwxr-xr-x 0:0`, ours: `.* /dev/null|Dcrw-rw-rw- 0:0`,
		why: "robustness: a command is not a script; the original opens it as standard input all the same",
	},
	{
		field: `acct/0\.1/failed`, cases: commandFromStdin,
		original: `11`, ours: `0|27`,
		why: "robustness: a command that is found along PATH, or is none, need not be a file that can be opened",
	},
	{
		field: consequences + `|acct/0\.1/exit_status`, cases: commandFromStdin,
		why: "robustness: the original feeds the program's file to a shell; ours runs the program",
	},
	{
		field: `seen/\d+\.starter\.\d+/Processes/\d+/Argv/[23]`, cases: commandFromStdin,
		original: `-s`, ours: `/home/cell/bin/probe`,
		why: "robustness: a starter method is told the command, which is not on its standard input",
	},
}

// commandFromStdin matches the cases of a command in such a queue.
const commandFromStdin = `a (command|starter method for a command).* in mode script_from_stdin`

// expectedMethods is about methods and checkpoint commands.
var expectedMethods = []expectation{
	{
		field:    `seen/\d+\.(suspend|resume|terminate|migrate|clean)\.\d+/Processes/\d+/Session`,
		original: `of another`, ours: `own|of process \d`,
		why: "a method has a session of its own, like everything else that is started",
	},
	{
		field:    `seen/\d+\.(suspend|resume|terminate|migrate|clean)\.\d+/Processes/\d+/Argv/0`,
		original: `/home/cell/bin/.*`, ours: `sh`,
		why: "the shell that runs a method is named as what it is",
	},
	{
		field:    `seen/\d+\.(suspend|resume|terminate|migrate|clean)\.\d+/Processes/\d+/Environ/SGE_(CWD|STDIN|STDOUT|STDERR)_PATH`,
		original: `\(absent\)`, ours: `/.*`,
		why: "a method is told where it is and where its output goes, as procedures are",
	},
	{
		field:    `seen/\d+\.(suspend|resume|terminate|migrate|clean)\.\d+/Processes/\d+/FDs/[12]`,
		original: `\d+ /dev/null`, ours: `\d+ /dev/null`,
		why: "opened for appending, which makes no difference to /dev/null",
	},
	{
		field:    `seen/\d+\.clean\.\d+/Spool/usage`,
		original: `\(absent\)`, ours: `-rw-r--r-- .*`,
		why: "robustness: what the job used is on disk before anything else is started",
	},
}
