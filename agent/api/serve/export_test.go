package serve

import "net"

// Addresses returns the addresses of the listeners, in the order socket, TLS, loopback.
func (s *Server) Addresses() []net.Addr {
	var list []net.Addr
	for _, l := range s.listeners {
		list = append(list, l.Addr())
	}
	return list
}
