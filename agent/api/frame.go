package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// TerminalProtocol is what a connection becomes with MethodAttach: a stream of frames in
// both directions.
const TerminalProtocol = "execd-terminal/1"

// FrameType says what a frame has.
type FrameType byte

// The types of frames.
const (
	FrameData   FrameType = 'd' // what was typed, or what the job has written
	FrameResize FrameType = 'r' // to the agent: rows and columns of the window, two bytes each
	FrameDetach FrameType = 'q' // to the agent: the job goes on without the client; no payload
	FrameStderr FrameType = 's' // of a job with pipes: what it has written to its standard error
	FrameEnd    FrameType = 'z' // to the agent, of a job with pipes: the end of its standard input; no payload
	// FrameTaken is to the client of a job with pipes: so many bytes of FrameData, in four
	// bytes, are in the pipe of the job. There may be InputWindow that are not yet.
	FrameTaken FrameType = 'a'
	// FrameExit is the last frame of a job that has ended: the exit status in four bytes,
	// 128 and the signal for one that was ended by a signal, and then why there is none,
	// or why it was ended, as text.
	FrameExit FrameType = 'x'
	// FrameError is the last frame of a connection that ends before the job: an Error as
	// JSON.
	FrameError FrameType = 'e'
)

// MaxFrame is the largest payload in bytes.
const MaxFrame = 32 << 10

// InputWindow is how many bytes of the standard input of a job with pipes may be on their
// way to it.
const InputWindow = 256 << 10

// PipesHeader is a header of the answer to MethodAttach, "1" for a job that has pipes.
const PipesHeader = "Execd-Pipes"

// frameHeader is a type, and the length of the payload in four bytes, the most
// significant first, as all numbers in frames are.
const frameHeader = 5

// Frame is a piece of the stream.
type Frame struct {
	Type    FrameType
	Payload []byte
}

// check says what is wrong with the form of a frame.
func checkFrame(t FrameType, size uint32) error {
	least, most := uint32(0), uint32(MaxFrame)
	switch t {
	case FrameData, FrameStderr, FrameError:
	case FrameResize, FrameTaken:
		least, most = 4, 4
	case FrameDetach, FrameEnd:
		most = 0
	case FrameExit:
		least = 4
	default:
		return fmt.Errorf("a frame has the unknown type %q", byte(t))
	}
	if size < least || size > most {
		return fmt.Errorf("a frame of type %q has %d bytes, expected %d to %d", byte(t), size, least, most)
	}
	return nil
}

// ReadFrame reads a frame. buffer is used for its payload if it is large enough. io.EOF
// is for a stream that ends between two frames.
func ReadFrame(r io.Reader, buffer []byte) (Frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: FrameType(header[0])}
	size := binary.BigEndian.Uint32(header[1:])
	if err := checkFrame(f.Type, size); err != nil {
		return Frame{}, err
	}
	if uint32(cap(buffer)) < size {
		buffer = make([]byte, size)
	}
	f.Payload = buffer[:size]
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// WriteFrame writes a frame at once.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if err := checkFrame(t, uint32(min(len(payload), MaxFrame+1))); err != nil {
		return err
	}
	b := make([]byte, frameHeader, frameHeader+len(payload))
	b[0] = byte(t)
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

// ResizePayload is that of FrameResize.
func ResizePayload(rows, cols uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols)
}

// Size returns what a FrameResize has.
func (f Frame) Size() (rows, cols uint16) {
	return binary.BigEndian.Uint16(f.Payload), binary.BigEndian.Uint16(f.Payload[2:])
}

// TakenPayload is that of FrameTaken.
func TakenPayload(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// Taken returns what a FrameTaken has.
func (f Frame) Taken() int { return int(binary.BigEndian.Uint32(f.Payload)) }

// ExitPayload is that of FrameExit.
func ExitPayload(status int, reason string) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, uint32(status)), reason...)
	return b[:min(len(b), MaxFrame)]
}

// Exit returns what a FrameExit has.
func (f Frame) Exit() (status int, reason string) {
	return int(int32(binary.BigEndian.Uint32(f.Payload))), string(f.Payload[4:])
}
