// Package attach connects the standard streams of the caller with those of an interactive job until
// the end of the job, for execd attach, qrsh and qlogin. When the agent restarts, it connects again.
// It prints the output of the job and no messages of its own.
package attach
