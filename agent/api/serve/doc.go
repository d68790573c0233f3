// Package serve is the server of an agent's HTTP interface (package api, docs/api.md). A Server is
// an agent.Link: it translates requests into calls of agent.Commands.
//
// Other projects should not import this package: it may change at any time.
//
// It checks the permissions of callers and the form of requests; the agent checks the jobs
// themselves. The three kinds of listeners identify their peers in three ways: a Unix socket
// through the kernel, TCP by certificates, and TCP on loopback addresses by a token, because every
// user of the host can connect there. Peers may be slow, broken or hostile: the server limits their
// time, their memory and their connections.
package serve
