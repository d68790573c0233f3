package message

import (
	"fmt"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// Tag says which message of an application a message of commlib is.
type Tag = uint32

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

// GDIVersion is the version of the messages: that of Grid Engine 8.1.9.
const GDIVersion = 0x10003001

// cullVersion is the version of packed lists, with which each payload begins.
const cullVersion = 0x10020000

// begin begins a payload.
func begin() *cull.Encoder {
	e := &cull.Encoder{}
	e.Ulong(0)
	e.Ulong(cullVersion)
	return e
}

// open reads the begin of a payload.
func open(payload []byte) *cull.Decoder {
	d := cull.NewDecoder(payload, cull.Limits{})
	d.Ulong()
	if v := d.Ulong(); d.Err() == nil && v != cullVersion {
		d.Fail("the version of the packed lists is 0x%x, expected 0x%x: the other side is no Grid Engine 8.1", v, cullVersion)
	}
	return d
}

// EncodeNumber is a message that is nothing but a number: TagKillExecd, TagGetNewConf,
// TagFullLoadReport.
func EncodeNumber(n uint32) []byte {
	e := begin()
	e.Ulong(n)
	return e.Bytes()
}

// DecodeNumber reads a message that is nothing but a number.
func DecodeNumber(payload []byte) (uint32, error) {
	d := open(payload)
	n := d.Ulong()
	return n, within("a message with a number", d.End())
}

// within says what could not be read.
func within(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
