package simulate

import "github.com/execd-project/execd/test/simulate/compare"

// randomDifferences are the ways in which we differ from the original in what is run
// without a choice of seeds.
var randomDifferences = []compare.Expectation{}

// soakDifferences are those that only other seeds show. A seed in which one decision
// differs shows all that follows from it.
var soakDifferences = []compare.Expectation{
	{
		Case: "seed-13", Step: "between|first|second",
		Why: "a parallel job with -l exclusive=false is dispatched by the original in each run and refused by its qmaster: it never starts, and takes part in all tickets",
	},
	{
		Case: "seed-14", Step: "first|second", File: `qstat(-f|-gt)?\.txt|schedinfo\.txt`, Job: `5|19|20|a\.q@n3|b\.q@n2`,
		Why: "not understood: a job passes over b.q@n2, which has just been enabled, as if the run had not seen that yet; qmod -e '*' enables queue by queue",
	},
	{
		Case: "seed-25", Step: "between|first|second",
		Why: "not understood: in the first run after qmod -e '*' three jobs take other queues, and all that follows differs",
	},
	{
		Case: "seed-28", Step: "first", File: `schedinfo\.txt`, Job: "9", Want: `\(absent\)`, Got: `.*in queue .*"n[69].*hc:exclusive=false`,
		Why: "the second task of a parallel array job: the original finds the quota exhausted before it looks at hosts that the first task has taken",
	},
	{
		Case: "seed-30", Step: "first", File: `qstat(-f)?\.txt|schedinfo\.txt`,
		Why: "not understood: a serial job starts in a.q@n1 although load adjustments of the same run have put it into load alarm; qmod -e '*' enables queue by queue",
	},
	{
		Case: "seed-31", Step: "first", File: `schedinfo\.txt`, Job: "10", Want: `\(absent\)`, Got: ".*offers only [hq]c:scr=0.000.*",
		Why: "a parallel job behind another one of its category that has just started: the original does not say again what hosts lack",
	},
	{
		Case: "seed-33", Step: "first", File: `schedinfo\.txt`, Job: "12", Want: `\(absent\)`, Got: ".*job requests unknown resource.*",
		Why: "not understood: with a -q of one instance the original does not say that the instance lacks a consumable",
	},
	{
		Case: "seed-46", Step: "before|first", File: `qstat(-pri|-ext)?\.txt`, Job: `1[0-2] \(pending\)`,
		Why: "of jobs with equal tickets the original takes those last that were altered last (qalter -p), execd those with the higher numbers",
	},
	{
		Case: "seed-48", Step: "second", File: `qstat(-pri|-ext)?\.txt`, Job: `11 \(pending\)`,
		Why: "an array job with a task that started in the same second shows the tickets of the task behind the next one, depending on the time of the look",
	},
	{
		Case: "seed-56", Step: "first", File: `schedinfo\.txt`, Job: "1", Got: `\(absent\)`, Want: ".*hard queue list.*",
		Why: "a parallel job that waits for slots of its environment only: the original adds what it finds while it looks for a later time",
	},
	{
		Case: "seed-59", Step: "second",
		Why: "not understood: a parallel job is said to exceed a quota of which most is left, and does not start; tickets and quotas differ with it",
	},
	{
		Case: "seed-60", Step: "first", File: `schedinfo\.txt`, Job: "14", Got: `\(absent\)`, Want: ".*because it offers only .*",
		Why: "a parallel job for which places are reserved: the original runs two reasons into one another",
	},
}
