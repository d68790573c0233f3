// Package commlib is the communication library of Grid Engine 8.1.9 on the wire: how
// two of its daemons connect, which endpoints they are, how messages are framed, and
// the control messages below those of applications: status information (SIM), close
// (CCM) and acknowledgement (AM).
//
// Other projects should not import this package: it may change at any time.
//
// What is in an application's message is not known here; see packages cull and message.
// There is no security in this protocol (security_mode none of bootstrap(5)): who the
// other side says to be can be checked by its address alone, which is for the caller.
//
// Whatever the other side sends, what is read of a message takes no more memory than
// has arrived, and no more than Limits allow. A Conn may be used from several
// goroutines; the functions are pure but for reading and writing.
package commlib
