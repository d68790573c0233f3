// Package attach connects the standard streams of the caller with those of an interactive
// job, from one connection with its agent to the next, to the end of the job: execd attach,
// qrsh and qlogin. It shows what the job writes and nothing of its own.
package attach
