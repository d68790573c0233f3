package interactive

import (
	"bytes"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]size{
		"WS 33 101 0 0\x00":      {33, 101, 0, 0},
		"WS 65535 1 2 3":         {65535, 1, 2, 3},
		"WS 65536 1 2 3":         {},
		"WS 33 101":              {},
		"WS -1 2 3 4":            {},
		"xy 33 101 0 0":          {},
		"":                       {},
		"WS 33 101 0 0 and more": {},
	} {
		if got, ok := parseSize([]byte(text)); got != want || ok != (want != size{}) {
			t.Errorf("parseSize(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
}

func TestNoShell(t *testing.T) {
	for text, want := range map[string]bool{"noshell = 1\x00": true, "noshell=1": true, "noshell = 0": false, "noshell": false, "": false} {
		if got := noShell([]byte(text)); got != want {
			t.Errorf("noShell(%q) = %v", text, got)
		}
	}
}

// FuzzMessage checks that each message of a client is either refused, or read with the meaning with
// which it was sent.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("\x03WS 33 101 0 0\x00"))
	f.Add([]byte("\x07noshell = 1\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		k, data, err := decode(payload)
		if (err != nil) != (len(payload) == 0) {
			t.Fatalf("decode(%q): %v", payload, err)
		}
		if len(data) > 0 && !bytes.Equal(encode(k, data), payload) {
			t.Errorf("%q became %q", payload, encode(k, data))
		}
		parseSize(data)
		noShell(data)
	})
}
