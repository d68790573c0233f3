package topology

import (
	"errors"
	"strconv"
	"strings"
)

// Pair identifies a core by Grid Engine's logical numbers: sockets are numbered consecutively from
// 0 on the host, and cores from 0 on their socket (sge_submit(1), -binding). These numbers are
// unrelated to the operating system's processor numbers, and to physical_package_id and core_id of
// sysfs.
type Pair struct {
	Socket, Core int
}

// String returns "socket,core".
func (p Pair) String() string { return strconv.Itoa(p.Socket) + "," + strconv.Itoa(p.Core) }

// Compare orders pairs by socket, then by core.
func (p Pair) Compare(q Pair) int {
	if p.Socket != q.Socket {
		return p.Socket - q.Socket
	}
	return p.Core - q.Core
}

// ParsePair reads "socket,core".
func ParsePair(text string) (Pair, error) {
	s, c, found := strings.Cut(text, ",")
	socket, ok1 := number(s)
	core, ok2 := number(c)
	if !found || !ok1 || !ok2 {
		return Pair{}, errors.New("cannot read core " + strconv.Quote(text) + ": expected SOCKET,CORE such as 0,1")
	}
	return Pair{socket, core}, nil
}

// FormatPairs returns the list format "0,0:0,1" of the config file and the fourth column of the
// pe_hostfile (sge_pe(5)).
func FormatPairs(pairs []Pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// ParsePairs reads the format of FormatPairs.
func ParsePairs(text string) ([]Pair, error) {
	if text == "" {
		return nil, nil
	}
	var pairs []Pair
	for item := range strings.SplitSeq(text, ":") {
		p, err := ParsePair(item)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}
