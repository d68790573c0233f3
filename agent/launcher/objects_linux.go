package launcher

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mostObjects is the maximum size of Objects in JSON, in bytes.
const mostObjects = 256 << 20

// PutObjects writes objects of root's configuration to a file in memory, whose descriptor the process that replaces
// this one inherits.
func PutObjects(o *Objects) (fd int, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return -1, err
	}
	if fd, err = memory("objects", text); err != nil {
		return -1, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	return fd, nil
}

// TakeObjects reads what PutObjects has written, and closes the descriptor.
func TakeObjects(fd int) (*Objects, error) {
	defer unix.Close(fd)
	text, err := contentOf(fd, mostObjects)
	if err != nil {
		return nil, fmt.Errorf("cannot read root's configuration from descriptor %d: %w", fd, err)
	}
	o := &Objects{}
	if err := decode(text, o); err != nil {
		return nil, fmt.Errorf("cannot read root's configuration from descriptor %d: %w", fd, err)
	}
	return o, nil
}
