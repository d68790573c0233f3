package cell

import (
	"time"
)

// The limit on submissions per user (max_u_submissions of qmaster_params). Each user has a bucket
// that holds one period and fills as time passes. An accepted job takes its part of the period: 0.6
// s at 100 jobs a minute. An array job is one submission; max_aj_tasks limits its tasks. Managers
// have no limit. Buckets are not stored: after a restart they are full.

// bucket is the remaining allowance of a user.
type bucket struct {
	credit time.Duration
	at     int64 // time of that value
}

// manyBuckets is the number of buckets above which full ones are removed.
const manyBuckets = 1000

// rated reports whether the limit applies to a user.
func (c *Cell) rated(user string) bool {
	return c.cluster.Global().QmasterParams.MaxUSubmissions.Most > 0 && !c.isManager(user)
}

// fill returns the current bucket of a user.
func (c *Cell) fill(now int64, user string) bucket {
	most := c.cluster.Global().QmasterParams.MaxUSubmissions.Per
	b, known := c.buckets[user]
	if !known {
		return bucket{most, now}
	}
	// The clock may have been set back, and the limit may have changed.
	passed := time.Duration(min(max(now-b.at, 0), int64(most/time.Second))) * time.Second
	return bucket{min(most, b.credit+passed), now}
}

// part returns the part of the period that one submission takes.
func (c *Cell) part() time.Duration {
	limit := c.cluster.Global().QmasterParams.MaxUSubmissions
	return max(limit.Per/time.Duration(limit.Most), 1)
}

// admitRate refuses a job of a user who has submitted too many jobs recently.
func (c *Cell) admitRate(now int64, user string) error {
	if !c.rated(user) {
		return nil
	}
	missing := c.part() - c.fill(now, user).credit
	if missing <= 0 {
		return nil
	}
	limit := c.cluster.Global().QmasterParams.MaxUSubmissions
	wait := int64((missing + time.Second - 1) / time.Second)
	return denied(Event{Kind: TooManySubmissions, Limit: int64(limit.Most), Rate: Rate{
		Period: limit.Per, Wait: time.Duration(wait) * time.Second, Until: time.Unix(now+wait, 0).In(c.zone),
	}})
}

// countSubmission records a submission of a user.
func (c *Cell) countSubmission(now int64, user string) {
	if !c.rated(user) {
		return
	}
	b := c.fill(now, user)
	b.credit = max(b.credit-c.part(), 0)
	if len(c.buckets) >= manyBuckets {
		most := c.cluster.Global().QmasterParams.MaxUSubmissions.Per
		for user := range c.buckets {
			if c.fill(now, user).credit >= most {
				delete(c.buckets, user)
			}
		}
	}
	c.buckets[user] = b
}
