package audit

import (
	"net"
	"strconv"
	"time"
)

// A caller can provoke any number of refusals. So that their records do not fill the disk, the log
// writes a limited number of them within a time for each user of the host and for each remote
// address. The next record counts those that the log left out.
const (
	mostRefusals   = 60
	refusalsPeriod = time.Minute
	// mostBytes is the number of bytes that a caller may add to the log within the time. After that
	// his records are shortened: each change still has one, but without long values.
	mostBytes = 1 << 20
	// mostCallers is the number of callers whose refusals the log counts separately.
	mostCallers = 10_000
)

// callerState counts the records of one caller within the time.
type callerState struct {
	since   time.Time
	count   int // of refusals
	omitted int // records left out
	bytes   int // of all records
}

// key identifies a caller; it is empty for root, who is not limited.
func (c *Caller) key() string {
	switch {
	case c.UID != nil && *c.UID == 0:
		return ""
	case c.UID != nil:
		return "uid " + strconv.FormatUint(uint64(*c.UID), 10)
	}
	host, _, err := net.SplitHostPort(c.Remote)
	if err != nil {
		host = c.Remote
	}
	if a := net.ParseIP(host); a != nil && a.To4() == nil { // a host has a whole network
		const network, bits = 64, 128
		host = a.Mask(net.CIDRMask(network, bits)).String()
	}
	return "from " + host
}

// Refuse adds the record of a refused call, or only counts it if the same caller already has too
// many.
func (l *Log) Refuse(r *Record, now time.Time) {
	if l == nil {
		return
	}
	if r.Time.IsZero() {
		r.Time = now.UTC()
	}
	if key := r.Caller.key(); key != "" && !l.mayRefuse(key, r, now) {
		return
	}
	_ = l.Add(r, false)
}

func (l *Log) mayRefuse(key string, r *Record, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.stateOf(key, now)
	if c.count++; c.count > mostRefusals {
		c.omitted++
		return false
	}
	r.Omitted, c.omitted = c.omitted, 0
	return true
}

// fits notes how much a record takes, and reports whether it may. Root may fill the log.
func (l *Log) fits(key string, size int, now time.Time) bool {
	if key == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.stateOf(key, now)
	if c.bytes += size; c.bytes > mostBytes {
		return size <= shortText
	}
	return true
}

// stateOf returns the current state of a caller. The caller of the method holds mu.
func (l *Log) stateOf(key string, now time.Time) *callerState {
	c := l.callers[key]
	if c == nil && len(l.callers) >= mostCallers {
		for k, c := range l.callers {
			if now.Sub(c.since) >= refusalsPeriod && c.omitted == 0 {
				delete(l.callers, k)
			}
		}
		if len(l.callers) >= mostCallers {
			key = ""
			c = l.callers[key]
		}
	}
	if c == nil {
		c = &callerState{since: now}
		l.callers[key] = c
	}
	if age := now.Sub(c.since); age >= refusalsPeriod || age < 0 {
		c.since, c.count, c.bytes = now, 0, 0
	}
	return c
}
