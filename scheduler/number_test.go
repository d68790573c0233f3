package scheduler_test

import (
	"regexp"
	"testing"

	"github.com/execd-project/execd/scheduler"
)

// recordedNumbers holds the values of MES_message_number that qstat -j -xml of Grid Engine 8.1.9 printed,
// with the messages that they belong to.
var recordedNumbers = []struct {
	text   *regexp.Regexp
	number int
}{
	{regexp.MustCompile(`cannot run at host ".*" because`), 0},
	{regexp.MustCompile(`^has no permission for `), 1},
	{regexp.MustCompile(`^\(project .*\) does not have the correct project to run in (host|queue) `), 2},
	{regexp.MustCompile(`^\(no project\) does not have the correct project to run in `), 3},
	{regexp.MustCompile(`is not allowed to run in .* based on the excluded project list$`), 4},
	{regexp.MustCompile(`because it is not contained in its hard queue list \(-q\)$`), 6},
	{regexp.MustCompile(`because PE ".*" is not in PE list$`), 8},
	{regexp.MustCompile(`because it is not of type checkpointing$`), 9},
	{regexp.MustCompile(`is not in ckpt list of queue$`), 10},
	{regexp.MustCompile(`because it is not of type batch$`), 12},
	{regexp.MustCompile(`^does not request 'forced' resource ".*" of queue instance `), 14},
	{regexp.MustCompile(`^\(-l .*\) cannot run in queue ".*" because `), 17},
	{regexp.MustCompile(`^\(-l .*\) cannot run globally because `), 20},
	{regexp.MustCompile(`^does not request 'forced' resource ".*" of host `), 21},
	{regexp.MustCompile(`^cannot run in PE ".*" because it only offers `), 24},
	{regexp.MustCompile(`^cannot run because no access to PE `), 25},
	{regexp.MustCompile(`is in suspend alarm: `), 26},
	{regexp.MustCompile(`dropped because it is overloaded: `), 27},
	{regexp.MustCompile(`^All queues dropped because of overload or full$`), 28},
	{regexp.MustCompile(`dropped because it is full$`), 37},
	{regexp.MustCompile(`dropped because it is disabled$`), 39},
	{regexp.MustCompile(`dropped because it is temporarily not available$`), 40},
	{regexp.MustCompile(`^no matching PE found$`), 43},
	{regexp.MustCompile(`^not all array tasks may be started due to 'max_aj_instances'$`), 45},
	{regexp.MustCompile(`^cannot run because it exceeds limit `), 50},
	{regexp.MustCompile(`^cannot run in queue ".*" because it was not reserved by advance reservation `), 52},
}

// checkNumbers compares the numbers of reasons with the recorded ones.
func checkNumbers(t *testing.T, reasons []scheduler.Reason) {
	t.Helper()
	for i := range reasons {
		for _, r := range recordedNumbers {
			if text := reasons[i].Text(); r.text.MatchString(text) {
				if got := reasons[i].Number(); got != r.number {
					t.Errorf("the number of %q is %d, not %d", text, got, r.number)
				}
				break
			}
		}
	}
}
