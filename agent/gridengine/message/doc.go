// Package message has the messages between an execution daemon and an sge_qmaster: a Go
// type for each, and a Codec, which makes the payload of a message of package commlib of
// them and reads it, in the form of one series of releases, its Protocol. Some messages are
// only sent by one side; both directions are there for all, so that tests can be the other
// side.
//
// Other projects should not import this package: it may change at any time.
//
// It is pure. Names are those of Grid Engine without the prefix of their list; where a
// type has less than a message, the rest is zero when it is sent.
package message
