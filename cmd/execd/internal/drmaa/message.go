package drmaa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// mostBytes is the longest message: an environment and arguments as large as Linux allows, and some.
const mostBytes = 64 << 20

// readMessage reads a list of strings: a number of bytes in four bytes of this machine's order, then
// the strings, each with a 0 behind it.
func readMessage(r io.Reader) ([]string, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.NativeEndian.Uint32(head[:])
	if n == 0 || n > mostBytes {
		return nil, fmt.Errorf("invalid message of %d bytes: expected 1 to %d", n, mostBytes)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if body[n-1] != 0 {
		return nil, errors.New("invalid message: its last byte is not 0")
	}
	return strings.Split(string(body[:n-1]), "\x00"), nil
}

// appendMessage appends a message of strings without a 0.
func appendMessage(b []byte, words []string) []byte {
	n := len(words)
	for _, w := range words {
		n += len(w)
	}
	b = binary.NativeEndian.AppendUint32(b, uint32(n)) //nolint:gosec // answers are far shorter than 4 GiB
	for _, w := range words {
		b = append(append(b, w...), 0)
	}
	return b
}

// clean returns a text as a string of C.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", " ") }
