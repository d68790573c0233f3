package guest

import (
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execd-project/execd/test/vm/plan"
)

// insidePackage is the package of the program that runs in a guest and starts the steps.
const insidePackage = "github.com/execd-project/execd/test/vm/inside"

// writeInitramfs writes the root file system of the guest: with systemd Debian's,
// followed by what is the guest's own.
func (m *Machine) writeInitramfs(ctx context.Context, name, release string, k *kernel, steps []Step) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("cannot write the guest's file system: %w", err)
	}
	defer f.Close()
	var links map[string]string
	if m.Systemd {
		userland, err := getUserland(ctx, release)
		if err != nil {
			return err
		}
		if err := appendFile(f, userland); err != nil {
			return err
		}
		links = merged
	}
	a := newArchive(f, links)
	if err := m.fill(ctx, a, filepath.Dir(name), release, k, steps); err != nil {
		return err
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("cannot write the guest's file system: %w", err)
	}
	return f.Close()
}

func appendFile(to io.Writer, name string) error {
	from, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("cannot copy the guest's Debian: %w", err)
	}
	defer from.Close()
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("cannot copy the guest's Debian: %w", err)
	}
	return nil
}

func (m *Machine) fill(ctx context.Context, a *archive, tmp, release string, k *kernel, steps []Step) error {
	if m.Systemd {
		// They are in the archive before.
		for _, dir := range []string{"/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/etc", "/tmp", "/home", "/var", "/root", "/opt", "/srv"} {
			a.dirs[dir] = true
		}
	} else if err := busyboxTree(ctx, a, release); err != nil {
		return err
	}
	parameters := map[string]string{}
	names := m.Modules
	if m.Swap > 0 {
		names = append(slices.Clip(names), swapModule)
		parameters[swapModule] = swapParameters(m.Swap)
	}
	modules, err := k.modules(a, names, parameters)
	if err != nil {
		return err
	}
	p, err := m.plan(steps, modules)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	a.text(plan.Path, 0o644, string(text))

	inside := filepath.Join(tmp, "inside")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", inside, insidePackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build what runs in guests: %w\n%s", err, out)
	}
	a.tree(plan.Inside, inside)
	a.link("/init", plan.Inside)

	for _, to := range slices.Sorted(maps.Keys(m.Files)) {
		a.tree(to, m.Files[to])
	}
	if err := m.libraries(ctx, a); err != nil {
		return err
	}
	for _, s := range p.Steps {
		if !a.dirs[a.resolve(s.Dir)] {
			a.dir(s.Dir, 0o755, owner{})
		}
	}
	return nil
}

// busyboxTree adds a root file system in which busybox is every tool.
func busyboxTree(ctx context.Context, a *archive, release string) error {
	busybox, err := getBusybox(ctx, release)
	if err != nil {
		return err
	}
	for _, dir := range []string{"/dev", "/etc", "/home", "/proc", "/run", "/sys", "/usr", "/usr/bin", "/var"} {
		a.dir(dir, 0o755, owner{})
	}
	a.dir("/tmp", 0o1777, owner{})
	a.dir("/root", 0o700, owner{})
	for _, dir := range []string{"/bin", "/sbin", "/usr/sbin"} {
		a.link(dir, "/usr/bin")
	}
	a.links = map[string]string{"/bin": "/usr/bin", "/sbin": "/usr/bin"}
	a.link("/var/run", "/run")
	a.link("/var/tmp", "/tmp")
	a.tree("/usr/bin/busybox", busybox)
	applets, err := command(ctx, "/", busybox, "--list")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(applets) {
		if name != "busybox" {
			a.link("/usr/bin/"+name, "busybox")
		}
	}
	return nil
}

// libraries copies the shared libraries of executables that are linked with any,
// as one that was built with the race detector is.
func (m *Machine) libraries(ctx context.Context, a *archive) error {
	copied := map[string]bool{}
	for _, program := range m.Files {
		if !isDynamic(program) {
			continue
		}
		out, err := command(ctx, "/", "ldd", program)
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(out) {
			// The guest's Debian is of the same release, and has its own C library.
			if path.IsAbs(word) && !copied[word] && (!m.Systemd || !isCLibrary(word)) {
				copied[word] = true
				a.tree(word, word)
			}
		}
	}
	return nil
}

func isDynamic(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false // no executable, or a folder
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	return err == nil && len(needed) > 0
}

func isCLibrary(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "libc.so") || strings.HasPrefix(base, "libpthread.so") ||
		strings.HasPrefix(base, "libresolv.so") || strings.HasPrefix(base, "libm.so") || strings.HasPrefix(base, "libdl.so")
}
