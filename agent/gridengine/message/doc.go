// Package message contains the messages between an execution daemon and an sge_qmaster: a Go type for
// each message, and a Codec that converts them to and from the payloads of package commlib. The form of
// the payloads depends on the series of releases: its Protocol. Only one side sends some of the
// messages. The Codec encodes and decodes all of them, so that tests can play the other side.
//
// Other projects should not import this package: it may change at any time.
//
// It is pure. Names are Grid Engine's without the prefix of their list. Fields of a message that a
// type does not have are sent as zero.
package message
