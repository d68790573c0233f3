// Package differential compares sge_shepherd-go with the original sge_shepherd
// under a real sge_execd: the same jobs are submitted in the same order to two
// cells that differ in nothing but shepherd_cmd, and everything that the jobs
// saw and left behind, and what the accounting says about them, is compared
// field by field. There are only tests in it.
//
// The cases are tables in cases_*_test.go. What may differ is in one table, in
// expected_test.go, with the reason; an entry that nothing needed any more is
// an error, so the table cannot rot.
//
// TestAgent, and TestSoakAgent with all cases, have the agent in place of both the original
// sge_execd and sge_shepherd, and compare what the accounting and the jobs say; what is
// between daemon and supervisor they do not look at.
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
