package commlib

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/internal/capture"
)

// streams are those of the captures.
func streams(t testing.TB) []*capture.Stream {
	t.Helper()
	list, err := capture.Streams()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCapturedSessions reads all that Grid Engine's daemons have sent, and writes it
// again.
func TestCapturedSessions(t *testing.T) {
	formats := map[Format]int{}
	for _, s := range streams(t) {
		r := bytes.NewReader(s.Data)
		var again []byte
		if s.Client {
			c, err := ReadConnectRequest(r)
			if err != nil {
				t.Errorf("%v: %v", s, err)
				continue
			}
			again = AppendConnectRequest(again, c)
		} else {
			c, err := ReadConnectResponse(r)
			if err != nil {
				t.Errorf("%v: %v", s, err)
				continue
			}
			again = AppendConnectResponse(again, c)
		}
		last := uint32(0)
		for {
			m, err := ReadMessage(r, Limits{})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%v: %v", s, err)
				break
			}
			if m.ID != last+1 {
				t.Errorf("%v: message %d follows %d", s, m.ID, last)
			}
			last = m.ID
			formats[m.Format]++
			again = AppendMessage(again, m)
			checkControl(t, m)
		}
		if !bytes.Equal(again, s.Data) {
			t.Errorf("%v: written again it is\n%.300q, want\n%.300q", s, again, s.Data)
		}
	}
	for f, least := range map[Format]int{
		Binary: 400, StatusRequest: 10, StatusResponse: 10, CloseRequest: 5, CloseResponse: 4, AcknowledgeMessage: 2,
	} {
		if formats[f] < least {
			t.Errorf("%d messages of format %q, want %d or more", formats[f], f, least)
		}
	}
}

// checkControl writes control messages again from what was read of them.
func checkControl(t *testing.T, m *Message) {
	t.Helper()
	var again []byte
	switch m.Format {
	case StatusRequest:
		again = []byte(statusPayload)
	case CloseRequest:
		again = []byte(closePayload)
	case CloseResponse:
		again = []byte(closeResponsePayload)
	case StatusResponse:
		s, err := ParseStatus(m.Payload)
		if err != nil {
			t.Error(err)
			return
		}
		again = AppendStatus(nil, s)
	case AcknowledgeMessage:
		id, err := ParseReceipt(m.Payload)
		if err != nil {
			t.Error(err)
			return
		}
		again = appendReceipt(nil, id)
	default:
		return
	}
	if !bytes.Equal(again, m.Payload) {
		t.Errorf("%s is %q, want %q", m.Format, again, m.Payload)
	}
}

func TestRefusals(t *testing.T) {
	found := map[Condition]int{}
	for _, s := range streams(t) {
		if s.Client {
			continue
		}
		c, err := ReadConnectResponse(bytes.NewReader(s.Data))
		if err != nil {
			t.Fatal(err)
		}
		found[c.Condition]++
		if c.Condition != Connected && !strings.Contains(c.Text, " ") {
			t.Errorf("%v: %+v has no text", s, c)
		}
	}
	if found[Connected] == 0 || found[AccessDenied] == 0 || found[NotUnique] == 0 {
		t.Errorf("conditions %v", found)
	}
}

// TestHostileFrames sends messages that claim a size above the limit, or a larger size than the
// data that follows. The reader must not allocate memory for that size.
func TestHostileFrames(t *testing.T) {
	mih := func(header string) string { return string(appendBlock(nil, header)) }
	huge := `<mih version="0.1"><mid>1</mid><dl>1073741824</dl><df>bin</df><mat>nak</mat><tag>2</tag><rid>0</rid></mih>`
	for name, c := range map[string]struct{ text, want string }{
		"no frame at all":           {"GET / HTTP/1.1\r\n", `"G", expected <gmsh>`},
		"a header of 1 GiB":         {"<gmsh><dl>1073741824</dl></gmsh>", "expected <gmsh>"},
		"a header of 99999 bytes":   {"<gmsh><dl>99999</dl></gmsh>", "from 0 to 4096"},
		"a negative length":         {"<gmsh><dl>-5</dl></gmsh>", "from 0 to 4096"},
		"a payload of 1 GiB":        {mih(huge), "at most"},
		"a header that ends early":  {"<gmsh><dl>50</dl></gmsh><mih", "after 4 of 50"},
		"a payload that ends early": {mih(strings.Replace(huge, "1073741824", "100", 1)) + "abc", "after 3 of 100"},
		"an unknown format":         {mih(strings.Replace(huge, "bin", "xml", 1)), `"xml" is no format`},
		"an unknown mode":           {mih(strings.Replace(huge, "nak", "may", 1)), `"may" is no mode`},
		"an element too many":       {mih(strings.Replace(huge, "</mih>", "<x>1</x></mih>", 1)), "expected </mih>"},
		"a message id of 70000":     {mih(strings.Replace(huge, "<mid>1<", "<mid>70000<", 1)), "from 0 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ReadMessage(strings.NewReader(c.text), Limits{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want an error with %q", m, err, c.want)
			}
		})
	}
	announced := mih(strings.Replace(huge, "1073741824", "67108864", 1)) + "abc"
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := ReadMessage(strings.NewReader(announced), Limits{}); err == nil {
				b.Fatal("it was read")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 1<<20 {
		t.Errorf("3 bytes of an announced payload of 64 MiB cost %d bytes of memory", allocated)
	}
}

func FuzzReadMessage(f *testing.F) {
	for _, s := range streams(f)[:10] {
		f.Add(s.Data)
		if i := bytes.Index(s.Data, []byte("</crm>")); i > 0 {
			f.Add(s.Data[i+len("</crm>"):])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ReadConnectRequest(bytes.NewReader(data)); err == nil {
			if d, err := ReadConnectRequest(bytes.NewReader(AppendConnectRequest(nil, c))); err != nil || *d != *c {
				t.Fatalf("%+v becomes %+v, %v", c, d, err)
			}
		}
		_, _ = ReadConnectResponse(bytes.NewReader(data))
		_, _ = ParseStatus(data)
		m, err := ReadMessage(bytes.NewReader(data), Limits{Payload: 1 << 16})
		if err != nil {
			return
		}
		again, err := ReadMessage(bytes.NewReader(AppendMessage(nil, m)), Limits{})
		if err != nil || again.ID != m.ID || again.Tag != m.Tag || !bytes.Equal(again.Payload, m.Payload) {
			t.Fatalf("%+v becomes %+v, %v", m, again, err)
		}
	})
}
