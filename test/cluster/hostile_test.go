package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/test/gridengine"
)

// within calls a function in the network namespace of a process of the cell.
func (c *cell) within(pid int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open(c.Proc(pid) + "/ns/net")
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// A stranger connects to the agent on the host of sge_qmaster, from another host.
type stranger struct {
	c    *cell
	host string
	pid  int // a process of that host
}

// connect opens a TCP connection.
func (s *stranger) connect() net.Conn {
	s.c.Helper()
	var nc net.Conn
	err := s.c.within(s.pid, func() (err error) {
		nc, err = net.DialTimeout("tcp4", "10.77.7.1:6445", patience)
		return err
	})
	if err != nil {
		s.c.Fatalf("cannot connect: %v", err)
	}
	s.c.Cleanup(func() { nc.Close() })
	return nc
}

// introduce opens a commlib connection, as a component of a host.
func (s *stranger) introduce(host, component string, id int) (*commlib.Conn, error) {
	return s.introduceOn(s.connect(), host, component, id)
}

// introduceOn does this on an open TCP connection.
func (s *stranger) introduceOn(nc net.Conn, host, component string, id int) (*commlib.Conn, error) {
	ctx, cancel := context.WithTimeout(s.c.Context(), patience)
	defer cancel()
	conn, _, err := commlib.Client(ctx, nc, &commlib.ConnectRequest{
		Format: commlib.Binary, Type: commlib.ConnectMessages,
		To:   commlib.Endpoint{Host: s.c.Host, Component: commlib.Execd, ID: 1},
		From: commlib.Endpoint{Host: host, Component: component, ID: id},
	}, commlib.Options{})
	return conn, err
}

// pour writes a large amount of data, and returns the amount accepted before the other side closed
// the connection, in MiB.
func (s *stranger) pour(nc net.Conn, most int) int {
	s.c.Helper()
	if err := nc.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		s.c.Fatal(err)
	}
	for n := range most {
		if _, err := nc.Write(make([]byte, 1<<20)); err != nil {
			return n
		}
	}
	return most
}

// closed waits until the other side has closed a connection.
func (s *stranger) closed(what string, nc net.Conn) {
	s.c.Helper()
	if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.c.Fatal(err)
	}
	if _, err := nc.Read(make([]byte, 4096)); errors.Is(err, os.ErrDeadlineExceeded) {
		s.c.Errorf("after %s the connection stays", what)
	}
}

// words returns numbers in the format of CULL.
func words(numbers ...uint32) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// requests returns invalid requests for a task.
func requests(codec *message.Codec) map[string][]byte {
	const list = 9
	begin := codec.EncodeTaskID("")
	begin = begin[:len(begin)-1] // without the id
	if codec.Name != "9.1" {
		begin = append(begin, words(1)...) // the set of features
	}
	with := func(numbers ...uint32) []byte { return append(bytes.Clone(begin), words(numbers...)...) }
	// An element with one attribute, which is a list.
	deep := append(with(1, 1, 4711, list, 1), 0)
	for range 10_000 {
		deep = append(append(deep, words(1, 1)...), 0)
		deep = append(append(deep, words(1, 1, 4711, list, 2, 1)...), 0)
	}
	return map[string][]byte{
		"nothing":               {},
		"another version":       words(0, 1, 1),
		"lists in each other":   deep,
		"4294967295 elements":   append(append(with(1, 1, 4711, list, 1), 0), words(1, 1<<32-1)...),
		"4294967295 attributes": with(1, 1<<32-1),
		"ones":                  bytes.Repeat([]byte{0xff}, 1<<20),
		"a job":                 codec.EncodeDelivery(&message.Delivery{Job: 1}),
	}
}

// codec returns a codec for messages of the cell's sge_qmaster.
func (c *cell) codec() *message.Codec {
	c.Helper()
	p := message.ProtocolNamed(c.series())
	if p == nil {
		p = message.GridEngine81
	}
	return &message.Codec{Protocol: p, Identity: message.Identity{User: "root", Group: "root"}}
}

