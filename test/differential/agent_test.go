package differential

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestAgent runs jobs under the original sge_execd and sge_shepherd and under execd agent --master
// gridengine, and compares the accounting records and the data that the jobs report.
func TestAgent(t *testing.T) {
	// Some jobs of each kind, without those that wait for anything.
	compareAgent(t, 0, func(c jobCase) bool {
		n, _ := strconv.Atoi(strings.TrimPrefix(c.slug, "c"))
		return c.phase == phaseMain && c.act == nil && n%2 == 0
	})
}

// TestSoakAgent does this with all jobs.
func TestSoakAgent(t *testing.T) {
	testenv.Soak(t)
	compareAgent(t, must(expectedAgent), func(jobCase) bool { return true })
}

// compareAgent compares the chosen cases. must is the number of entries in expectedAgent that must
// occur.
func compareAgent(t *testing.T, must int, chosen func(jobCase) bool) {
	require(t)
	programs := t.TempDir()
	probePath := build(t, programs, "probe", "../probe")
	if err := testenv.Build(programs, ""); err != nil {
		t.Fatal(err)
	}
	table := func() []jobCase {
		all := chosenCases(t)
		return slices.DeleteFunc(all, func(c jobCase) bool { return !chosen(c) })
	}
	original := newDriver(t, "", "", table())
	other := newDriver(t, "", programs, table())
	errs := runBoth(original, other, probePath)
	for i := range original.cases {
		outside(original.seen[i], "")
		outside(other.seen[i], gridengine.AgentSpool)
	}
	expected := slices.Concat(expectedAgent, hostsAgent, expectedDifferences())
	if ocs() {
		expected = append(expected, expectedOCSAgent...)
	}
	report(t, original, other, newJudge(expected, must), errs)
}

// outside reduces an observation to the part that the job and its user can see. The files between
// daemon and supervisor, and their paths, are internal to the agent.
func outside(o observation, spool string) {
	maps.DeleteFunc(o, func(field, _ string) bool {
		return strings.HasPrefix(field, "active/") || strings.Contains(field, "/Spool/")
	})
	if spool == "" {
		return
	}
	for field, value := range o {
		o[field] = strings.ReplaceAll(value, spool+"/", filepath.Join(originalSpool, "cellhost")+"/")
	}
}

// originalSpool is execd_spool_dir of the cells.
const originalSpool = "/var/spool/gridengine/execd"

// expectedAgent lists the additional intended differences of the agent.
var expectedAgent = []expectation{
	{
		field:    `seen/[^/]+/Processes/\d+/Environ/(FROM_EXECD|LD_FROM_EXECD|OLDPWD|PWD|TZ|SGE_SINGLE_LINE)`,
		original: `yes|1|/|UTC`, ours: `\(absent\)`,
		why: "robustness: INHERIT_ENV is off unless a configuration sets it",
	},
	{
		field:    `seen/[^/]+/Processes/\d+/Environ/SGE_BINARY_PATH`,
		original: `/var/lib/gridengine/bin/lx-amd64`, ours: `/home/cell/bin`,
		why: "where our programs are",
	},
	{
		field: `seen/[^/]+/Processes/\d+/Environ/__SGE_PREFIX2__BINARY_PATH`, cases: `names of Grid Engine with values.*`,
		original: `\(absent\)`, ours: `/evil`,
		why: "security: for the original it is a way to replace what sge_execd sets; for the agent it is a name as others",
	},
	{
		field: `acct/0\.1/ru_ismrss`, cases: `an epilog of root edits the usage`,
		original: `7`, ours: `0`,
		why: "the supervisor does not write it, and nobody else is expected to",
	},
	{
		field:    `seen/[^/]+/Tmpdir`,
		original: `drwxr-xr-x 2001:2001`, ours: `drwx------ 2001:2001`,
		why: "security: what a job writes there is nobody else's business",
	},
	{
		field: `seen/[^/]+/Std/0`, cases: `.*script_from_stdin|a script from stdin .*`,
		original: `-rwxr-xr-x .*`, ours: `-r-xr-x--- 0:0`,
		why: "security: a script is its owner's alone",
	},
	{
		field: `acct/0\.1/failed`, cases: `an argument of two lines.*`,
		original: `26`, ours: `0`,
		why: "security: the second line became a setting; the agent hands on arguments as they are",
	},
	{
		field: consequences, cases: `an argument of two lines.*`,
		why: "what follows from the other outcome",
	},
}

// hostsAgent lists differences that only occur on some hosts.
var hostsAgent = []expectation{
	{
		field:    `seen/[^/]+\.(job|starter)\.\d+/Processes/\d+/Limits/processes`,
		original: `\d+ \d+ processes`, ours: `\d+ \d+ processes`,
		why: "robustness: a fork bomb; without a pids controller pids_limit bounds the processes of the user",
	},
}
