package testenv

import (
	"fmt"
	"sync/atomic"
)

var daemons atomic.Int32

// GroupIDs returns a gid_range (sge_conf(5)) of the IDs first to last, which starts at a different
// ID for each call. Two daemons with the same range on one host could assign an ID to two jobs at
// the same time: one daemon would then kill the job of the other, or change its priority. Tests of
// other packages, which run at the same time, need other IDs.
func GroupIDs(first, last int) string {
	const each = 64 // most tests run fewer jobs at a time
	begin := first + each + each*int(daemons.Add(1))%(last-first-each)
	return fmt.Sprintf("%d-%d,%d-%d", begin, last, first, begin-1)
}
