package message_test

import (
	"bytes"
	"errors"
	"io"
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
func decode(tag message.Tag, fromQmaster bool, payload []byte) (v any, again []byte, err error) {
	switch tag {
	case message.TagGDIRequest:
		r, err := message.DecodeRequest(payload)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Encode(), nil
	case message.TagAcknowledge:
		l, err := message.DecodeAcknowledgements(payload)
		return l, message.EncodeAcknowledgements(l...), err
	case message.TagReport:
		r, err := message.DecodeReport(payload)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Encode(), nil
	case message.TagJobExecution, message.TagSlaveAllow:
		if fromQmaster {
			j, err := message.DecodeDelivery(payload)
			return j, j.Encode(), err
		}
		if len(payload) < 100 {
			id, err := message.DecodeTaskID(payload)
			return id, message.EncodeTaskID(id), err
		}
		r, err := message.DecodeTaskRequest(payload)
		return r, r.Encode(), err
	case message.TagChangeTicket:
		l, err := message.DecodeTickets(payload)
		return l, message.EncodeTickets(l), err
	case message.TagSignalJob, message.TagSignalQueue:
		s, err := message.DecodeJobSignal(payload)
		return s, s.Encode(), err
	default:
		n, err := message.DecodeNumber(payload)
		return n, message.EncodeNumber(n), err
	}
}

// TestCapturedMessages reads every message, and writes it again. What an execution
// daemon sends is the same, byte for byte; of a job what is read is.
func TestCapturedMessages(t *testing.T) {
	seen := map[message.Tag]int{}
	captured(t, func(s *capture.Stream, from commlib.Endpoint, m *commlib.Message) {
		v, again, err := decode(m.Tag, from.Component == commlib.Qmaster, m.Payload)
		if err != nil {
			t.Errorf("%v: message %d: %v", s, m.ID, err)
			return
		}
		seen[m.Tag]++
		switch {
		case s.Session == "special" && m.Tag == message.TagGDIRequest,
			s.Session == "agent" && m.Tag == message.TagReport: // experiments with other attributes, and other names of lists
		case m.Tag == message.TagJobExecution || m.Tag == message.TagSlaveAllow,
			m.Tag == message.TagGDIRequest && from.Component == commlib.Qmaster:
			w, _, err := decode(m.Tag, from.Component == commlib.Qmaster, again)
			if diff := cmp.Diff(v, w); err != nil || diff != "" {
				t.Errorf("%v: message %d: read again: %v\n%s", s, m.ID, err, diff)
			}
		case !bytes.Equal(again, m.Payload):
			t.Errorf("%v: message %d with tag %d, written again:\n%q, want\n%q", s, m.ID, m.Tag, again, m.Payload)
		}
	})
	for _, tag := range []message.Tag{2, 3, 4, 6, 7, 8, 9, 10, 11, 13, 18} {
		if seen[tag] == 0 {
			t.Errorf("no message with the tag %d", tag)
		}
	}
}
