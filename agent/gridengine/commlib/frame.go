package commlib

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Format is the kind of a message's payload.
type Format string

// The formats of messages.
const (
	Binary             Format = "bin"  // of an application
	StatusRequest      Format = "sim"  // are you alive?
	StatusResponse     Format = "sirm" // the answer
	CloseRequest       Format = "ccm"  // the sender ends the connection
	CloseResponse      Format = "ccrm" // the other side has sent all that it had
	AcknowledgeMessage Format = "am"   // the receipt of a message that asked for one
)

// Acknowledge says whether the sender of a message asks for an acknowledgement.
type Acknowledge string

// The modes of acknowledgement.
const (
	NoReceipt   Acknowledge = "nak"
	Receipt     Acknowledge = "ack"  // when it has been read
	ReceiptSync Acknowledge = "sync" // when it has been processed
)

// Message is one message of a connection.
type Message struct {
	// ID counts the messages of one direction of a connection: 1 to 65535, and 1 again.
	ID          uint32
	Format      Format
	Acknowledge Acknowledge
	Tag         uint32 // kind of an application's message; 0 for control messages
	ResponseTo  uint32 // ID of the request that this answers; 0 for none
	Payload     []byte
}

// maxID is the largest ID of a message.
const maxID = 65535

// maxHeader is the size of the buffer that the original has for a header, with the
// text before it.
const maxHeader = 4096

// Limits restrict the size of received messages.
type Limits struct {
	Payload int // of a message, bytes; 0 is DefaultPayload
}

// DefaultPayload is the default maximum size of a payload, in bytes. Grid Engine allows 1 GiB; the
// largest message that an execution daemon gets is a job with its script.
const DefaultPayload = 64 << 20

func (l Limits) payload() int {
	if l.Payload <= 0 {
		return DefaultPayload
	}
	return l.Payload
}

// FrameError is an invalid frame in a stream of messages. Later data on the same connection cannot
// be read.
type FrameError struct{ Problem string }

func (e *FrameError) Error() string { return "cannot read a message of commlib: " + e.Problem }

func wrong(format string, args ...any) error { return &FrameError{fmt.Sprintf(format, args...)} }

// AppendMessage appends a message in wire format.
func AppendMessage(b []byte, m *Message) []byte {
	header := fmt.Sprintf(`<mih version="0.1"><mid>%d</mid><dl>%d</dl><df>%s</df><mat>%s</mat><tag>%d</tag><rid>%d</rid></mih>`,
		m.ID, len(m.Payload), m.Format, m.Acknowledge, m.Tag, m.ResponseTo)
	return append(appendBlock(b, header), m.Payload...)
}

// appendBlock appends a header with its length before it.
func appendBlock(b []byte, header string) []byte {
	return append(append(append(b, "<gmsh><dl>"...), strconv.Itoa(len(header))+"</dl></gmsh>"...), header...)
}

// ReadMessage reads one message. io.EOF is for a stream that ends between two messages.
func ReadMessage(r io.Reader, l Limits) (*Message, error) {
	header, err := readBlock(r)
	if err != nil {
		return nil, err
	}
	m, length, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	if length > l.payload() {
		return nil, wrong("a payload of %d bytes, at most %d are taken", length, l.payload())
	}
	if m.Payload, err = readPayload(r, length); err != nil {
		return nil, err
	}
	return m, nil
}

// readPayload reads a payload into memory that grows with the received data, not with the announced
// length.
func readPayload(r io.Reader, length int) ([]byte, error) {
	const atOnce = 64 << 10
	var b bytes.Buffer
	b.Grow(min(length, atOnce))
	n, err := io.CopyN(&b, r, int64(length))
	if errors.Is(err, io.EOF) {
		return nil, wrong("the stream ends after %d of %d bytes of a payload", n, length)
	}
	return b.Bytes(), err
}

