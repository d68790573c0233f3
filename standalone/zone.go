package standalone

import (
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/lazyregexp"
)

// fixedZone is a time zone of POSIX (Base Definitions, 8.3, TZ) without summer time, such as JST-9 or <+03>-3.
var fixedZone = lazyregexp.New(`^(?:([A-Za-z]{3,})|<([A-Za-z0-9+-]{3,})>)([+-]?)([0-9]{1,2})(?::([0-5]?[0-9]))?(?::([0-5]?[0-9]))?$`)

// zone returns the time zone of a user from TZ, or otherwise the host's: also for a path, because the daemon opens no file of
// a user, and for zones with rules for summer time.
func zone(name string) *time.Location {
	name = strings.TrimPrefix(name, ":")
	if name == "" {
		return time.Local
	}
	if z, err := time.LoadLocation(name); err == nil {
		return z
	}
	m := fixedZone().FindStringSubmatch(name)
	if m == nil {
		return time.Local
	}
	seconds := 0
	for _, part := range m[4:] {
		n, _ := strconv.Atoi(part) // digits, or nothing
		seconds = 60*seconds + n
	}
	if m[3] != "-" { // POSIX counts to the west
		seconds = -seconds
	}
	return time.FixedZone(m[1]+m[2], seconds)
}
