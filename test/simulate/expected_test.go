package simulate

import "github.com/execd-project/execd/test/simulate/compare"

// randomDifferences are the ways in which we differ from the original in what is run
// without a choice of seeds.
var randomDifferences = []compare.Expectation{}

// What the original gets wrong in several seeds.
const (
	threshold = "where the original has found two numbers of slots of a range possible, it does not look at load thresholds when the job starts"
	misplaced = "the original reserves for a serial job where a job before it has found a place, at that job's time"
	forgotten = "the original never reserves again for a kind of jobs that could not start in a run at all, whatever comes to run"
)

// soakDifferences are those that only other seeds show. A seed in which one decision
// differs shows all that follows from it.
var soakDifferences = []compare.Expectation{
	{
		Case: "seed-13", Step: "between|first|second",
		Why: "a parallel job with -l exclusive=false is dispatched by the original in each run and refused by its qmaster: it never starts, and takes part in all tickets",
	},
	{
		Case: "seed-301", Step: "between|first|second",
		Why: "a parallel job with a consumable that is counted once per job is dispatched by the original on a host that has enough of it, whatever is left in the cluster, and refused by its qmaster: it never starts, and nobody else gets its slots",
	},
	{
		Case: "seed-60", Step: "first", File: `schedinfo\.txt`, Job: "14", Got: `\(absent\)`, Want: ".*because it offers only .*",
		Why: "a parallel job for which places are reserved: the original runs two reasons into one another",
	},
	{
		Case: "seed-192", Step: "first|second", File: `schedinfo\.txt`, Job: "7|8", Got: `\(absent\)`, Want: ".*is already in useit offers only .*",
		Why: "the original runs two reasons into one another",
	},
	{
		Case: "seed-63", Step: "first|between|second",
		Why: "jobs with -R y start in queue instances that a job of the same run suspends by subordination, and run there unsuspended",
	},
	{
		Case: "seed-30", Step: "first", File: `qstat(-f)?\.txt`, Job: `6|6 \(pending\)|a\.q@n1`, Field: `listed|resv/used/tot\.`,
		Why: threshold,
	},
	{
		Case: "seed-30", Step: "first", File: `schedinfo\.txt`, Job: "6", Want: `\(absent\)`, Why: threshold,
	},
	{
		Case: "seed-30", Step: "first", File: `schedinfo\.txt`, Job: "5|8|12",
		Want: `queue instance "a\.q@n1" dropped because it is overloaded: .*|\(absent\)`,
		Got:  `queue instance "a\.q@n1" dropped because it is overloaded: .*|\(absent\)`,
		Why:  threshold,
	},
	{
		Case: "seed-166", Step: "second", File: `qstat(-f)?\.txt`, Job: `14\.1|14 \(pending\)|a\.q@n2`, Field: `listed|ja-task-ID|resv/used/tot\.`,
		Why: misplaced + "; so a task of job 14 starts in a.q@n2",
	},
	{
		Case: "seed-166", Step: "second", File: `schedinfo\.txt`,
		Want: `queue instance "([bd]\.q@n2" dropped because it is overloaded: .*|a\.q@n2" dropped because it is full)|\(absent\)`,
		Got:  `queue instance "[bd]\.q@n2" dropped because it is overloaded: .*|.*a\.q@n2.* due to a reservation|.*gc:lic=0.*|cannot run in PE .*|\(absent\)`,
		Why:  misplaced + "; so no queue instance is left in the end",
	},
	{
		Case: "seed-128", Step: "second", File: `qstat(-f)?\.txt`, Job: `23|23 \(pending\)|a\.q@n2`, Field: `listed|resv/used/tot\.`,
		Why: misplaced + "; so job 23 has to wait",
	},
	{
		Case: "seed-128", Step: "second", File: `qstat(-pri|-ext)?\.txt`, Job: `[0-9]+ \(pending\)`, Field: "prior|ntckts|ftckt|tckts|share|order",
		Why: misplaced + "; job 23, which execd starts, takes part in the functional tickets",
	},
	{
		Case: "seed-128", Step: "second", File: `schedinfo\.txt`, Job: "23", Got: `\(absent\)`,
		Why: misplaced + "; so job 23 has to wait",
	},
	{
		Case: "seed-128", Step: "second", File: `qquota(-per-user)?\.txt`, Want: `set[13]/.* slots=1/.*|\(absent\)`, Got: `set[13]/.* slots=2/.*|set2/2 slots=1/1 .*|\(absent\)`,
		Why: misplaced + "; job 23, which execd starts, counts",
	},
	{
		Case: "seed-91", Step: "second", File: `schedinfo\.txt`, Job: "6", Want: `\(absent\)`, Got: `cannot run in queue "c\.q@n[23]" because PE "two" is not in PE list`,
		Why: forgotten + "; execd has a reservation for job 6",
	},
	{
		Case: "seed-91", Step: "second", File: `schedinfo\.txt`, Job: "17", Want: `.*cannot run in queue "(c\.q@n2|b\.q@n[12])" because it offers only qc:slots=0.*`, Got: `\(absent\)`,
		Why: forgotten + "; the original has a reservation for job 17",
	},
	{
		Case: "seed-91", Step: "second", File: `schedinfo\.txt`, Job: "18",
		Want: `.*"c\.q@n1" because job requests unknown resource \(exclusive\)|\(absent\)`, Got: `.*"c\.q@n1" because .* due to a reservation|\(absent\)`,
		Why: forgotten + "; execd has a reservation for job 6 there",
	},
	{
		Case: "seed-145", Step: "second", File: `schedinfo\.txt`, Job: "16", Want: `\(absent\)`, Got: `.*"b\.q@n6" because it offers only qc:slots=0.*`,
		Why: forgotten + "; execd has a reservation for job 16",
	},
	{
		Case: "seed-147", Step: "first|second", File: `schedinfo\.txt`, Job: "4", Want: `\(absent\)`, Got: `cannot run because it exceeds limit "/////" in rule "set1/r1"`,
		Why: "the original does not tell a parallel job that gets a reservation of quotas until it has found enough slots for later, here on the last host",
	},
}
