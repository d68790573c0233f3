// Package message has the messages between an execution daemon and an sge_qmaster: a Go
// type for each, and a Codec, which makes the payload of a message of package commlib of
// them and reads it, in the form of one series of releases, its Protocol. Some messages are
// only sent by one side; both directions are there for all, so that tests can be the other
// side.
//
// Other projects should not import this package: it may change at any time.
//
// It is pure. Names are Grid Engine's without the prefix of their list. Fields of a message that a
// type does not have are sent as zero.
package message
