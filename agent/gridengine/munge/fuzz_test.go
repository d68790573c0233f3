package munge

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzAnswers checks that no answer of munged makes the package panic, or return a text that the
// answer does not contain.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x04text"))
	f.Add([]byte("\x11\x02no"))
	good := append([]byte{0, 0, 1, 1, 1, 0}, make([]byte, 4)...)
	good = append(append(good, 4), make([]byte, 4+2*4+2*4+2*4)...)
	f.Add(append(binary.BigEndian.AppendUint32(good, 4), "text"...))
	f.Fuzz(func(t *testing.T, body []byte) {
		if credential, err := readEncoded(body); err == nil && !bytes.Contains(body, []byte(credential)) {
			t.Errorf("the credential is %q", credential)
		}
		if c, err := readDecoded(body); err == nil && !bytes.HasSuffix(body, c.Text) && !bytes.Contains(body, c.Text) {
			t.Errorf("the text is %q", c.Text)
		}
	})
}
