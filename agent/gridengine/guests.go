package gridengine

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxAccepted is the maximum number of connections that other hosts have opened.
const maxAccepted = 128

// guests are the connections that others have opened, in the order of their coming.
type guests struct {
	mu   sync.Mutex
	list []guest
}

type guest struct {
	net.Conn
	ip   netip.Addr
	from netip.Prefix // a host with ip may have all addresses of it
}

func newGuest(nc net.Conn) guest {
	const network = 64 // bits: the smallest IPv6 network of a host
	g := guest{Conn: nc}
	g.ip, _ = ipOf(nc.RemoteAddr())
	bits := g.ip.BitLen()
	if g.ip.Is6() {
		bits = network
	}
	g.from, _ = g.ip.WithZone("").Prefix(bits) // zero without an address
	return g
}

// full reports whether the next connection replaces another one.
func (g *guests) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list) >= maxAccepted
}

// add adds a connection, and replaces another one if there are too many: connections of qrsh
// -inherit are short. The peer with the most connections loses its oldest one, so that no peer can
// displace others. Connections from addresses in spared are only replaced if there are no others.
func (g *guests) add(nc net.Conn, spared []netip.Addr) (instead net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if next := newGuest(nc); len(g.list) < maxAccepted {
		g.list = append(g.list, next)
	} else {
		at := g.least(next, spared)
		instead = g.list[at].Conn
		g.list = append(slices.Delete(g.list, at, at+1), next)
	}
	return instead
}

// least returns the index of the connection to replace by next. The caller holds mu.
func (g *guests) least(next guest, spared []netip.Addr) int {
	count := map[netip.Prefix]int{next.from: 1}
	for _, c := range g.list {
		count[c.from]++
	}
	at, most := 0, 0
	for i, c := range g.list {
		if n := count[c.from]; n > most && !slices.Contains(spared, c.ip) {
			at, most = i, n
		}
	}
	return at
}

// remove removes a connection that has ended, or that belongs to sge_qmaster.
func (g *guests) remove(nc net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(g.list, func(c guest) bool { return c.Conn == nc })
}

// spared are the addresses of the host of act_qmaster as they were found last.
type spared struct {
	host      string
	at        time.Time
	addresses []netip.Addr
}

// masterAddresses returns the addresses of the host of act_qmaster. They are looked up rarely,
// because new connections wait for the lookup.
func (s *session) masterAddresses(now time.Time) []netip.Addr {
	const fresh, patience = time.Minute, 2 * time.Second
	host, err := s.options.Cell.Master()
	if err != nil || host == s.spared.host && now.Sub(s.spared.at) < fresh {
		return s.spared.addresses
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	found := s.options.Cell.addressesOfAll(ctx, host)
	if len(found) == 0 && host == s.spared.host {
		found = s.spared.addresses // the lookup failed
	}
	s.spared = spared{host, now, found}
	return found
}
