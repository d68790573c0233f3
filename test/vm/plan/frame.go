package plan

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames.
const (
	Output Kind = 'o' // what a step has written
	Ended  Kind = 'e' // a step is over; the payload is an End as JSON
	Failed Kind = 'f' // the guest cannot continue; the payload is the reason
)

// Frame is one message of the guest: a line "KIND STEP LENGTH", and the payload.
type Frame struct {
	Kind    Kind
	Step    int
	Payload []byte
}

// maxPayload limits the memory that a reader allocates for a damaged line.
const maxPayload = 1 << 20

// Write writes a frame, in one call.
func (f Frame) Write(w io.Writer) error {
	b := fmt.Appendf(nil, "%c %d %d\n", f.Kind, f.Step, len(f.Payload))
	if _, err := w.Write(append(b, f.Payload...)); err != nil {
		return fmt.Errorf("cannot tell the host: %w", err)
	}
	return nil
}

// Read reads the next frame. The error is io.EOF at the end, which only comes
// between two frames.
func Read(r *bufio.Reader) (Frame, error) {
	line, err := r.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return Frame{}, io.EOF
	}
	if err != nil {
		return Frame{}, fmt.Errorf("cannot read a frame after %q: %w", line, unexpected(err))
	}
	var f Frame
	var kind rune
	var length int
	n, err := fmt.Sscanf(line, "%c %d %d\n", &kind, &f.Step, &length)
	if n != 3 || err != nil || !strings.ContainsRune("oef", kind) || f.Step < 0 || length < 0 || length > maxPayload {
		return Frame{}, fmt.Errorf("cannot read a frame: %q is not the head of one", line)
	}
	f.Kind = Kind(kind)
	f.Payload = make([]byte, length)
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		return Frame{}, fmt.Errorf("cannot read a frame of %d bytes: %w", length, unexpected(err))
	}
	return f, nil
}

// unexpected returns io.ErrUnexpectedEOF for an end in the middle of a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// EndFrame returns the frame of a finished step.
func EndFrame(step int, e End) (Frame, error) {
	b, err := json.Marshal(e)
	return Frame{Ended, step, b}, err
}

// End reads the payload of a frame of the kind Ended.
func (f Frame) End() (End, error) {
	var e End
	if err := json.Unmarshal(f.Payload, &e); err != nil {
		return End{}, fmt.Errorf("cannot read how a step ended from %q: %w", f.Payload, err)
	}
	return e, nil
}
