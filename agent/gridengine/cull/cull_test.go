package cull_test

import (
	"bytes"
	"encoding/binary"
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
	want := report{Job: 7, Queue: "all.q@a", Usage: []usage{{Name: "cpu", Value: 1.5}, {Name: "mem"}}, Flush: true}
	e := &cull.Encoder{}
	e.Element(cull.Marshal(&want))
	d := cull.NewDecoder(e.Bytes(), cull.Limits{})
	element := d.Element()
	if err := d.End(); err != nil {
		t.Fatal(err)
	}
	if len(element.Values) != len(cull.DescriptorOf("JR")) {
		t.Errorf("%d attributes were sent, want all %d", len(element.Values), len(cull.DescriptorOf("JR")))
	}
	var got report
	if err := cull.Unmarshal(element, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What lacks attributes, or has others, is read; what has other types is not.
func TestForeignDescriptors(t *testing.T) {
	few := &cull.Element{Descriptor: cull.Descriptor{{ID: cull.ID("JR", "queue_name"), Word: 8}, {ID: 1, Word: 3}}, Values: []any{"q", uint32(1)}}
	got := report{}
	if err := cull.Unmarshal(few, &got); err != nil || got.Queue != "q" || got.Job != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	few.Descriptor[0].Word, few.Values[0] = 3, uint32(5)
	if err := cull.Unmarshal(few, &got); err == nil || !strings.Contains(err.Error(), "JR_queue_name is a uint32") {
		t.Errorf("a number in place of a text: %v", err)
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
		"a type that is none":             {listOf(1, 99), cull.Limits{}, "has type 99"},
		"a list that is neither 0 nor 1":  {words(2), cull.Limits{}, "2, expected 0 or 1"},
		"a name without an end":           {append(words(1, 1), "abc"...), cull.Limits{}, "a text has no end"},
		"bits for other attributes":       {append(listOf(1, 3), words(2, 1<<31)...), cull.Limits{}, "2147483648 bits for 1 attributes"},
		"an element in an unknown state":  {append(listOf(1, 3), words(77, 1)...), cull.Limits{}, "77 is no status"},
		"a value that is missing":         {append(append(listOf(1, 2), words(2, 1)...), 0, 1, 2), cull.Limits{}, "a double needs 8 bytes, and 2 are left"},
		"something after the end of list": {append(append(words(1, 0), 0), words(1, 0, 5)...), cull.Limits{}, "4 bytes are left over"},
	} {
		t.Run(name, func(t *testing.T) {
			d := cull.NewDecoder(c.data, c.limits)
			d.List()
			if err := d.End(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	payloads(f, func(_ *capture.Stream, _ uint32, payload []byte) { f.Add(payload) })
	f.Fuzz(func(t *testing.T, data []byte) {
		d := cull.NewDecoder(data, cull.Limits{Values: 1 << 16})
		if l := d.List(); d.Err() == nil {
			e := &cull.Encoder{}
			e.List(l)
			// Bit fields may be set, and one state has two numbers.
			again := cull.NewDecoder(e.Bytes(), cull.Limits{})
			b := &cull.Encoder{}
			if b.List(again.List()); again.End() != nil || !bytes.Equal(b.Bytes(), e.Bytes()) {
				t.Fatalf("a list is not the same again: %v", again.Err())
			}
		}
		d = cull.NewDecoder(data, cull.Limits{Values: 1 << 16})
		if x := d.Element(); d.Err() == nil {
			var r report
			_ = cull.Unmarshal(x, &r)
			e := &cull.Encoder{}
			e.Element(x)
			again := cull.NewDecoder(e.Bytes(), cull.Limits{})
			if again.Element(); again.End() != nil {
				t.Fatal(again.Err())
			}
		}
	})
}
