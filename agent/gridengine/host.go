package gridengine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
)

// OwnName returns the name of this host as it is announced to qmaster: the first name of its
// address, mapped by host_aliases(5). If the address has no name, it is the output of hostname.
func (c *Cell) OwnName(ctx context.Context) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	addresses, err := addressesOf(ctx, host)
	if err != nil {
		return "", fmt.Errorf("cannot find the address of this host, %q: %w; enter it in /etc/hosts, or name the host with --host", host, err)
	}
	for _, a := range addresses {
		if a.IsLoopback() {
			continue
		}
		if names, err := net.DefaultResolver.LookupAddr(ctx, a.String()); err == nil && len(names) > 0 {
			return c.Names.Canonical(names[0]), nil
		}
		return c.Names.Canonical(host), nil
	}
	return "", fmt.Errorf("the name of this host, %q, has only loopback addresses: Grid Engine needs an address that other hosts can reach; change /etc/hosts, or name the host with --host", host)
}

func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list, err
}

// addressesOfAll returns the addresses of a host under all of its names.
func (c *Cell) addressesOfAll(ctx context.Context, host string) []netip.Addr {
	var all []netip.Addr
	for _, name := range append([]string{host}, c.Names.aliasesOf(host)...) {
		if list, err := addressesOf(ctx, name); err == nil {
			all = append(all, list...)
		}
	}
	return all
}

// aliasesOf returns the aliases of a main name.
func (n *Names) aliasesOf(main string) []string {
	var list []string
	for alias, m := range n.aliases {
		if m == main && alias != main {
			list = append(list, alias)
		}
	}
	slices.Sort(list)
	return list
}

// comesFrom reports whether an address is one of a host.
func (c *Cell) comesFrom(ctx context.Context, address net.Addr, host string) bool {
	ip, ok := ipOf(address)
	return ok && slices.Contains(c.addressesOfAll(ctx, host), ip)
}

// ipOf returns the address of a host without the port.
func ipOf(address net.Addr) (netip.Addr, bool) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	ip, ok := netip.AddrFromSlice(tcp.IP)
	return ip.Unmap(), ok
}
