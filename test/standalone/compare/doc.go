// Package compare compares the commands of execd standalone with those of Grid Engine: the
// same lines are typed by the same users on the same host, one after another, with a real
// sge_qmaster behind them and with ours, and what they print and exit with has to be the
// same, but for times.
package compare
