package cull_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/internal/capture"
)

// kinds are names of kinds of elements whose descriptors the captures have in full.
var kinds = []string{
	"EH", "REP", "LR", "JR", "UA", "CONF", "LIC", "ACK", "CF", "AN", "JB", "JAT", "JG", "QU", "PE", "CK", "CE", "RUE",
	"VA", "PN", "PA", "ST", "MR", "RN", "BN", "PETR",
}

// payloads are those of all messages of applications in the captures, by tag.
func payloads(t testing.TB, each func(s *capture.Stream, tag uint32, payload []byte)) {
	t.Helper()
	streams, err := capture.Streams()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if s.Release() != "8.1.9" { // package message reads these
			continue
		}
		r := bytes.NewReader(s.Data)
		if s.Client {
			c, err := commlib.ReadConnectRequest(r)
			if err != nil || c.To.Component == commlib.QrshServer {
				continue
			}
		} else if c, err := commlib.ReadConnectResponse(r); err != nil || c.From.Component == commlib.ShepherdIJS {
			continue
		}
		for {
			m, err := commlib.ReadMessage(r, commlib.Limits{})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Format == commlib.Binary && len(m.Payload) > 8 {
				each(s, m.Tag, m.Payload[8:])
			}
		}
	}
}

// TestCapturedElements unpacks elements and lists that Grid Engine's daemons have
// packed, packs them again, and compares their descriptors with the table.
func TestCapturedElements(t *testing.T) {
	seen := map[string]int{}
	first := map[uint32]string{}
	for _, k := range kinds {
		first[cull.GridEngine81.DescriptorOf(k)[0].ID] = k
	}
	others := 0
	check := func(s *capture.Stream, d cull.Descriptor) {
		k, ok := first[d[0].ID]
		if !ok { // lists of which an execution daemon needs nothing
			others++
			return
		}
		want := cull.GridEngine81.DescriptorOf(k)
		reduced := len(d) < len(want) // of an experiment: EH with one attribute
		for i, a := range d {
			if reduced {
				break
			}
			if a != want[i] {
				t.Errorf("%v: %s: attribute %d is %v 0x%x, the table has %v 0x%x", s, k, i, a.ID, a.Word, want[i].ID, want[i].Word)
			}
		}
		seen[k]++
	}
	var walk func(s *capture.Stream, e *cull.Element)
	list := func(s *capture.Stream, l *cull.List) {
		if l == nil {
			return
		}
		check(s, l.Descriptor)
		for _, e := range l.Elements {
			walk(s, e)
		}
	}
	walk = func(s *capture.Stream, e *cull.Element) {
		for _, v := range e.Values {
			switch v := v.(type) {
			case *cull.List:
				list(s, v)
			case *cull.Element:
				if v != nil {
					check(s, v.Descriptor)
					walk(s, v)
				}
			}
		}
	}
	payloads(t, func(s *capture.Stream, tag uint32, payload []byte) {
		d, e := cull.GridEngine81.NewDecoder(payload, cull.Limits{}), cull.GridEngine81.NewEncoder()
		switch tag {
		case 4: // reports
			l := d.List()
			e.List(l)
			list(s, l)
		case 3: // acknowledgements
			for d.Len() > 0 {
				x := d.Element()
				if d.Err() == nil {
					e.Element(x)
					check(s, x.Descriptor)
				}
			}
		case 6, 7: // jobs and tasks
			e.Ulong(d.Ulong())
			if tag == 6 && !bytes.HasPrefix(payload, []byte{0, 0, 0, 1}) {
				return // the answer to the start of a task
			}
			if x := d.Element(); d.Err() == nil {
				e.Element(x)
				check(s, x.Descriptor)
				walk(s, x)
			}
		case 2: // requests, as far as their list
			for range 3 {
				e.Ulong(d.Ulong())
			}
			l, answers := d.List(), d.List()
			list(s, l)
			list(s, answers)
			e.List(l)
			if e.List(answers); !bytes.HasPrefix(payload, e.Bytes()) {
				t.Errorf("%v: a list of a request is not the same again", s)
			}
			return
		default:
			return
		}
		if err := d.End(); err != nil {
			t.Errorf("%v: message with the tag %d: %v", s, tag, err)
		} else if !bytes.Equal(e.Bytes(), payload) {
			t.Errorf("%v: message with the tag %d: packed again it differs", s, tag)
		}
	})
	if others > 5 {
		t.Errorf("%d kinds of elements are not in the table", others)
	}
	for _, k := range kinds {
		if seen[k] == 0 {
			t.Errorf("%s does not occur", k)
		}
	}
}
