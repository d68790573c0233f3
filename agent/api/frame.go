package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// TerminalProtocol is the protocol to which MethodAttach upgrades its connection: a stream of
// frames in both directions.
const TerminalProtocol = "execd-terminal/1"

// FrameType is the type of a frame.
type FrameType byte

// The types of frames.
const (
	FrameData   FrameType = 'd' // to the agent: input; to the client: output of the job
	FrameResize FrameType = 'r' // to the agent: rows and columns of the window, two bytes each
	FrameDetach FrameType = 'q' // to the agent: the job continues without the client; no payload
	FrameStderr FrameType = 's' // to the client, of a job with pipes: output on standard error
	FrameEnd    FrameType = 'z' // to the agent, of a job with pipes: the end of its standard input; no payload
	// FrameTaken tells the client of a job with pipes how many bytes of FrameData have reached the
	// job's pipe, as four bytes. Up to InputWindow bytes may be on their way.
	FrameTaken FrameType = 'a'
	// FrameExit is the last frame of a finished job. Its first four bytes are the exit status, or
	// 128 plus the signal that ended the job. The text after them explains a missing exit status or
	// a termination.
	FrameExit FrameType = 'x'
	// FrameError is the last frame of a connection that ends before the job. It contains an Error
	// as JSON.
	FrameError FrameType = 'e'
)

// MaxFrame is the largest payload of a frame in bytes.
const MaxFrame = 32 << 10

// InputWindow is the largest number of bytes of standard input that may be on their way to a job
// with pipes.
const InputWindow = 256 << 10

// PipesHeader is a header in the answer to MethodAttach. It is "1" for a job with pipes.
const PipesHeader = "Execd-Pipes"

// frameHeader is the length of a frame's header: one byte for the type and four for the length of
// the payload. All numbers in frames are big-endian.
const frameHeader = 5

// Frame is one message of the stream.
type Frame struct {
	Type    FrameType
	Payload []byte
}

// checkFrame returns an error for a frame with an unknown type or a wrong size.
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

// ReadFrame reads a frame. It uses buffer for the payload if buffer is large enough. It returns
// io.EOF if the stream ends between two frames.
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

// WriteFrame writes a frame with a single write.
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

// ResizePayload returns the payload of a FrameResize.
func ResizePayload(rows, cols uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols)
}

// Size returns the rows and columns of a FrameResize.
func (f Frame) Size() (rows, cols uint16) {
	return binary.BigEndian.Uint16(f.Payload), binary.BigEndian.Uint16(f.Payload[2:])
}

// TakenPayload returns the payload of a FrameTaken.
func TakenPayload(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// Taken returns the number of bytes in a FrameTaken.
func (f Frame) Taken() int { return int(binary.BigEndian.Uint32(f.Payload)) }

// ExitPayload returns the payload of a FrameExit.
func ExitPayload(status int, reason string) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, uint32(status)), reason...)
	return b[:min(len(b), MaxFrame)]
}

// Exit returns the exit status and the reason in a FrameExit.
func (f Frame) Exit() (status int, reason string) {
	return int(int32(binary.BigEndian.Uint32(f.Payload))), string(f.Payload[4:])
}
