package message

import "fmt"

// Tag is the kind of an application's message. The numbers are those of 8.1; Codec.Tag and
// Codec.Number convert between them and the numbers of the protocol.
type Tag uint32

// The tags of messages that an execution daemon sends or gets.
const (
	TagGDIRequest     Tag = 2  // Request and its answer
	TagAcknowledge    Tag = 3  // Acknowledgements
	TagReport         Tag = 4  // Report
	TagJobExecution   Tag = 6  // Delivery; from others than qmaster TaskRequest
	TagSlaveAllow     Tag = 7  // Delivery of a slave job
	TagChangeTicket   Tag = 8  // Tickets
	TagSignalJob      Tag = 9  // JobSignal
	TagSignalQueue    Tag = 10 // JobSignal, of a queue
	TagKillExecd      Tag = 11 // Number: 1 for with its jobs
	TagGetNewConf     Tag = 13 // Number
	TagFullLoadReport Tag = 18 // Number
)

// EncodeNumber returns a message that is nothing but a number: TagKillExecd, TagGetNewConf,
// TagFullLoadReport.
func (c *Codec) EncodeNumber(n uint32) []byte {
	e := c.begin()
	e.Ulong(n)
	return e.Bytes()
}

// DecodeNumber reads a message that is nothing but a number.
func (c *Codec) DecodeNumber(payload []byte) (uint32, error) {
	d := c.open(payload)
	n := d.Ulong()
	return n, within("a message with a number", d.End())
}

// within adds the name of the unreadable part to an error.
func within(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
