package message

// AckType is the kind of an acknowledgement. In messages to the daemon it is an order.
type AckType uint32

// The types of acknowledgements.
const (
	AckJobExit         AckType = 0 // the end of a job has arrived: the daemon may remove its files
	AckSignalJob       AckType = 1 // qmaster does not know this job: end it
	AckSigJob          AckType = 3 // a JobSignal has arrived; the only one of the daemon, and
	AckSigQueue        AckType = 4 // this one
	AckLoadReport      AckType = 5 // ID is the sequence number
	AckSignalSlave     AckType = 6 // the job has ended on its master's host: end the tasks here
	AckJobReportResend AckType = 7 // report the end of the job again
)

// Acknowledgement is one element of a message with TagAcknowledge.
type Acknowledgement struct {
	_    struct{} `cull:"ACK"`
	Type uint32   `cull:"type"`
	ID   uint32   `cull:"id"`  // job
	ID2  uint32   `cull:"id2"` // task
	Str  string   `cull:"str"` // of a parallel job's task, or a queue
}

// EncodeAcknowledgements packs acknowledgements into one message.
func (c *Codec) EncodeAcknowledgements(list ...Acknowledgement) []byte {
	e := c.begin()
	for i := range list {
		e.Element(c.format.Marshal(&list[i]))
	}
	return e.Bytes()
}

// DecodeAcknowledgements reads a message with TagAcknowledge.
func (c *Codec) DecodeAcknowledgements(payload []byte) ([]Acknowledgement, error) {
	d := c.open(payload)
	var list []Acknowledgement
	for d.Len() > 0 {
		x := d.Element()
		if d.Err() != nil {
			break
		}
		var a Acknowledgement
		if err := c.format.Unmarshal(x, &a); err != nil {
			return nil, within("acknowledgements", err)
		}
		list = append(list, a)
	}
	return list, within("acknowledgements", d.Err())
}
