package commlib

import (
	"fmt"
	"io"
)

// ConnectRequest is the first message of the side that has opened a connection (CM).
type ConnectRequest struct {
	Format    Format   // of the messages that follow: Binary
	Type      string   // ConnectMessages; qping also has "stream"
	To, From  Endpoint // the receiver and the sender
	Port      int      // on which the sender takes connections; 0 for none
	AutoClose bool     // the other side may close the connection when it lacks descriptors
}

// ConnectMessages is the type of a connection on which messages are exchanged.
const ConnectMessages = "message"

// Condition is the answer to a request for a connection.
type Condition string

// The conditions of a ConnectResponse.
const (
	Connected         Condition = "connected"
	AccessDenied      Condition = "access denied"
	NotUnique         Condition = "endpoint not unique"
	UnsupportedFormat Condition = "unsupported data format"
)

// ConnectResponse is the answer to a ConnectRequest (CRM).
type ConnectResponse struct {
	Condition Condition
	Text      string   // "ok", or the error
	From      Endpoint // the client, as the server resolved it
	// Params are words name=value with colons between them, from qmaster_params of
	// sge_conf(5).
	Params string
}

// RefusedError says that the other side refused the connection.
type RefusedError struct {
	Condition Condition
	Text      string
}

func (e *RefusedError) Error() string {
	return "the connection was refused: " + string(e.Condition) + ": " + e.Text
}

// AppendConnectRequest appends a request in wire format.
func AppendConnectRequest(b []byte, c *ConnectRequest) []byte {
	auto := "disabled"
	if c.AutoClose {
		auto = "enabled"
	}
	return appendBlock(b, fmt.Sprintf(`<cm version="0.4"><df>%s</df><ct>%s</ct>%s%s<port>%d</port><ac>%s</ac></cm>`,
		c.Format, c.Type, endpointElement("dst", c.To), endpointElement("rdata", c.From), c.Port, auto))
}

// AppendConnectResponse appends an answer in wire format.
func AppendConnectResponse(b []byte, c *ConnectResponse) []byte {
	return appendBlock(b, fmt.Sprintf(`<crm version="0.3"><cs condition="%s">%s</cs>%s<params>%s</params></crm>`,
		c.Condition, c.Text, endpointElement("rdata", c.From), c.Params))
}

func endpointElement(name string, e Endpoint) string {
	return fmt.Sprintf(`<%s host="%s" comp="%s" id="%d"></%s>`, name, e.Host, e.Component, e.ID, name)
}

// ReadConnectRequest reads the request with which a connection begins.
func ReadConnectRequest(r io.Reader) (*ConnectRequest, error) {
	text, err := readBlock(r)
	if err != nil {
		return nil, err
	}
	c, err := parseConnectRequest(text)
	if err != nil {
		return nil, wrong("request for a connection %q: %v", text, err)
	}
	return c, nil
}

func parseConnectRequest(text string) (*ConnectRequest, error) {
	e := &elements{text: text}
	e.open("cm")
	c := &ConnectRequest{Format: Format(e.element("df")), Type: e.element("ct"), To: e.endpoint("dst"), From: e.endpoint("rdata")}
	c.Port = e.number("port", 65535)
	switch auto := e.element("ac"); {
	case e.err != nil:
	case auto == "enabled" || auto == "disabled":
		c.AutoClose = auto == "enabled"
	default:
		e.err = fmt.Errorf("ac: %q, expected enabled or disabled", auto)
	}
	e.close("cm")
	if e.err != nil {
		return nil, e.err
	}
	return c, c.From.check()
}

// ReadConnectResponse reads the answer to a request.
func ReadConnectResponse(r io.Reader) (*ConnectResponse, error) {
	text, err := readBlock(r)
	if err != nil {
		return nil, err
	}
	e := &elements{text: text}
	e.open("crm")
	e.skip(`<cs condition="`)
	c := &ConnectResponse{Condition: Condition(e.until(`">`)), Text: e.until("</cs>"), From: e.endpoint("rdata"), Params: e.element("params")}
	e.close("crm")
	if e.err != nil {
		return nil, wrong("answer to a request for a connection %q: %v", text, e.err)
	}
	return c, nil
}
