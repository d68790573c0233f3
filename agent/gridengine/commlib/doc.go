// Package commlib implements the wire protocol of Grid Engine 8.1.9's communication library: the
// handshake between two daemons, their endpoints, the framing of messages, and the control
// messages: status information (SIM), close (CCM) and acknowledgement (AM).
//
// Other projects should not import this package: it may change at any time.
//
// It does not interpret the messages of applications; see packages cull and message. The protocol
// has no security (security_mode none of bootstrap(5)): the caller can verify the other side only
// by its address.
//
// A message takes at most as much memory as data has arrived, and as Limits allow. A Conn may be
// used by several goroutines. Apart from reading and writing, the functions are pure.
package commlib
