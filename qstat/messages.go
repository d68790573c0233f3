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