// TestHostilePeers checks that a peer that is not sge_qmaster can neither give orders to the agent,
// nor keep it from its work, nor make it use much memory.
func TestHostilePeers(t *testing.T) {
	c := start(t, gridengine.Config{Nodes: []string{"node1"}, Conf: map[string]string{"load_report_time": "00:00:01"}})
	c.queue("all.q", map[string]string{"slots": "20"})
	text, err := os.ReadFile(c.Path("/home/cell/node.node1"))
	if err != nil {
		t.Fatal(err)
	}
	node, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	here, there := &stranger{c, c.Host, 1}, &stranger{c, "node1", node}
	agent, err := c.AgentPID()
	if err != nil {
		t.Fatal(err)
	}
	victim := c.sleeper()
	sub := func(name string, f func(c *cell)) {
		c.Run(name, func(t *testing.T) {
			sub := &cell{c.Cell, t}
			here.c, there.c = sub, sub
			f(sub)
			// The agent continues to work, and without another process.
			job := sub.qsub("-b", "y", "-o", "/dev/null", "-j", "y", "/bin/true")
			sub.want(sub.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "0"})
			if now, _ := sub.AgentPID(); now != agent || !sub.agentLives() {
				t.Error("the agent has ended")
			}
			if s := sub.state(victim); s != "r" {
				t.Errorf("the job that ran is in state %q", s)
			}
		})
	}
	codec := c.codec()
	before := c.peak(agent)
	sub("only the host of sge_qmaster sends jobs, and one connection of it", func(c *cell) {
		for what, refused := range map[string]struct {
			who             *stranger
			host, component string
			id              int
			want            string
		}{
			"qmaster on another host":     {there, "node1", commlib.Qmaster, 1, "only the host of act_qmaster"},
			"under the name of its host":  {there, c.Host, commlib.Qmaster, 1, "the address of the client is not an address of host"},
			"a second one":                {here, c.Host, commlib.Qmaster, 1, "already connected"},
			"a qmaster of another number": {here, c.Host, commlib.Qmaster, 2, "only the host of act_qmaster"},
			"an execution daemon":         {there, "node1", commlib.Execd, 1, "has nothing to ask here"},
			"a task of another host":      {there, c.Host, commlib.ExecdHandle, 0, "the address of the client is not an address of host"},
		} {
			_, err := refused.who.introduce(refused.host, refused.component, refused.id)
			if e, ok := errors.AsType[*commlib.RefusedError](err); !ok || !strings.Contains(e.Text, refused.want) {
				c.Errorf("%s: got %v, want a refusal with %q", what, err, refused.want)
			}
		}
	})
	sub("orders of others are none", func(c *cell) {
		for _, component := range []string{commlib.ExecdHandle, commlib.Qping} {
			conn, err := there.introduce("node1", component, 0)
			if err != nil {
				c.Fatal(err)
			}
			kill := &message.JobSignal{Job: uint32(victim), Task: 1, Signal: message.SignalKill}
			for tag, payload := range map[message.Tag][]byte{
				message.TagSignalJob: codec.EncodeJobSignal(kill), message.TagSignalQueue: codec.EncodeJobSignal(kill), message.TagKillExecd: codec.EncodeNumber(1),
				message.TagGetNewConf: codec.EncodeNumber(0), message.TagAcknowledge: codec.EncodeAcknowledgements(),
			} {
				if _, err := conn.Send(codec.Number(tag), 0, payload); err != nil {
					c.Errorf("message %d: %v", tag, err)
				}
			}
			conn.Abort()
		}
	})
	sub("requests that make no sense are refused", func(c *cell) {
		conn, err := there.introduce("node1", commlib.ExecdHandle, 0)
		if err != nil {
			c.Fatal(err)
		}
		for what, payload := range requests(codec) {
			if _, err := conn.Send(codec.Number(message.TagJobExecution), 0, payload); err != nil {
				c.Fatalf("%s: %v", what, err)
			}
			answer, err := conn.Receive()
			if err != nil {
				c.Fatalf("%s: %v", what, err)
			}
			if id, err := codec.DecodeTaskID(answer.Payload); err != nil || id != message.TaskRefused {
				c.Errorf("%s: the answer is %q, %v", what, id, err)
			}
		}
		conn.Abort()
	})
	sub("what is no message ends the connection", func(c *cell) {
		request := commlib.AppendConnectRequest(nil, &commlib.ConnectRequest{
			Format: commlib.Binary, Type: commlib.ConnectMessages,
			To:   commlib.Endpoint{Host: c.Host, Component: commlib.Execd, ID: 1},
			From: commlib.Endpoint{Host: "node1", Component: commlib.ExecdHandle},
		})
		long := `<mih version="0.1"><mid>1</mid><dl>1073741824</dl><df>bin</df><mat>nak</mat><tag>6</tag><rid>0</rid></mih>`
		for what, text := range map[string]string{
			"a header of 1 GiB":        "<gmsh><dl>1073741824</dl></gmsh>",
			"a length that is none":    "<gmsh><dl>-1</dl></gmsh>",
			"a length without an end":  "<gmsh><dl>" + strings.Repeat("1", 1<<16),
			"noise":                    strings.Repeat("\x00\xffGET / HTTP/1.1\r\n", 1000),
			"a payload of 1 GiB":       fmt.Sprintf("<gmsh><dl>%d</dl></gmsh>%s", len(long), long),
			"an end within a message":  "<gmsh><dl>100</dl></gmsh><mih",
			"a header that is nothing": "<gmsh><dl>4</dl></gmsh>xxxx",
		} {
			for _, introduced := range []bool{false, true} {
				nc := there.connect()
				if introduced {
					text = string(request) + text
				}
				_, _ = nc.Write([]byte(text)) // the connection may be closed before everything is written
				if strings.HasPrefix(what, "an end") {
					_ = nc.(*net.TCPConn).CloseWrite()
				}
				if introduced { // the answer to the introduction comes first
					_, _ = commlib.ReadConnectResponse(nc)
				}
				if what == "a payload of 1 GiB" { // the agent knows the length before the payload arrives
					const most = 100 // MiB; data in transit is less
					if n := there.pour(nc, most); n == most {
						c.Errorf("%d MiB of %s are taken", n, what)
					}
				}
				there.closed(what, nc)
			}
		}
	})
	sub("those who say nothing, or not much, keep nobody from anything", func(c *cell) {
		for i := range 300 {
			nc := there.connect()
			_, _ = nc.Write([]byte("<gmsh><dl>4000</dl></gmsh><cm"[:i%29]))
		}
		conn, err := there.introduce("node1", commlib.ExecdHandle, 0)
		if err != nil {
			c.Fatalf("nobody else is taken: %v", err)
		}
		conn.Abort()
	})
	sub("who holds more connections than there may be loses the first of them", func(c *cell) {
		const most, more = 128, 5
		var held []net.Conn
		for range most + more {
			nc := there.connect()
			held = append(held, nc)
			if _, err := there.introduceOn(nc, "node1", commlib.Qping, 0); err != nil {
				c.Fatal(err)
			}
		}
		for i, nc := range held[:more] { // it is closed long before it has been idle for too long
			if there.closed(fmt.Sprintf("%d others, for the %dth", most, i+1), nc); c.Failed() {
				break
			}
		}
		for _, nc := range held {
			nc.Close()
		}
	})
	sub("many large messages at once take a bounded amount of memory", func(c *cell) {
		for range 20 {
			conn, err := there.introduce("node1", commlib.ExecdHandle, 0)
			if err != nil {
				c.Fatal(err)
			}
			defer conn.Abort()
			if _, err := conn.Send(codec.Number(message.TagJobExecution), 0, bytes.Repeat([]byte{0xff}, 2<<20)); err != nil {
				c.Error(err)
			}
		}
	})
	const most = 150 // MB: 20 messages of 2 MiB, what Go's collector leaves, and the agent itself
	after := c.peak(agent)
	t.Attr("memory-at-most", fmt.Sprintf("%d MB, %d MB before", after, before))
	if after > before+most {
		t.Errorf("the agent took %d MB, %d MB before", after, before)
	}
	c.alice("qdel", strconv.Itoa(victim))
	c.ended(victim, 0, 1)
	c.nothingLeft()
}

// peak returns the peak memory of a process so far, in MB.
func (c *cell) peak(pid int) int {
	c.Helper()
	text, err := os.ReadFile(c.Proc(pid) + "/status")
	if err != nil {
		c.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, _ := strconv.Atoi(f[1])
			return n >> 10
		}
	}
	c.Fatal("the kernel does not say how much memory it has had")
	return 0
}
