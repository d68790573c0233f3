package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/quantity"
)

// Share is a share of a file system: a number of bytes, or a part of its size. The zero Share is 0
// bytes.
type Share struct {
	bytes, most int64
	percent     float64
}

// Percent returns a share in percent, limited to most bytes; 0 means no maximum.
func Percent(percent float64, most int64) Share { return Share{percent: percent, most: most} }

// Of returns the size of the share, in bytes, for a file system of size bytes.
func (s Share) Of(size int64) int64 {
	n := s.bytes + int64(s.percent/100*float64(size))
	if s.most > 0 {
		n = min(n, s.most)
	}
	return n
}

// OfFiles returns the share of a file system's files (inodes). It is 0 for a share in bytes.
func (s Share) OfFiles(files int64) int64 { return int64(s.percent / 100 * float64(files)) }

// ParseShare reads a percentage such as 10% or a memory_specifier of sge_types(5) such as 500M.
func ParseShare(text string) (Share, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Share{}, fmt.Errorf("%q is not a percentage between 0%% and 100%%", text)
		}
		return Share{percent: percent}, nil
	}
	n, err := quantity.Memory(text)
	if err != nil {
		return Share{}, err
	}
	if n == quantity.Infinity {
		return Share{}, errors.New("INFINITY is not a size")
	}
	return Share{bytes: int64(n)}, nil
}
