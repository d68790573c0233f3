// Package munge asks the daemon munged(8) of this host for credentials, and to verify those of others.
// A credential contains a text, and proves to every host with the same key which user asked for it.
//
// Other projects should not import this package: it may change at any time.
//
// The messages are those of munged 0.5, version 4 of its protocol: a header (magic number, version, type,
// retry, length of the body), and a body. Numbers are big-endian.
package munge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// DefaultSocket is the socket of munged as distributions configure it.
const DefaultSocket = "/run/munge/munge.socket.2"

// Client asks the munged that listens on a socket. It may be used by several goroutines.
type Client struct {
	Socket string // DefaultSocket if empty
}

// Credential is the content of a verified credential.
type Credential struct {
	Text     []byte
	UID, GID uint32 // of the process that asked for the credential
}

// Error is a refusal of munged.
type Error struct {
	Code byte // an error of munge(3)
	Text string
}

// Error returns the text of munged.
func (e *Error) Error() string { return fmt.Sprintf("munged refuses: %s (error %d)", e.Text, e.Code) }

// The header of messages.
const (
	magic      = 0x00606d4b
	version    = 4
	headLength = 11
)

// The types of messages.
const (
	encodeRequest  = 2
	encodeResponse = 3
	decodeRequest  = 4
	decodeResponse = 5
)

// The settings of a credential: those of munged's configuration, for every user.
const (
	byDefault = 1
	anyUser   = 0xffffffff
)

// maxMessage bounds messages in both directions: munged takes at most 1 MiB.
const maxMessage = 1 << 20

// Encode returns a credential for a text in the name of this process. The credential can be verified
// once, and for a limited time: five minutes by default.
func (c *Client) Encode(ctx context.Context, text []byte) (string, error) {
	body := []byte{byDefault, byDefault, byDefault, 0} // cipher, MAC, compression, length of the realm
	body = binary.BigEndian.AppendUint32(body, 0)      // time to live
	body = binary.BigEndian.AppendUint32(body, anyUser)
	body = binary.BigEndian.AppendUint32(body, anyUser)
	body = appendBytes(body, text)
	answer, err := c.ask(ctx, encodeRequest, body, encodeResponse)
	credential := ""
	if err == nil {
		credential, err = readEncoded(answer)
	}
	if err != nil {
		return "", fmt.Errorf("cannot get a munge credential: %w", err)
	}
	return credential, nil
}

// readEncoded reads the body of an encodeResponse.
func readEncoded(body []byte) (credential string, err error) {
	r := &reader{data: body}
	if err := r.refusal(); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(r.bytes(), "\x00")), r.err
}

// Decode verifies a credential. The error is an *Error if munged refuses it: because it has expired, was
// verified before, or is from a host with another key.
func (c *Client) Decode(ctx context.Context, credential string) (*Credential, error) {
	body := appendBytes(nil, append([]byte(credential), 0))
	answer, err := c.ask(ctx, decodeRequest, body, decodeResponse)
	var found *Credential
	if err == nil {
		found, err = readDecoded(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot verify a munge credential: %w", err)
	}
	return found, nil
}

// readDecoded reads the body of a decodeResponse.
func readDecoded(body []byte) (*Credential, error) {
	r := &reader{data: body}
	if err := r.refusal(); err != nil {
		return nil, err
	}
	r.skip(3)             // cipher, MAC, compression
	r.skip(int(r.byte())) // realm
	r.skip(4)             // time to live
	r.skip(int(r.byte())) // address
	r.skip(2 * 4)         // times of encoding and decoding
	found := &Credential{UID: r.uint32(), GID: r.uint32()}
	r.skip(2 * 4) // users that may decode
	found.Text = r.bytes()
	if r.err != nil {
		return nil, r.err
	}
	return found, nil
}

// ask sends a message, and returns the body of the answer.
func (c *Client) ask(ctx context.Context, kind byte, body []byte, want byte) ([]byte, error) {
	if len(body) > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes, at most %d are possible", len(body), maxMessage)
	}
	socket := c.Socket
	if socket == "" {
		socket = DefaultSocket
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("munged does not answer: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	message := binary.BigEndian.AppendUint32(nil, magic)
	message = append(message, version, kind, 0) // 0: not a retry
	message = binary.BigEndian.AppendUint32(message, uint32(len(body)))
	if _, err := conn.Write(append(message, body...)); err != nil {
		return nil, fmt.Errorf("munged does not answer: %w", err)
	}
	var head [headLength]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, fmt.Errorf("munged does not answer: %w", err)
	}
	length := binary.BigEndian.Uint32(head[7:])
	switch {
	case binary.BigEndian.Uint32(head[:]) != magic || head[4] != version:
		return nil, fmt.Errorf("%s answers with the header %x, expected version %d of the protocol of munged", socket, head, version)
	case head[5] != want:
		return nil, fmt.Errorf("munged answers with a message of type %d, expected %d", head[5], want)
	case length > maxMessage:
		return nil, fmt.Errorf("munged answers with %d bytes, expected at most %d", length, maxMessage)
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, fmt.Errorf("munged does not answer: %w", err)
	}
	return answer, nil
}

func appendBytes(to, data []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	return append(to, data...)
}

// reader reads the fields of a body. After an error all values are zero.
type reader struct {
	data []byte
	err  error
}

var errShort = errors.New("the answer of munged is incomplete")

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.data) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// bytes returns a field that is preceded by its length.
func (r *reader) bytes() []byte {
	n := r.uint32()
	if uint64(n) > uint64(len(r.data)) {
		r.err = errShort
		return nil
	}
	return r.take(int(n))
}

// refusal returns the error at the beginning of each answer; nil for none. The rest of a refusal may be
// missing.
func (r *reader) refusal() error {
	code := r.byte()
	text := r.take(int(r.byte()))
	if code == 0 || r.err != nil {
		return r.err
	}
	return &Error{code, strings.TrimRight(string(text), "\x00")}
}
