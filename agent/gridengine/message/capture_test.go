package message_test

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/internal/capture"
	"github.com/execd-project/execd/agent/gridengine/message"
)

// captured calls a function with each message of an application in the captures.
func captured(t testing.TB, each func(s *capture.Stream, from commlib.Endpoint, m *commlib.Message)) {
	t.Helper()
	streams, err := capture.Streams()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		r := bytes.NewReader(s.Data)
		var from commlib.Endpoint
		if s.Client {
			c, err := commlib.ReadConnectRequest(r)
			if err != nil || c.To.Component == commlib.QrshServer {
				continue
			}
			from = c.From
			if from.Component != commlib.Execd && from.Component != commlib.Qmaster && from.Component != commlib.ExecdHandle {
				continue // qconf and the like
			}
		} else {
			c, err := commlib.ReadConnectResponse(r)
			if err != nil || c.From.Component == commlib.ShepherdIJS {
				continue
			}
			switch c.From.Component {
			case commlib.Execd:
				from.Component = commlib.Qmaster
			case commlib.Qmaster, commlib.ExecdHandle:
				from.Component = commlib.Execd
			default:
				continue
			}
		}
		for {
			m, err := commlib.ReadMessage(r, commlib.Limits{})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Format == commlib.Binary {
				each(s, from, m)
			}
		}
	}
}

// decode reads a message and writes it again.
func decode(c *message.Codec, tag message.Tag, fromQmaster bool, payload []byte) (v any, again []byte, err error) {
	switch tag {
	case message.TagGDIRequest:
		r, err := c.DecodeRequest(payload)
		if err != nil {
			return nil, nil, err
		}
		return r, c.EncodeRequest(r), nil
	case message.TagAcknowledge:
		l, err := c.DecodeAcknowledgements(payload)
		return l, c.EncodeAcknowledgements(l...), err
	case message.TagReport:
		r, err := c.DecodeReport(payload)
		if err != nil {
			return nil, nil, err
		}
		return r, c.EncodeReport(r), nil
	case message.TagJobExecution, message.TagSlaveAllow:
		if fromQmaster {
			j, err := c.DecodeDelivery(payload, tag == message.TagSlaveAllow)
			return j, c.EncodeDelivery(j), err
		}
		if len(payload) < 100 {
			id, err := c.DecodeTaskID(payload)
			return id, c.EncodeTaskID(id), err
		}
		r, err := c.DecodeTaskRequest(payload)
		return r, c.EncodeTaskRequest(r), err
	case message.TagChangeTicket:
		l, err := c.DecodeTickets(payload)
		return l, c.EncodeTickets(l), err
	case message.TagSignalJob, message.TagSignalQueue:
		s, err := c.DecodeJobSignal(payload)
		return s, c.EncodeJobSignal(s), err
	default:
		n, err := c.DecodeNumber(payload)
		return n, c.EncodeNumber(n), err
	}
}

// codecOf returns the codec of a recorded session, in the name of who has sent a message there.
func codecOf(s *capture.Stream, payload []byte) *message.Codec {
	c := &message.Codec{Protocol: message.ProtocolNamed(s.Release()), Identity: message.Identity{User: "root", Group: "root"}}
	if c.Protocol == message.OCS91 {
		const head = 8
		sender, _, _ := strings.Cut(string(payload[min(head, len(payload)):]), "\x00")
		fields := strings.Split(unscramble(sender), "\xff")
		if len(fields) >= 4 {
			c.Identity.User, c.Identity.Group = fields[2], fields[3]
			c.Identity.UID, _ = strconv.Atoi(fields[0])
			c.Identity.GID, _ = strconv.Atoi(fields[1])
		}
	}
	return c
}

// emptyLength returns the length of an otherwise empty message of release 9.1 that begins with the
// head of payload.
func emptyLength(payload []byte) int {
	const head = 8
	return head + bytes.IndexByte(payload[min(head, len(payload)):], 0) + 1
}

// unscramble reads the letters in which a sender is written.
func unscramble(text string) string {
	const letters = "*b~de,gh&jklrn=p"
	var b []byte
	for i := 0; i+1 < len(text); i += 2 {
		b = append(b, byte(strings.IndexByte(letters, text[i])<<4|strings.IndexByte(letters, text[i+1])))
	}
	return string(b)
}

// TestCapturedMessages reads every message, and writes it again. What an execution
// daemon sends is the same, byte for byte; of a job what is read is.
func TestCapturedMessages(t *testing.T) {
	type kind struct {
		protocol string
		tag      message.Tag
	}
	seen := map[kind]int{}
	captured(t, func(s *capture.Stream, from commlib.Endpoint, m *commlib.Message) {
		c := codecOf(s, m.Payload)
		tag, ok := c.Tag(m.Tag)
		if !ok {
			t.Errorf("%v: message %d: a tag %d", s, m.ID, m.Tag)
			return
		}
		if from.Component == commlib.Execd && tag == message.TagJobExecution && s.Session != "" && len(m.Payload) == emptyLength(m.Payload) {
			return // an empty message before the first report of a job, which nobody needs
		}
		v, again, err := decode(c, tag, from.Component == commlib.Qmaster, m.Payload)
		if err != nil {
			t.Errorf("%v: message %d: %v", s, m.ID, err)
			return
		}
		seen[kind{c.Name, tag}]++
		switch {
		case s.Session == "special" && tag == message.TagGDIRequest,
			s.Session == "agent" && tag == message.TagReport: // experiments with other attributes, and other names of lists
		case tag == message.TagJobExecution || tag == message.TagSlaveAllow,
			tag == message.TagGDIRequest && from.Component == commlib.Qmaster:
			w, _, err := decode(c, tag, from.Component == commlib.Qmaster, again)
			if diff := cmp.Diff(v, w); err != nil || diff != "" {
				t.Errorf("%v: message %d: read again: %v\n%s", s, m.ID, err, diff)
			}
		case !bytes.Equal(again, m.Payload):
			at := 0
			for at < min(len(again), len(m.Payload)) && again[at] == m.Payload[at] {
				at++
			}
			t.Errorf("%v: message %d with tag %d, written again from byte %d:\n%.80q, want\n%.80q", s, m.ID, tag, at, again[at:], m.Payload[at:])
		}
	})
	for protocol, tags := range map[string][]message.Tag{
		"8.1.9": {2, 3, 4, 6, 7, 8, 9, 10, 11, 13, 18},
		"9.0":   {2, 3, 4, 6, 9, 10, 11, 13},
		"9.1":   {2, 3, 4, 6, 7, 9, 10, 11, 13},
	} {
		for _, tag := range tags {
			if seen[kind{protocol, tag}] == 0 {
				t.Errorf("%s: no message with the tag %d", protocol, tag)
			}
		}
	}
}
