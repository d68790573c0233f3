// Package gridengine is the link of the agent to a master that is an unmodified
// sge_qmaster of Grid Engine 8.1.9, or of Open Cluster Scheduler 9.0 or 9.1: to it, the agent is
// the sge_execd of this host.
//
// Other projects should not import this package: it may change at any time.
//
// A Link connects to qmaster, or is connected to by it, registers, gets the configuration and jobs,
// and reports load, usage and ends. Package message defines the messages, and packages commlib and
// cull their wire format. This package implements the order of the messages, and translates jobs
// into the types of package agent.
//
// With security_mode none of bootstrap(5) Grid Engine trusts every peer. With security_mode munge each
// message proves its sender by a credential (package munge). With security_mode tls connections are
// encrypted, and daemons have certificates (package pinned). In all modes a Link takes orders only from
// the addresses of the host that act_qmaster names, and requests for tasks only from addresses of the
// host that they claim to come from.
package gridengine