// readBlock reads the length of a header and the header.
func readBlock(r io.Reader) (string, error) {
	const begin, end = "<gmsh><dl>", "</dl></gmsh>"
	const digits = 5
	var text []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(text, []byte(end)) {
		switch _, err := io.ReadFull(r, one); {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return "", io.EOF
		case errors.Is(err, io.EOF):
			return "", wrong("the stream ends in a header, after %q", text)
		case err != nil:
			return "", err
		}
		text = append(text, one[0])
		if n := min(len(text), len(begin)); string(text[:n]) != begin[:n] || len(text) > len(begin)+digits+len(end) {
			return "", wrong("%q, expected %sN%s", text, begin, end)
		}
	}
	n, err := number(string(text[len(begin):len(text)-len(end)]), maxHeader)
	if err != nil {
		return "", wrong("the length of a header: %v", err)
	}
	header := make([]byte, n)
	if k, err := io.ReadFull(r, header); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return "", wrong("the stream ends after %d of %d bytes of a header", k, n)
		}
		return "", err
	}
	return string(header), nil
}

func parseHeader(header string) (*Message, int, error) {
	e := &elements{text: header}
	e.open("mih")
	id, length := e.number("mid", maxID), e.number("dl", 1<<30)
	format, mode := e.element("df"), e.element("mat")
	tag, response := e.number("tag", 1<<32-1), e.number("rid", maxID)
	e.close("mih")
	if e.err != nil {
		return nil, 0, wrong("header %q: %v", header, e.err)
	}
	switch Format(format) {
	case Binary, StatusRequest, StatusResponse, CloseRequest, CloseResponse, AcknowledgeMessage:
	default:
		return nil, 0, wrong("header %q: %q is no format of a message", header, format)
	}
	switch Acknowledge(mode) {
	case NoReceipt, Receipt, ReceiptSync:
	default:
		return nil, 0, wrong("header %q: %q is no mode of acknowledgement", header, mode)
	}
	return &Message{
		ID: uint32(id), Format: Format(format), Acknowledge: Acknowledge(mode), Tag: uint32(tag), ResponseTo: uint32(response),
	}, length, nil
}

// number reads a decimal number from 0 to most.
func number(s string, most int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%q, expected a number from 0 to %d", s, most)
	}
	return int(n), nil
}

// elements parses the texts of this protocol, which look like XML and have a fixed form: one
// element after another, without escapes.
type elements struct {
	text string
	err  error
}

func (e *elements) fail(expected string) {
	if e.err == nil {
		rest := e.text
		if len(rest) > 60 {
			rest = rest[:60] + "…"
		}
		e.err = fmt.Errorf("%q, expected %s", rest, expected)
	}
}

// skip takes a text that has to be there.
func (e *elements) skip(s string) {
	rest, ok := strings.CutPrefix(e.text, s)
	if !ok {
		e.fail(s)
		return
	}
	e.text = rest
}

// until consumes the input up to and including s, and returns the part before s.
func (e *elements) until(s string) string {
	before, rest, ok := strings.Cut(e.text, s)
	if !ok || e.err != nil {
		e.fail(s)
		return ""
	}
	e.text = rest
	return before
}

// open takes the beginning of an element that has a version.
func (e *elements) open(name string) {
	e.skip("<" + name + ` version="`)
	e.until(`">`)
}

func (e *elements) close(name string) {
	e.skip("</" + name + ">")
	if e.text != "" {
		e.fail("the end")
	}
}

func (e *elements) element(name string) string {
	e.skip("<" + name + ">")
	return e.until("</" + name + ">")
}

func (e *elements) number(name string, most int) int {
	text := e.element(name)
	if e.err != nil {
		return 0
	}
	n, err := number(text, most)
	if err != nil {
		e.err = fmt.Errorf("%s: %w", name, err)
	}
	return n
}

// endpoint takes an element whose attributes are an endpoint.
func (e *elements) endpoint(name string) Endpoint {
	var p Endpoint
	e.skip("<" + name + ` host="`)
	p.Host = e.until(`" comp="`)
	p.Component = e.until(`" id="`)
	id := e.until(`"></` + name + ">")
	if e.err == nil {
		var err error
		if p.ID, err = number(id, 1<<32-1); err != nil {
			e.err = fmt.Errorf("id of an endpoint: %w", err)
		}
	}
	return p
}
