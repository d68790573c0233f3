package plan

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFramesRoundTrip(t *testing.T) {
	end, err := EndFrame(3, End{Status: 137, Milliseconds: 12})
	if err != nil {
		t.Fatal(err)
	}
	frames := []Frame{
		{Output, 0, []byte("a line\n")},
		{Output, 1, []byte{}},
		{Output, 1, []byte("o 0 5\nnot a frame\x00\xff")},
		end,
		{Failed, 0, []byte("cannot mount")},
	}
	var b bytes.Buffer
	for _, f := range frames {
		if err := f.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(&b)
	for _, want := range frames {
		got, err := Read(r)
		if err != nil || got.Kind != want.Kind || got.Step != want.Step || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("Read = %+v, %v; want %+v", got, err, want)
		}
		if got.Kind == Ended {
			if e, err := got.End(); err != nil || e != (End{137, 12}) {
				t.Errorf("End = %+v, %v", e, err)
			}
		}
	}
	if _, err := Read(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestDamagedFramesAreErrors(t *testing.T) {
	for what, text := range map[string]string{
		"an invalid line":           "Kernel panic\n",
		"a line without its end":    "o 0 1",
		"a payload that is cut off": "o 0 5\nab",
		"a length that is too long": "o 0 99999999\n",
		"a length below zero":       "o 0 -1\n",
		"a step below zero":         "o -1 0\n",
	} {
		t.Run(what, func(t *testing.T) {
			if f, err := Read(bufio.NewReader(strings.NewReader(text))); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("Read = %+v, %v", f, err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("o 0 3\nabce 1 2\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReader(bytes.NewReader(text))
		for {
			frame, err := Read(r)
			if err != nil {
				return
			}
			var b bytes.Buffer
			if err := frame.Write(&b); err != nil {
				t.Fatal(err)
			}
			again, err := Read(bufio.NewReader(&b))
			if err != nil || again.Kind != frame.Kind || again.Step != frame.Step || !bytes.Equal(again.Payload, frame.Payload) {
				t.Fatalf("%+v has become %+v, %v", frame, again, err)
			}
		}
	})
}
