// Package differential compares sge_shepherd-go with the original sge_shepherd under a real
// sge_execd. It submits the same jobs in the same order to two cells that differ only in
// shepherd_cmd. It compares field by field everything that the jobs report and leave behind, and
// their accounting records. The package contains only tests.
//
// The cases are tables in cases_*_test.go. The allowed differences are in one table, in
// expected_test.go, with the reason for each. An entry that no longer matches any difference is an
// error, so the table stays up to date.
//
// TestAgent, and TestSoakAgent with all cases, run the agent in place of both the original
// sge_execd and sge_shepherd, and compare the accounting records and the jobs' reports. They ignore
// data between daemon and supervisor.
//
//	go test ./test/differential                       # against ./cmd/shepherd
//	EXECD_TEST_SOAK=1 go test -run TestSoakAgent ./test/differential
//	EXECD_DIFF_SHEPHERD=/path go test ./test/differential
//	EXECD_DIFF_SHEPHERD=original go test ./test/differential
//	EXECD_DIFF_CASES='^suspended' go test ./test/differential
//
// EXECD_DIFF_SHEPHERD=original compares the original with itself and accepts no difference at
// all: it shows that the test reports differences and not noise.
package differential
