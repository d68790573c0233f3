package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/vm/plan"
)

func loadModules(modules []plan.Module) error {
	for _, m := range modules {
		f, err := os.Open(m.Path)
		if err != nil {
			return fmt.Errorf("cannot load a kernel module: %w", err)
		}
		err = unix.FinitModule(int(f.Fd()), m.Parameters, 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot load the kernel module %q: %w", m.Path, err)
		}
	}
	return nil
}

// ramDisk is made by the module brd, whose parameters say how large it is.
const ramDisk = "/dev/ram0"

// addSwap makes the RAM disk swap space.
func addSwap(mib int) error {
	if mib == 0 {
		return nil
	}
	const page = 4096
	header := make([]byte, page)
	// union swap_header of linux/swap.h
	binary.NativeEndian.PutUint32(header[1024:], 1)
	binary.NativeEndian.PutUint32(header[1028:], uint32(mib<<20/page-1)) // the last page
	copy(header[page-10:], "SWAPSPACE2")
	f, err := os.OpenFile(ramDisk, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot make swap space: %w", err)
	}
	_, err = f.Write(header)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot make swap space: %w", err)
	}
	path := append([]byte(ramDisk), 0)
	if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(&path[0])), 0, 0); errno != 0 {
		return fmt.Errorf("cannot use %s as swap space: %w", ramDisk, errno)
	}
	return nil
}
