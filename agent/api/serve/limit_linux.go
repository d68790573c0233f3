package serve

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/host/passed"

	"golang.org/x/sys/unix"
)

// counter counts the connections or calls of each peer.
type counter struct {
	each, all int

	mu    sync.Mutex
	none  sync.Cond // total is 0
	of    map[string]int
	total int
}

func newCounter(each, all int) *counter {
	c := &counter{each: each, all: all, of: map[string]int{}}
	c.none.L = &c.mu
	return c
}

// rootKey is the key of root, whose connections are not limited: root could end the agent as well.
const rootKey = "uid 0"

func (c *counter) add(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key != rootKey && (c.of[key] >= c.each || c.total >= c.all) {
		return false
	}
	c.of[key]++
	c.total++
	return true
}

// full reports whether all peers together have reached the limit.
func (c *counter) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total >= c.all
}

func (c *counter) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[key]--; c.of[key] == 0 {
		delete(c.of, key)
	}
	if c.total--; c.total == 0 {
		c.none.Broadcast()
	}
}

// wait waits until the count is 0.
func (c *counter) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.total > 0 {
		c.none.Wait()
	}
}

// limited is a listener that closes connections of peers that have too many.
type limited struct {
	net.Listener
	count  *counter
	key    func(net.Conn) (key string, who unix.Ucred, err error)
	token  *token
	polite bool // sends the reason, which requires HTTP without TLS
	// strangers are closed first when there are too many connections; nil if each peer is
	// identified at once.
	strangers *strangers
}

// strangers are the connections of a listener whose peers have not been identified yet, the oldest
// first. Closing these first lets masters connect while strangers take all connections: a master
// shows its certificate within a few milliseconds.
type strangers struct {
	mu    sync.Mutex
	conns []*peerConn
}

func (s *strangers) add(c *peerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.strangers = s
	s.conns = append(s.conns, c)
}

func (s *strangers) remove(c *peerConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(o *peerConn) bool { return o == c })
}

// hangUpOldest closes the oldest connection. It returns false if there was none.
func (s *strangers) hangUpOldest() bool {
	s.mu.Lock()
	var oldest *peerConn
	if len(s.conns) > 0 {
		oldest = s.conns[0]
	}
	s.mu.Unlock()
	if oldest == nil {
		return false
	}
	_ = oldest.Close() // Close removes it
	return true
}

// Accept returns connections of type *peerConn.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key, who, err := l.key(c)
		if u, ok := c.(*net.UnixConn); ok {
			c = passed.NewConn(u)
		}
		if err != nil {
			c.Close() // it may be closed already
			continue
		}
		if !l.add(key) {
			l.refuse(c)
			continue
		}
		p := &peerConn{Conn: c, count: l.count, key: key, uid: who.Uid, pid: who.Pid, token: l.token}
		if l.strangers != nil {
			l.strangers.add(p)
		}
		return p, nil
	}
}

// add counts a connection. If there are too many of all peers, it closes strangers' first.
func (l *limited) add(key string) bool {
	for !l.count.add(key) {
		if l.strangers == nil || !l.count.full() || !l.strangers.hangUpOldest() {
			return false
		}
	}
	return true
}

var tooMany = func() []byte {
	body := `{"code":"` + string(api.ResourceExhausted) + `","message":"there are too many connections from you"}` + "\n"
	return []byte("HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}()

// refuse never blocks: its output fits into any socket buffer.
func (l *limited) refuse(c net.Conn) {
	if l.polite {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write(tooMany) // if this fails, the peer sees a closed connection
	}
	c.Close()
}

func userKey(c net.Conn) (string, unix.Ucred, error) {
	cred, err := credentials(c.(*net.UnixConn))
	if err != nil {
		return "", unix.Ucred{}, err
	}
	return "uid " + strconv.FormatUint(uint64(cred.Uid), 10), *cred, nil
}

// addressKey returns the address of the peer without its port; for IPv6, the network that a single
// host can own.
func addressKey(c net.Conn) (string, unix.Ucred, error) {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return c.RemoteAddr().String(), unix.Ucred{}, nil
	}
	if a.IP.To4() == nil {
		return a.IP.Mask(net.CIDRMask(64, 128)).String(), unix.Ucred{}, nil
	}
	return a.IP.String(), unix.Ucred{}, nil
}

// peerConn is a connection of a peer that is counted.
type peerConn struct {
	net.Conn
	count *counter
	key   string
	uid   uint32 // on a Unix socket
	pid   int32  // likewise, the process that has connected
	token *token // on a loopback address
	once  sync.Once

	strangers *strangers // nil, or the list that contains the connection until its peer is identified
}

// known marks the peer as identified.
func (c *peerConn) known() {
	if c.strangers != nil {
		c.strangers.remove(c)
	}
}

// Close closes the connection and reduces the count of its peer.
func (c *peerConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.known()
		c.count.remove(c.key)
	})
	return err
}
