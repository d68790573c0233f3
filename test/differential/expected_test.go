package differential

// Patterns of case names that several expectations use.
const (
	fromStdin = `.* in mode script_from_stdin|.*script from stdin.*`
	otherUser = `.*root's prolog|prolog and epilog as root and bob|prolog and epilog around a command|a limit does not hold for the procedures|a queue with priority 19 and procedures|start and stop procedures as root and bob|limits of execd_params in procedures`
)

// expectedDifferences are the ways in which sge_shepherd-go differs from the
// original on purpose. Those that a user or an administrator may meet are in
// docs/differences.md, too.
var expectedDifferences = []expectation{
	// Files of the job directory.
	{
		field:    `(active/\d+|seen/[^/]+/Spool)/(config|environment)`,
		original: `-rw-r--r-- .*`, ours: `-rw------- .*`,
		why: "security: variables and arguments are nobody else's business",
	},
	{
		field:    `(active/\d+|seen/[^/]+/Spool)/(error|exit_status|trace)`,
		original: `-rw-r--r-- 2001:2001`, ours: `-rw-r--r-- \d{1,3}:\d{1,3}`,
		why: "security: the original gives these files to the job's owner, who may then write what became of the job",
	},
	{
		field:    `active/\d+/usage/(cpu|exact_start_time|exact_end_time|wallclock)`,
		original: `\(absent\)`,
		why:      "more than the original tells; a real execd reads over keys that it does not know",
	},
	{
		field:    `active/\d+/error/content`,
		original: `(?s).+`, ours: `(?s).+`,
		why: "the wording of messages",
	},
}
