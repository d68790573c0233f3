package api

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestFrames checks that frames arrive as they were sent, and that an invalid frame is refused
// before memory is allocated for it.
func TestFrames(t *testing.T) {
	var b bytes.Buffer
	long := bytes.Repeat([]byte("x"), MaxFrame)
	for _, f := range []Frame{
		{FrameData, []byte("a\x00\xff")},
		{FrameData, long},
		{FrameData, nil},
		{FrameResize, ResizePayload(24, 65535)},
		{FrameDetach, nil},
		{FrameStderr, []byte("error")},
		{FrameEnd, nil},
		{FrameTaken, TakenPayload(InputWindow)},
		{FrameExit, ExitPayload(-1, "why")},
		{FrameError, []byte("{}")},
	} {
		if err := WriteFrame(&b, f.Type, f.Payload); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFrame(&b, nil)
		if err != nil || got.Type != f.Type || !bytes.Equal(got.Payload, f.Payload) {
			t.Errorf("%q %d bytes, %v, expected %q %d bytes", got.Type, len(got.Payload), err, f.Type, len(f.Payload))
		}
		switch f.Type {
		case FrameResize:
			if rows, cols := got.Size(); rows != 24 || cols != 65535 {
				t.Errorf("%d rows, %d columns", rows, cols)
			}
		case FrameTaken:
			if got.Taken() != InputWindow {
				t.Errorf("%d bytes are taken", got.Taken())
			}
		case FrameExit:
			if status, reason := got.Exit(); status != -1 || reason != "why" {
				t.Errorf("%d, %q", status, reason)
			}
		}
	}
	if _, err := ReadFrame(&b, nil); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"Z\x00\x00\x00\x00":      "unknown type",
		"z\x00\x00\x00\x01x":     "expected 0 to 0",
		"a\x00\x00\x00\x05abcde": "expected 4 to 4",
		"d\xff\xff\xff\xff":      "bytes",
		"d\x00\x00\x80\x01":      "bytes",
		"r\x00\x00\x00\x03abc":   "expected 4 to 4",
		"q\x00\x00\x00\x01x":     "expected 0 to 0",
		"x\x00\x00\x00\x00":      "expected 4",
		"d\x00\x00\x00\x04abc":   io.ErrUnexpectedEOF.Error(),
		"d\x00\x00":              io.ErrUnexpectedEOF.Error(),
	} {
		if _, err := ReadFrame(strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	if err := WriteFrame(io.Discard, FrameData, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame that is too long was written")
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("d\x00\x00\x00\x01xr\x00\x00\x00\x04abcdq\x00\x00\x00\x00x\x00\x00\x00\x05abcde"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var again bytes.Buffer
		for {
			at := len(b) - r.Len()
			frame, err := ReadFrame(r, nil)
			if err != nil {
				if errors.Is(err, io.EOF) && at != len(b) {
					t.Errorf("the stream ends at %d of %d bytes without an error", at, len(b))
				}
				if !bytes.Equal(again.Bytes(), b[:at]) {
					t.Error("frames that were read and written again have changed")
				}
				return
			}
			switch frame.Type {
			case FrameResize:
				frame.Size()
			case FrameExit:
				frame.Exit()
			}
			if err := WriteFrame(&again, frame.Type, frame.Payload); err != nil {
				t.Error(err)
			}
		}
	})
}
