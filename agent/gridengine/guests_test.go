package gridengine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
)

// peer is a connection of which nothing but its other end counts.
type peer struct {
	net.Conn
	ip string
}

func (p *peer) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(p.ip), Port: 4711}
}

// TestTooManyConnectionsCloseThoseOfBusiestHost checks that, with too many connections, the host that
// has the most loses one, and that connections of sge_qmaster's host stay.
func TestTooManyConnectionsCloseThoseOfBusiestHost(t *testing.T) {
	const master, busy, quiet = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	spared := []netip.Addr{netip.MustParseAddr(master)}
	from := func(n int, ip string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = ip
		}
		return list
	}
	for name, c := range map[string]struct {
		first []string // the rest are of busy
		next  string
		want  int
	}{
		"one peer pushes out himself":             {[]string{quiet, master}, busy, 2},
		"also for others":                         {[]string{quiet, master}, quiet, 2},
		"and for qmaster":                         {[]string{quiet, master}, master, 2},
		"of two with as many the one who comes":   {from(maxAccepted/2, quiet), busy, maxAccepted / 2},
		"qmaster has the most":                    {append(from(maxAccepted-1, master), quiet), quiet, maxAccepted - 1},
		"there are none but those of its host":    {from(maxAccepted, master), quiet, 0},
		"a network of IPv6 is one peer":           {append(from(maxAccepted-3, quiet), "2001:db8::1", "2001:db8::2"), "2001:db8::3", 0},
		"who has the most, in a network or alone": {append(from(maxAccepted/2-1, quiet), from(maxAccepted/2, "2001:db8::1")...), "2001:db8::2", maxAccepted/2 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			var g guests
			all := make([]*peer, maxAccepted)
			for i := range all {
				all[i] = &peer{ip: busy}
				if i < len(c.first) {
					all[i].ip = c.first[i]
				}
				if instead := g.add(all[i], spared); instead != nil || g.full() != (i == maxAccepted-1) {
					t.Fatalf("there is no room for the %dth", i)
				}
			}
			next := &peer{ip: c.next}
			if instead := g.add(next, spared); instead != all[c.want] {
				t.Errorf("the wrong one goes, %+v", instead)
			}
			for _, p := range append(all, next) {
				g.remove(p)
			}
			if len(g.list) != 0 {
				t.Errorf("%d are left", len(g.list))
			}
		})
	}
}

// TestClosedConnectionEndsNameLookup checks that the lookup of a client's name ends when its
// connection is closed in favour of another one. Otherwise a client with many connections could
// cause many lookups at a time.
func TestClosedConnectionEndsNameLookup(t *testing.T) {
	canceled := make(chan struct{}, 1)
	former := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = former }) // when the link has ended
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // the server does not answer
		if errors.Is(ctx.Err(), context.Canceled) {
			select {
			case canceled <- struct{}{}:
			default:
			}
		}
		return nil, ctx.Err()
	}}
	w := registered(t)
	end := time.After(patience)
	for i := 0; ; i++ {
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.cell.ExecdPort))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		request := commlib.ConnectRequest{
			Format: commlib.Binary, Type: commlib.ConnectMessages, To: commlib.Endpoint{Host: "localhost", Component: commlib.Execd, ID: 1},
			From: commlib.Endpoint{Host: fmt.Sprintf("host%d.invalid", i), Component: commlib.Qping},
		}
		if _, err := nc.Write(commlib.AppendConnectRequest(nil, &request)); err != nil {
			t.Fatal(err)
		}
		if i < maxAccepted {
			continue
		}
		select {
		case <-canceled:
			return
		case <-end:
			t.Fatal("all are looked up")
		default:
		}
	}
}
