package qstat

// AppendSchedulingInfo appends the last part of what qstat -j prints of a job: why it
// could not be started, a line for each reason, in their order. It is nothing without
// reasons.
func AppendSchedulingInfo(dst []byte, reasons []string) []byte {
	for i, r := range reasons {
		title := ""
		if i == 0 {
			title = "scheduling info:"
		}
		dst = append(append(appendLeft(dst, title, 28), r...), '\n')
	}
	return dst
}

// ReasonGroup is a reason that several jobs have in common.
type ReasonGroup struct {
	Text string `json:"text"`
	Jobs []int  `json:"jobs"`
}

// AppendReasons appends what qstat -j prints without a list of jobs: the reasons that
// concern all of them, and the others with the jobs that have them.
func AppendReasons(dst []byte, global []string, groups []ReasonGroup) []byte {
	dst = AppendSchedulingInfo(dst, global)
	for _, g := range groups {
		dst = append(append(append(dst, '\n'), g.Text...), "\n\t"...)
		dst = append(appendNumbers(dst, g.Jobs, ",\t"), '\n')
	}
	return dst
}
