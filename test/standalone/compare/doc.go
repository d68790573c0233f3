// Package compare compares the commands of execd standalone with those of Grid Engine: the same
// users run the same lines on the same host, one after another, with a real sge_qmaster and with
// execd standalone. Output and exit status must be the same, except for times.
package compare
