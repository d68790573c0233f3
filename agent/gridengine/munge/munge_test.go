package munge_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/munge"
	"github.com/execd-project/execd/internal/testenv"
)

// TestCredentials verifies credentials of the package with munge(1), and those of munge(1) with the
// package.
func TestCredentials(t *testing.T) {
	socket := testenv.Munged(t)
	c := munge.Client{Socket: socket}
	const text = "a text\x00"
	credential, err := c.Encode(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	unmunge := exec.Command("unmunge", "--socket="+socket)
	unmunge.Stdin = strings.NewReader(credential)
	out, err := unmunge.Output()
	if err != nil || !strings.HasSuffix(string(out), "\n"+text) || !strings.Contains(string(out), "Success (0)") {
		t.Errorf("unmunge has printed %q: %v", out, err)
	}
	theirs, err := exec.Command("munge", "--socket="+socket, "--string="+text[:len(text)-1]).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode(t.Context(), strings.TrimSpace(string(theirs)))
	if err != nil || string(got.Text) != text[:len(text)-1] || got.UID != uint32(os.Getuid()) || got.GID != uint32(os.Getgid()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestRefusedCredentials checks that munged refuses a credential that was used before, one that was
// changed, and one of a host with another key.
func TestRefusedCredentials(t *testing.T) {
	c, other := munge.Client{Socket: testenv.Munged(t)}, munge.Client{Socket: testenv.Munged(t)}
	get := func(c *munge.Client) string {
		credential, err := c.Encode(t.Context(), []byte("text"))
		if err != nil {
			t.Fatal(err)
		}
		return credential
	}
	used := get(&c)
	if _, err := c.Decode(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	changed := []byte(get(&c))
	changed[len(changed)/2] ^= 1
	for name, credential := range map[string]string{
		"used": used, "changed": string(changed), "of another key": get(&other), "no credential": "text", "empty": "",
	} {
		got, err := c.Decode(t.Context(), credential)
		if refusal, ok := errors.AsType[*munge.Error](err); !ok || refusal.Text == "" {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestNoMunged(t *testing.T) {
	c := munge.Client{Socket: filepath.Join(t.TempDir(), "socket")}
	if _, err := c.Encode(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestWrongAnswers checks that the package waits until the deadline for a munged that does not
// answer, and returns an error for an invalid answer.
func TestWrongAnswers(t *testing.T) {
	head := func(version, kind byte, length uint32) string {
		b := binary.BigEndian.AppendUint32(nil, 0x00606d4b)
		b = append(b, version, kind, 0)
		return string(binary.BigEndian.AppendUint32(b, length))
	}
	for name, c := range map[string]struct{ answer, want string }{
		"nothing":                {"", "EOF"},
		"half a header":          {head(4, 3, 0)[:5], "unexpected EOF"},
		"another version":        {head(5, 3, 0), "expected version 4"},
		"another type":           {head(4, 5, 0), "of type 5, expected 3"},
		"too long":               {head(4, 3, 1<<30), "1073741824 bytes"},
		"a body that is missing": {head(4, 3, 6), "EOF"},
		"an empty body":          {head(4, 3, 0), "is incomplete"},
		"a length out of range":  {head(4, 3, 6) + "\x00\x00\xff\xff\xff\xff", "is incomplete"},
		"a refusal":              {head(4, 3, 4) + "\x06\x02no", "munged refuses: no (error 6)"},
	} {
		t.Run(name, func(t *testing.T) {
			client := munge.Client{Socket: answering(t, c.answer)}
			if got, err := client.Encode(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	client := munge.Client{Socket: silent.Addr().String()}
	done := make(chan error)
	go func() {
		_, err := client.Encode(ctx, nil)
		done <- err
	}()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if err := <-done; err == nil {
		t.Error("a munged that does not answer is no error")
	}
}

// answering listens for one client, and sends it an answer.
func answering(t *testing.T, answer string) (socket string) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1000)); err == nil {
			_, _ = conn.Write([]byte(answer))
		}
	}()
	return l.Addr().String()
}
