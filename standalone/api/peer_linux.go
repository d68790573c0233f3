package api

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user ID of the process that listened on a socket when the connection was made.
func peer(conn net.Conn) (uid int, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is no connection of a Unix socket", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var e error
	err = raw.Control(func(fd uintptr) { cred, e = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, e); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
