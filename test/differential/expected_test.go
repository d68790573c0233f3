package differential

// expectedDifferences are the ways in which sge_shepherd-go differs from the
// original on purpose.
var expectedDifferences = []expectation{
	{field: `(active/\d+|seen/.*/Spool)/(config|environment)`, original: `-rw-r--r-- .*`, ours: `-rw------- .*`, why: "x"},
	{field: `(active/\d+|seen/.*/Spool)/(error|exit_status|trace)`, original: `.* 2001:2001`, ours: `.* (\d+):\d+`, why: "x"},
	{field: `active/\d+/usage/(cpu|exact_start_time|exact_end_time|wallclock)`, original: `\(absent\)`, why: "x"},
	{field: `active/\d+/error/content`, why: "x"},
}
