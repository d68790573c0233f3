package audit

import (
	"net"
	"strconv"
	"time"
)

// A caller can be refused as often as he likes. So that nobody fills the disk with that, each user
// of the host, and each address elsewhere, has this many records of refusals within a time; the
// next one behind them says how many were left out.
const (
	mostRefusals   = 60
	refusalsPeriod = time.Minute
	// mostCallers is how many callers are told apart.
	mostCallers = 10_000
)

// refusals are those of one caller.
type refusals struct {
	since   time.Time
	count   int
	omitted int
}

// key tells callers apart; empty for root, who is not limited.
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

// Refuse adds the record of a call that was refused, or counts it where there are too many of the
// same caller at the time now.
func (l *Log) Refuse(r *Record, now time.Time) {
	if l == nil {
		return
	}
	if key := r.Caller.key(); key != "" && !l.mayRefuse(key, r, now) {
		return
	}
	_ = l.Add(r, false)
}

func (l *Log) mayRefuse(key string, r *Record, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
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
		c = &refusals{since: now}
		l.callers[key] = c
	}
	if age := now.Sub(c.since); age >= refusalsPeriod || age < 0 {
		c.since, c.count = now, 0
	}
	if c.count++; c.count > mostRefusals {
		c.omitted++
		return false
	}
	r.Omitted, c.omitted = c.omitted, 0
	return true
}
