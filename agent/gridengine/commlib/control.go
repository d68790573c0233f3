package commlib

import "fmt"

// Status is the status of an endpoint (SIRM).
type Status struct {
	Request     uint32 // ID of the StatusRequest
	Started     int64  // Unix time
	Running     int64  // seconds
	Read        int    // messages that wait to be read by the application
	Unwritten   int    // messages that wait to be sent
	Connections int
	Level       StatusLevel
	Info        string
}

// StatusLevel is the status of an endpoint.
type StatusLevel int

// The levels of Status.
const (
	StatusOK      StatusLevel = 0
	StatusWarning StatusLevel = 1
	StatusError   StatusLevel = 2
)

// NoInfo is the value of Status.Info without information.
const NoInfo = "not available"

// payloads of control messages that have no content.
const (
	statusPayload        = `<sim version="0.1"></sim>`
	closePayload         = `<ccm version="0.1"></ccm>`
	closeResponsePayload = `<ccrm version="0.1"></ccrm>`
)

// AppendStatus appends a status as the payload of a StatusResponse.
func AppendStatus(b []byte, s *Status) []byte {
	return fmt.Appendf(b, `<sirm version="0.1"><mid>%d</mid><starttime>%d</starttime><runtime>%d</runtime><application><messages><brm>%d</brm><bwm>%d</bwm></messages><connections><noc>%d</noc></connections><status>%d</status></application><info>%s</info></sirm>`,
		s.Request, s.Started, s.Running, s.Read, s.Unwritten, s.Connections, s.Level, s.Info)
}

// ParseStatus reads the payload of a StatusResponse.
func ParseStatus(payload []byte) (*Status, error) {
	const most = 1<<32 - 1
	e := &elements{text: string(payload)}
	e.open("sirm")
	s := &Status{Request: uint32(e.number("mid", maxID)), Started: int64(e.number("starttime", most)), Running: int64(e.number("runtime", most))}
	e.skip("<application><messages>")
	s.Read, s.Unwritten = e.number("brm", most), e.number("bwm", most)
	e.skip("</messages><connections>")
	s.Connections = e.number("noc", most)
	e.skip("</connections>")
	s.Level = StatusLevel(e.number("status", most))
	e.skip("</application>")
	s.Info = e.element("info")
	e.close("sirm")
	if e.err != nil {
		return nil, wrong("status %q: %v", payload, e.err)
	}
	return s, nil
}

// appendReceipt appends the payload of an AcknowledgeMessage.
func appendReceipt(b []byte, id uint32) []byte {
	return fmt.Appendf(b, `<am version="0.1"><mid>%d</mid></am>`, id)
}

// ParseReceipt reads the payload of an AcknowledgeMessage: the ID of the message that
// was received.
func ParseReceipt(payload []byte) (uint32, error) {
	e := &elements{text: string(payload)}
	e.open("am")
	id := e.number("mid", maxID)
	e.close("am")
	if e.err != nil {
		return 0, wrong("receipt %q: %v", payload, e.err)
	}
	return uint32(id), nil
}
