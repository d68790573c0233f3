// Package capture has sessions between unmodified daemons of Grid Engine 8.1.9 and of Open
// Cluster Scheduler 9.0.13 and 9.1.4 as they
// were recorded on the network, for tests: the bytes of each direction of each TCP
// connection.
package capture

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:embed testdata/*.pcap.gz
var files embed.FS

// Stream is one direction of a TCP connection: all that was sent, in order.
type Stream struct {
	Session  string // name of the recording
	From, To string // address:port
	Data     []byte
	// Client says that this side opened the connection.
	Client bool
}

// String names the stream.
func (s *Stream) String() string { return s.Session + " " + s.From + ">" + s.To }

// Release returns the series of releases of the daemons: "8.1.9", "9.0" or "9.1".
func (s *Stream) Release() string {
	release, ok := strings.CutPrefix(s.Session, "ocs-")
	if !ok {
		return "8.1.9"
	}
	return release[:len("9.0")]
}

// Streams returns the streams of all sessions in the order of their begin.
func Streams() ([]*Stream, error) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	var all []*Stream
	for _, e := range entries {
		packed, err := files.ReadFile("testdata/" + e.Name())
		if err != nil {
			return nil, err
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		list, err := streams(strings.TrimSuffix(e.Name(), ".pcap.gz"), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// direction collects the segments of one direction.
type direction struct {
	*Stream
	next    uint32 // next sequence number
	waiting map[uint32][]byte
}

// streams takes a pcap file of Ethernet, IPv4 and TCP apart.
func streams(session string, data []byte) ([]*Stream, error) {
	const fileHeader, recordHeader = 24, 16
	if len(data) < fileHeader || binary.LittleEndian.Uint32(data) != 0xa1b2c3d4 {
		return nil, fmt.Errorf("it is not a pcap file of little-endian order")
	}
	var list []*Stream
	open := map[string]*direction{}
	for rest := data[fileHeader:]; len(rest) >= recordHeader; {
		n := int(binary.LittleEndian.Uint32(rest[8:]))
		if len(rest) < recordHeader+n {
			return nil, io.ErrUnexpectedEOF
		}
		packet := rest[recordHeader : recordHeader+n]
		rest = rest[recordHeader+n:]
		const ethernet = 14
		if len(packet) < ethernet+20 || binary.BigEndian.Uint16(packet[12:]) != 0x0800 || packet[ethernet+9] != 6 {
			continue
		}
		ip := packet[ethernet : ethernet+int(binary.BigEndian.Uint16(packet[ethernet+2:]))]
		tcp := ip[int(ip[0]&15)*4:]
		from := fmt.Sprintf("%d.%d.%d.%d:%d", ip[12], ip[13], ip[14], ip[15], binary.BigEndian.Uint16(tcp))
		to := fmt.Sprintf("%d.%d.%d.%d:%d", ip[16], ip[17], ip[18], ip[19], binary.BigEndian.Uint16(tcp[2:]))
		sequence, flags := binary.BigEndian.Uint32(tcp[4:]), tcp[13]
		content := tcp[int(tcp[12]>>4)*4:]
		key := from + ">" + to
		const syn, ack = 2, 16
		if flags&syn != 0 {
			d := &direction{&Stream{Session: session, From: from, To: to, Client: flags&ack == 0}, sequence + 1, map[uint32][]byte{}}
			open[key] = d
			list = append(list, d.Stream)
			continue
		}
		if d := open[key]; d != nil && len(content) > 0 {
			d.take(sequence, content)
		}
	}
	return slices.DeleteFunc(list, func(s *Stream) bool { return len(s.Data) == 0 }), nil
}

// take inserts a segment at its position; retransmitted data counts once.
func (d *direction) take(sequence uint32, content []byte) {
	d.waiting[sequence] = content
	for {
		content, ok := d.waiting[d.next]
		if !ok {
			return
		}
		delete(d.waiting, d.next)
		d.Data = append(d.Data, content...)
		d.next += uint32(len(content))
	}
}
