// Package message has the messages between an execution daemon and an sge_qmaster of
// Grid Engine 8.1.9: a Go type for each, which Encode makes the payload of a message of
// package commlib and Decode reads. Some are only sent by one side; both directions are
// there for all but jobs, so that tests can be the other side.
//
// Other projects should not import this package: it may change at any time.
//
// It is pure. Names are those of Grid Engine without the prefix of their list; where a
// type has less than a message, the rest is zero when it is sent.
package message
