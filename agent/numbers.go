package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/execd-project/execd/jobdir"
)

// numbers assigns the numbers of reports. Each is larger than all earlier ones, including those of
// previous agents. This needs no write to the disk for each number, because the upper bits count
// the agents.
//
// A number that must be on the disk before its report becomes visible is reserved first. Until keep
// is called for it, no report with a larger number is returned, because a master that acknowledges
// the larger one would never see this report.
type numbers struct {
	last     uint64
	promised []uint64 // in their order
}

// incarnationBits leaves numbers below 2^53, which JSON carries everywhere.
const incarnationBits = 32

func openNumbers(root *jobdir.Dir) (numbers, error) {
	former := 0
	n, err := root.ReadNumber(FileNumbers)
	switch {
	case err == nil:
		former = n
	case !errors.Is(err, fs.ErrNotExist):
		return numbers{}, err
	}
	err = root.WriteNumber(FileNumbers, former+1)
	if full(err) {
		// A number is in one sector of the disk: there is the old one or the new one.
		err = root.Overwrite(FileNumbers, fmt.Appendf(nil, "%d\n", former+1))
	}
	if err != nil {
		return numbers{}, err
	}
	return numbers{last: uint64(former+1) << incarnationBits}, root.Sync(FileNumbers)
}

func (n *numbers) next() uint64 {
	n.last++
	return n.last
}

// promise reserves a number for a report that is not available yet.
func (n *numbers) promise() uint64 {
	number := n.next()
	n.promised = append(n.promised, number)
	return number
}

// keep says that the report with a reserved number is available.
func (n *numbers) keep(number uint64) {
	n.promised = slices.DeleteFunc(n.promised, func(p uint64) bool { return p == number })
}

// limit returns the largest number of reports that may be given out.
func (n *numbers) limit() uint64 {
	if len(n.promised) > 0 {
		return n.promised[0] - 1
	}
	return n.last
}
