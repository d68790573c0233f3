package interactive

import (
	"bytes"
	"fmt"
	"strconv"
)

// kind is the first byte of a message between the job and its client.
type kind byte

// The kinds of messages.
const (
	stdin              kind = 0
	stdout             kind = 1
	stderr             kind = 2
	windowSize         kind = 3
	register           kind = 4
	unregister         kind = 5
	unregisterResponse kind = 6
	settings           kind = 7
	suspend            kind = 8
	unsuspend          kind = 9
	stdinClose         kind = 10
)

// encode makes the payload of a message. The payload of an empty message is a blank.
func encode(k kind, data []byte) []byte {
	if len(data) == 0 {
		data = []byte{' '}
	}
	return append([]byte{byte(k)}, data...)
}

// decode takes a payload apart.
func decode(payload []byte) (kind, []byte, error) {
	if len(payload) == 0 {
		return 0, nil, fmt.Errorf("the client sent an empty message")
	}
	return kind(payload[0]), payload[1:], nil
}

// size is a window.
type size struct{ rows, columns, x, y uint16 }

// parseSize reads the text of a window size: WS, and four numbers.
func parseSize(data []byte) (size, bool) {
	words := bytes.Fields(bytes.TrimRight(data, "\x00"))
	if len(words) != 5 || string(words[0]) != "WS" {
		return size{}, false
	}
	var n [4]uint16
	for i, w := range words[1:] {
		v, err := strconv.ParseUint(string(w), 10, 16)
		if err != nil {
			return size{}, false
		}
		n[i] = uint16(v)
	}
	return size{n[0], n[1], n[2], n[3]}, true
}

// noShell reports whether settings have the command executed without a shell.
func noShell(data []byte) bool {
	name, value, ok := bytes.Cut(bytes.TrimRight(data, "\x00"), []byte("="))
	return ok && string(bytes.TrimSpace(name)) == "noshell" && string(bytes.TrimSpace(value)) == "1"
}
