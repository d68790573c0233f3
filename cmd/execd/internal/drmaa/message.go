package drmaa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// mostBytes is the maximum size of a message: enough for the largest environment and arguments that
// Linux allows.
const mostBytes = 64 << 20

// readMessage reads a list of strings: its length in bytes as four bytes in native byte order,
// followed by the strings, each with a terminating NUL.
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

// appendMessage appends a message. The strings must not contain NUL.
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

// clean replaces NUL bytes, so that the text is a C string.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", " ") }
