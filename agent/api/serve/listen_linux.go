package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/host/passed"
)

// listenUnix listens on a socket that all users may connect to. The socket appears under its name
// when it is ready, and replaces one on which no process listens any more.
func (s *Server) listenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, errors.New("another process listens there already")
	} else if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("it exists and is not a socket")
	}
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if len(fresh) > mostOfPath {
		return nil, fmt.Errorf("its path with the process ID appended has %d bytes, expected at most %d (unix(7))", len(fresh), mostOfPath)
	}
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { passed.Refuse(int(fd)) })
	}
	err = os.Chmod(fresh, 0o666) //nolint:forbidigo // no other user can create links in the directory
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		l.Close()
		return nil, errors.Join(err, os.Remove(fresh))
	}
	u := &unixListener{UnixListener: l, path: path}
	if u.file, err = os.Lstat(path); err != nil {
		l.Close()
		return nil, err
	}
	return &limited{Listener: u, count: s.counter(), key: userKey, polite: true}, nil
}

// mostOfPath is the maximum length of a socket's path (unix(7), sun_path without the last NUL).
const mostOfPath = 107

// checkDirectory refuses a directory in which other users could replace the socket.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if owner != 0 && owner != uint32(os.Geteuid()) {
		return fmt.Errorf("the directory %q belongs to user ID %d, expected root", dir, owner)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("the directory %q has mode %#o: other users could replace the socket; expected 0755", dir, mode)
	}
	return nil
}

// unixListener knows its name in the file system.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// Addr returns the name under which the socket is found.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close removes the socket, unless another process has replaced it.
func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	if info, e := os.Lstat(l.path); e == nil && os.SameFile(info, l.file) {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

// credentials returns the credentials of the connected process, as they were when it connected.
func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var e error
	err = raw.Control(func(fd uintptr) { cred, e = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, e)
}

func (s *Server) listenTLS(o *TLS) (net.Listener, error) {
	if len(o.Masters) == 0 {
		return nil, errors.New("no names of masters are given: the agent would refuse every master")
	}
	s.masters = set(o.Masters)
	files, err := certfile.Open(o.Files, s.options.Notify)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			m := files.Current()
			conn, _ := hello.Conn.(*peerConn)
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.Certificate},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.Authorities,
				// Session tickets are off: the session of a ticket may have been verified with
				// authorities that have been removed since.
				SessionTicketsDisabled: true,
				VerifyConnection: func(state tls.ConnectionState) error {
					// Peers without a valid certificate get an answer, but still count as
					// strangers.
					if _, err := s.master(&state); err == nil && conn != nil {
						conn.known()
					}
					return nil
				},
			}, nil
		},
	}
	return tls.NewListener(&limited{Listener: l, count: s.counter(), key: addressKey, strangers: &strangers{}}, config), nil
}

func (s *Server) listenLoopback(o *Loopback) (net.Listener, error) {
	token, err := openToken(o.TokenFile)
	if err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	// A name may resolve differently the next time. So it is resolved here, and net.Listen gets the
	// checked address.
	if !address.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is not a loopback address: without certificates, expected one such as 127.0.0.1 or ::1", address)
	}
	l, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, err
	}
	return &limited{Listener: l, count: s.counter(), key: addressKey, token: token, polite: true}, nil
}
