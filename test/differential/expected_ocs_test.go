package differential

// expectedOCS are differences from the programs of Open Cluster Scheduler only.
var expectedOCS = []expectation{
	{
		field:    `active/\d+/failed/content`,
		original: `(?s).+`, ours: `(?s).+`,
		why: "the wording of messages: sge_execd copies the first line of the file error",
	},
	{
		field:    `seen/1\.(migrate|clean|terminate|suspend|resume)\.1/Processes/\d+/Status/Groups`,
		cases:    `an application checkpoint.*|a terminate method that is a command|suspend and resume methods that are commands`,
		original: `2001 2100`, ours: `2001 2100 GID`,
		why: "robustness: processes of methods and of the commands of a checkpointing environment are found by their group, too",
	},
	{
		field: `seen/\d+\.(prolog|epilog|start|stop)\.\d+/Processes/\d+/Environ/SGE_BINDING_(INSTANCE|TOPOLOGY|CPUSET)`, cases: otherUser,
		original: `set|NONE|0x0`, ours: `\(absent\)`,
		why: "security: a procedure that does not run as the job's owner has only values that are in the file config as well",
	},
	{
		field: `seen/\d+\.(prolog|start)\.\d+/Tmpdir`, cases: otherUser,
		original: `drwx.*`, ours: `error: no such file or directory`,
		why: "the probe looks where TMPDIR says, which is a user's variable",
	},
	{
		field: `seen/1\.(job|starter)\.1/Processes/\d+/Environ/SGE_STARTER_USE_LOGIN_SHELL`, cases: `a starter method without a login shell`,
		original: `\(absent\)`, ours: `false`,
		why: "as with 8.1.9: queue_conf(5) names the variable without a condition",
	},
	{
		field: `acct/0\.1/failed`, cases: `epilog missing, job is a command`,
		original: `15`, ours: `14`,
		why: "robustness: a procedure that is missing is the same mistake for scripts and commands",
	},
	{
		field: consequences, cases: `a job that writes its own verdict`,
		why: "security: the queue gets into error state by what the job writes; in 8.1.9 the record alone is wrong",
	},
	{
		field: `acct/0\.1/(ru_wallclock|wallclock|times fit)`, cases: `an epilog of root edits the usage`,
		original: `\d(\.\d+)?|true`, ours: `99999(\.0)?|false`,
		why: "as with 8.1.9: of a key that an epilog of root repeats the last value counts; for sge_execd 9.1.4 the first",
	},
	{
		field:    `acct/[^/]+/maxvmem`,
		original: `\d+\.0`, ours: `\d+\.0`,
		why: "sampled: a job of milliseconds may have none, or that of the shepherd before exec",
	},
	{
		field: `seen/\d+\.start\.\d+/Processes/\d+/Argv/13`, cases: `start and stop procedures with -j y`,
		original: `/home/alice`, ours: `/home/alice/.*\.po\d+`,
		why: "promise: $stderr_path is the file that standard error goes to; without $ja_task_id it is one word earlier than in 8.1.9",
	},
}

// expectedOCSAgent are differences of the agent from sge_execd of Open Cluster Scheduler only.
var expectedOCSAgent = []expectation{
	{
		field: `seen/1\.job\.1/Processes/\d+/Environ/W`, cases: `-v with backslashes, quotes and more than ASCII`,
		original: `C:\\dir\n.*`, ours: `C:\\dir\\n.*`,
		why: "robustness: for sge_shepherd a backslash and n in a value of the user are a newline",
	},
	{
		field: `seen/1\.(job|epilog)\.1/Processes/\d+/Environ/TWO`, cases: `a prolog of root edits the environment`,
		original: `(?s).*\\\\c`, ours: `(?s).*[^\\]\\c`,
		why: "as with 8.1.9: the file environment has a backslash as two, so that no value is ambiguous",
	},
	{
		field: `note/child after the job's end`, cases: `children left behind in a session of their own|deleted with a child in a session of its own`,
		original: `alive: true`, ours: `alive: false`,
		why: "robustness, and as with 8.1.9: ENABLE_ADDGRP_KILL is on unless a configuration unsets it",
	},
	{
		field: `note/child stopped`, cases: `suspended and resumed with a child in a session of its own`,
		original: `false`, ours: `true`,
		why: "robustness, and as with 8.1.9: the same",
	},
}
