package cluster

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
)

// A wire monitors the cable of a node, and records the times at which sge_qmaster's orders to start
// a job were sent.
type wire struct {
	codec  *message.Codec
	socket int
	stop   chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	orders map[[2]uint32]time.Time // by job and task
	// stream holds data from sge_qmaster that is not a whole message yet. next is the sequence
	// number of the byte after it. early holds segments that arrived out of order.
	stream []byte
	next   uint32
	early  map[uint32][]byte
}

// tap starts monitoring a node, by the name of its cable in the cell.
func (c *cell) tap(cable string) *wire {
	c.Helper()
	w := &wire{codec: c.codec(), orders: map[[2]uint32]time.Time{}, stop: make(chan struct{}), done: make(chan struct{})}
	err := c.within(1, func() (err error) {
		w.socket, err = packets(cable)
		return err
	})
	if err != nil {
		c.Fatalf("cannot look at the network: %v", err)
	}
	go w.follow()
	c.Cleanup(func() {
		close(w.stop)
		<-w.done
		_ = unix.Close(w.socket)
	})
	return w
}

// packets opens a socket that receives all packets of a cable.
func packets(cable string) (int, error) {
	link, err := net.InterfaceByName(cable)
	if err != nil {
		return 0, err
	}
	ip := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)) // in network byte order
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(ip))
	if err != nil {
		return 0, err
	}
	const room = 64 << 20
	for _, err := range []error{
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}),
		unix.Bind(s, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: link.Index}),
	} {
		if err != nil {
			unix.Close(s)
			return 0, err
		}
	}
	return s, nil
}

func (w *wire) follow() {
	defer close(w.done)
	packet, oob := make([]byte, 128<<10), make([]byte, 128)
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		n, m, _, from, err := unix.Recvmsg(w.socket, packet, oob, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		at := time.Now()
		if list, err := unix.ParseSocketControlMessage(oob[:m]); err == nil && len(list) > 0 && len(list[0].Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			t := *(*unix.Timespec)(unsafe.Pointer(&list[0].Data[0]))
			at = time.Unix(t.Unix())
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Protocol == binary.NativeEndian.Uint16([]byte{8, 0}) {
			w.packet(packet[:n], at)
		}
	}
}

// packet extracts sge_qmaster's data for an execution daemon from an IPv4 packet.
func (w *wire) packet(p []byte, at time.Time) {
	const master = 6444
	if len(p) < 20 || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return
	}
	head := int(p[0]&15) * 4
	if total := int(binary.BigEndian.Uint16(p[2:])); total >= head && total <= len(p) {
		p = p[:total]
	}
	if len(p) < head+20 || binary.BigEndian.Uint16(p[head:]) != master {
		return
	}
	tcp := p[head:]
	data := tcp[min(int(tcp[12]>>4)*4, len(tcp)):]
	if len(data) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.segment(binary.BigEndian.Uint32(tcp[4:]), data)
	w.messages(at)
}

// segment appends data in sequence, and keeps later data.
func (w *wire) segment(number uint32, data []byte) {
	if w.early == nil { // the first one begins a message
		w.early, w.next = map[uint32][]byte{}, number
	}
	w.early[number] = bytes.Clone(data)
	for {
		d, ok := w.early[w.next]
		if !ok {
			return
		}
		delete(w.early, w.next)
		w.stream = append(w.stream, d...)
		w.next += uint32(len(d))
	}
}

// messages records the orders among the complete messages.
func (w *wire) messages(at time.Time) {
	for len(w.stream) > 0 {
		r := bytes.NewReader(w.stream)
		m, err := commlib.ReadMessage(r, commlib.Limits{})
		if err != nil {
			return // the rest of the message has not arrived yet
		}
		w.stream = w.stream[len(w.stream)-r.Len():]
		if m.Tag != w.codec.Number(message.TagJobExecution) {
			continue
		}
		d, err := w.codec.DecodeDelivery(m.Payload, false)
		if err != nil || len(d.Tasks) == 0 {
			continue
		}
		k := [2]uint32{d.Job, d.Tasks[0].Number}
		if _, again := w.orders[k]; !again {
			w.orders[k] = at
		}
	}
}

// order returns the time at which the order for a task was sent to the node.
func (w *wire) order(job, task int) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.orders[[2]uint32{uint32(job), uint32(max(task, 1))}]
	return at, ok
}
