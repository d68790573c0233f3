// Package serve is the server of an agent's HTTP interface (package api, docs/api.md).
// A Server is an agent.Link: what is asked becomes calls of agent.Commands.
//
// Other projects should not import this package: it may change at any time.
//
// It decides who may ask for what, and refuses what makes no sense; what is right for a
// job is the agent's to say. Three kinds of listeners know their peers in three ways: a
// Unix socket by the kernel, TCP by certificates, and TCP on loopback addresses by a
// token, since whoever has an account on the host can connect there. Peers may be slow,
// broken or hostile: what they can hold on to is bounded, in time, in bytes and in
// connections.
package serve
