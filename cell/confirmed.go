package cell

// Confirmed sets the Submission of a job that has none, and returns the record of the job with it. It is for a cell
// whose users did not have to confirm their submissions before. The caller stores the record.
func (c *Cell) Confirmed(j *Job, submission string) Change {
	j.Submission = submission
	return Change{Key: jobKey(jobPrefix, j.ID()), Value: c.jobRecord(j)}
}
