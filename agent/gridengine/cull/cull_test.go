package cull_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/internal/capture"
)

type usage struct {
	_     struct{} `cull:"UA"`
	Name  string   `cull:"name"`
	Value float64  `cull:"value"`
}

type report struct {
	_     struct{} `cull:"JR"`
	Job   uint32   `cull:"job_number"`
	Queue string   `cull:"queue_name"`
	Usage []usage  `cull:"usage,usagelist"`
	Flush bool     `cull:"flush"`
}

func TestStructs(t *testing.T) {
	for _, f := range formats {
		t.Run(f.Name, func(t *testing.T) {
			want := report{Job: 7, Queue: "all.q@a", Usage: []usage{{Name: "cpu", Value: 1.5}, {Name: "mem"}}, Flush: true}
			e := f.NewEncoder()
			e.Element(f.Marshal(&want))
			d := f.NewDecoder(e.Bytes(), cull.Limits{})
			element := d.Element()
			if err := d.End(); err != nil {
				t.Fatal(err)
			}
			if len(element.Values) != len(f.DescriptorOf("JR")) {
				t.Errorf("%d attributes were sent, want all %d", len(element.Values), len(f.DescriptorOf("JR")))
			}
			var got report
			if err := f.Unmarshal(element, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var formats = []*cull.Format{cull.GridEngine81, cull.OCS90, cull.OCS91}

type submission struct {
	_         struct{}    `cull:"JB"`
	Submitted cull.Micros `cull:"submission_time"`
	Binding   []binding   `cull:"binding"`
	Hard      []request   `cull:"hard_resource_list"` // of 8.1 alone
}

type binding struct {
	_    struct{} `cull:"BN"`
	Type uint32   `cull:"type"`
}

type request struct {
	_    struct{} `cull:"CE"`
	Name string   `cull:"name"`
}

// TestFormatsDiffer compares the formats: times are seconds or microseconds, a list of one format
// is an object in another, and attributes that a format lacks are omitted.
func TestFormatsDiffer(t *testing.T) {
	for _, f := range formats {
		t.Run(f.Name, func(t *testing.T) {
			in := submission{Submitted: cull.InSeconds(1_700_000_000), Hard: []request{{Name: "h_rt"}}}
			if f != cull.OCS91 { // whose BN has no such attribute
				in.Binding = []binding{{Type: 2}}
			}
			e := f.NewEncoder()
			e.Element(f.Marshal(&in))
			var got submission
			if err := f.Unmarshal(f.NewDecoder(e.Bytes(), cull.Limits{}).Element(), &got); err != nil {
				t.Fatal(err)
			}
			if f != cull.GridEngine81 {
				in.Hard = nil
			}
			if diff := cmp.Diff(in, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestForeignDescriptors checks that messages that lack attributes can be read, and that messages
// with other attributes are refused: their IDs may have another meaning.
func TestForeignDescriptors(t *testing.T) {
	f := cull.GridEngine81
	few := &cull.Element{Descriptor: cull.Descriptor{{ID: f.ID("JR", "queue_name"), Word: 8}}, Values: []any{"q"}}
	got := report{}
	if err := f.Unmarshal(few, &got); err != nil || got.Queue != "q" || got.Job != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, d := range map[string]cull.Descriptor{
		"an attribute that is not known": {{ID: f.ID("JR", "queue_name"), Word: 8}, {ID: 1, Word: 3}},
		"another order":                  {{ID: f.ID("JR", "queue_name"), Word: 8}, {ID: f.ID("JR", "job_number"), Word: 3}},
		"another type":                   {{ID: f.ID("JR", "queue_name"), Word: 3}},
	} {
		e := &cull.Element{Descriptor: d, Values: make([]any, len(d))}
		if err := f.Unmarshal(e, &got); !errors.As(err, new(*cull.DescriptorError)) || !strings.Contains(err.Error(), "of JR is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type queue struct {
	_        struct{} `cull:"QU"`
	Name     string   `cull:"qname"`
	Notify   string   `cull:"notify"`
	HardVmem string   `cull:"h_vmem"`
}

// TestAttributesOfForkAreFoundByDescriptor reads a queue of a fork of Grid Engine that has put an
// attribute between the others without changing the version number. The attributes are found by the
// descriptor in the message.
func TestAttributesOfForkAreFoundByDescriptor(t *testing.T) {
	f := cull.GridEngine81
	behind := f.ID("QU", "h_vmem")
	e := &cull.Element{}
	for _, a := range f.DescriptorOf("QU") {
		name := "other"
		switch a.ID {
		case f.ID("QU", "qname"):
			name = "all.q"
		case f.ID("QU", "notify"):
			name = "00:01:00"
		case behind:
			name = "4G"
		}
		shifted := a
		if a.ID > behind {
			shifted.ID++
		}
		e.Descriptor, e.Values = append(e.Descriptor, shifted), append(e.Values, any(name))
		if a.ID == behind {
			e.Descriptor, e.Values = append(e.Descriptor, cull.Attribute{ID: behind + 1, Word: uint32(cull.String)}), append(e.Values, any("INFINITY"))
		}
	}
	var got queue
	if err := f.Unmarshal(e, &got); err != nil || got.Name != "all.q" || got.Notify != "00:01:00" || got.HardVmem != "4G" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func words(n ...uint32) []byte {
	var b []byte
	for _, w := range n {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// listOf begins a list: present, count, name, changed, one attribute.
func listOf(count, word uint32) []byte {
	b := append(words(1, count), 0)
	return append(b, words(1, 1, 50, word)...)
}

func TestHostileBuffers(t *testing.T) {
	var deep []byte
	for range 1000 {
		deep = append(append(deep, listOf(1, 9)...), words(2, 1)...)
		deep = append(deep, 0)
	}
	many := listOf(1<<20, 11) // elements of one attribute without a value: nine bytes each
	for range 1 << 20 {
		many = append(append(many, words(2, 1)...), 0)
	}
	for name, c := range map[string]struct {
		data   []byte
		limits cull.Limits
		want   string
	}{
		"nothing":                         {nil, cull.Limits{}, "a number needs 4 bytes, and 0 are left"},
		"4294967295 elements":             {listOf(1<<32-1, 3), cull.Limits{}, "a list of 4294967295 elements does not fit"},
		"1000 lists in each other":        {deep, cull.Limits{}, "more than 16 deep"},
		"more values than are taken":      {many, cull.Limits{Values: 1000}, "more than 1000 values"},
		"4294967295 attributes":           {append(append(words(1, 0), 0), words(1, 1<<32-1)...), cull.Limits{}, "4294967295 attributes, at most 199"},
		"an unknown type":                 {listOf(1, 99), cull.Limits{}, "an unknown type: type 99"},
		"a list that is neither 0 nor 1":  {words(2), cull.Limits{}, "2, expected 0 or 1"},
		"a name without an end":           {append(words(1, 1), "abc"...), cull.Limits{}, "a text has no end"},
		"bits for other attributes":       {append(listOf(1, 3), words(2, 1<<31)...), cull.Limits{}, "2147483648 bits for 1 attributes"},
		"an element in an unknown state":  {append(listOf(1, 3), words(77, 1)...), cull.Limits{}, "77 is no status"},
		"a value that is missing":         {append(append(listOf(1, 2), words(2, 1)...), 0, 1, 2), cull.Limits{}, "a double needs 8 bytes, and 2 are left"},
		"something after the end of list": {append(append(words(1, 0), 0), words(1, 0, 5)...), cull.Limits{}, "4 bytes are left over"},
	} {
		t.Run(name, func(t *testing.T) {
			d := cull.GridEngine81.NewDecoder(c.data, c.limits)
			d.List()
			if err := d.End(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	payloads(f, func(_ *capture.Stream, _ uint32, payload []byte) {
		for i := range formats {
			f.Add(i, payload)
		}
	})
	f.Fuzz(func(t *testing.T, number int, data []byte) {
		if number < 0 || number >= len(formats) {
			return
		}
		format := formats[number]
		d := format.NewDecoder(data, cull.Limits{Values: 1 << 16})
		if l := d.List(); d.Err() == nil {
			e := format.NewEncoder()
			e.List(l)
			// Bit fields may be set, and one state has two numbers.
			again := format.NewDecoder(e.Bytes(), cull.Limits{})
			b := format.NewEncoder()
			if b.List(again.List()); again.End() != nil || !bytes.Equal(b.Bytes(), e.Bytes()) {
				t.Fatalf("a list is not the same again: %v", again.Err())
			}
		}
		d = format.NewDecoder(data, cull.Limits{Values: 1 << 16})
		if x := d.Element(); d.Err() == nil {
			var r report
			_ = format.Unmarshal(x, &r)
			e := format.NewEncoder()
			e.Element(x)
			again := format.NewDecoder(e.Bytes(), cull.Limits{})
			if again.Element(); again.End() != nil {
				t.Fatal(again.Err())
			}
		}
	})
}
