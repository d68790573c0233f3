package guest

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/test/vm/plan"
)

// kernel is Debian's kernel for cloud machines: a fifth of the generic one, since
// it has no drivers for hardware.
type kernel struct{ dir string }

func getKernel(ctx context.Context, release string) (*kernel, error) {
	dir, err := cached("kernel-"+release, func(dir string) error {
		return unpack(ctx, dir, "linux-image-cloud-amd64", "linux-image-")
	})
	return &kernel{dir}, err
}

func (k *kernel) image() (string, error) {
	files, err := filepath.Glob(filepath.Join(k.dir, "boot/vmlinuz-*"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("cannot find the kernel in %q: there are %d; remove the folder to have it made again", k.dir, len(files))
	}
	return files[0], nil
}

// modules puts kernel modules into an archive, each after those that it needs, and
// returns them in this order.
func (k *kernel) modules(a *archive, names []string, parameters map[string]string) ([]plan.Module, error) {
	if len(names) == 0 {
		return nil, nil
	}
	paths := map[string]string{}
	err := filepath.WalkDir(filepath.Join(k.dir, "lib/modules"), func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			paths[moduleName(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look for kernel modules: %w", err)
	}
	var order []string
	var add func(name string) error
	add = func(name string) error {
		name = moduleName(name)
		if slices.Contains(order, name) {
			return nil
		}
		path, ok := paths[name]
		if !ok {
			return fmt.Errorf("cannot find the kernel module %q in %q", name, k.dir)
		}
		needs, err := moduleNeeds(path)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		order = append(order, name)
		a.tree(plan.Dir+"/modules/"+name+".ko", path)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	var modules []plan.Module
	for _, name := range order {
		modules = append(modules, plan.Module{Path: plan.Dir + "/modules/" + name + ".ko", Parameters: parameters[name]})
	}
	return modules, nil
}

// moduleName returns a module's name in the one of two spellings that the kernel uses.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// moduleNeeds reads which modules one depends on out of the module itself: the
// list for all of them is only made when a kernel is installed.
func moduleNeeds(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read a kernel module: %w", err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("cannot read the kernel module %q: it has no .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kernel module %q: %w", path, err)
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// swapModule makes a RAM disk, of which the guest makes swap space.
const swapModule = "brd"

func swapParameters(mib int) string {
	return "rd_nr=1 rd_size=" + strconv.Itoa(mib<<10)
}

// getBusybox fetches the shell and the tools of a guest without Debian.
func getBusybox(ctx context.Context, release string) (string, error) {
	dir, err := cached("busybox-"+release, func(dir string) error {
		return unpack(ctx, dir, "busybox-static", "")
	})
	if err != nil {
		return "", err
	}
	for _, path := range []string{"bin/busybox", "usr/bin/busybox"} { // Debian 12, 13
		path = filepath.Join(dir, path)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find busybox in %q", dir)
}
