// Package compare tells in what two recordings of the same case differ: what the
// real scheduler printed, and what ours did.
//
// How each part is compared:
//
//   - Job to queue instance, slots on each instance, master, states, reasons and
//     what holds of queues, quotas and resources: exact. State t is r, because how
//     long a job is on its way to a host is no decision. Reasons, quotas and
//     resources are sets of lines.
//   - The order of pending jobs: exact.
//   - npprior, nurg, ntckts, prio: to 5 digits, the last of them ±1, because it is
//     rounded. Tickets ±1, because they are truncated; share ±0.01.
//   - Which jobs were started by the same run of the scheduler: exact where the
//     queues had been disabled while jobs were submitted; else the clock decides.
//   - What the clock decides (contributions of waiting time and deadlines and
//     the priorities that follow from them, decayed usage, load corrections): as
//     close as some seconds allow.
//   - How lines of tables are laid out: exact.
//   - Times: not at all. The clocks of the recordings are not the same.
//
// Queue instances tie when their hosts have the same values of what load_formula
// names and they have the same seq_no. Which of them is taken first depends in the
// original on when each object was last modified, a load report included. So where
// jobs are placed otherwise, the placements are the same if a bijection between tied
// instances makes them so: see ties.go.
//
// The package is for tests. It reads files and knows nothing of how they came
// about.
package compare
