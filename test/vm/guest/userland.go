package guest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// The packages of a guest's Debian. The name of the folder in the cache depends on it, so a change
// here makes a new one.
var (
	userlandPackages = []string{
		"systemd", "systemd-sysv", "dbus", "bash", "procps", "iproute2", "util-linux", "passwd",
	}
	// What a guest never needs, and every boot would unpack: patterns of path.Match,
	// for a file or a folder that it is in.
	userlandWithout = []string{
		"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian",
		"usr/share/zoneinfo", "usr/share/bash-completion", "usr/share/zsh", "usr/share/perl*", "usr/share/initramfs-tools",
		"usr/lib/x86_64-linux-gnu/perl*", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/libapt*",
		"usr/lib/apt", "usr/lib/dpkg", "usr/lib/udev", "usr/lib/kernel",
		"usr/bin/perl*", "usr/bin/apt*", "usr/bin/dpkg*",
		"usr/sbin/mke2fs", "usr/sbin/mkfs*", "usr/sbin/fsck.ext*", "usr/sbin/e2*", "usr/sbin/debugfs",
		"usr/sbin/resize2fs", "usr/sbin/tune2fs",
		"var/lib/dpkg", "var/lib/apt", "var/cache/*", "var/log/*",
		"etc/apt", "etc/dpkg", "etc/perl", "etc/cron*", "etc/rc?.d", "etc/init.d", "etc/fstab", "etc/resolv.conf",
		"etc/systemd/system/*.wants",
		// They look for disks, consoles and init scripts: a process each at every boot.
		"usr/lib/systemd/system-generators", "usr/lib/systemd/user-generators",
		"dev/*", "proc/*", "sys/*", "run/*", "tmp/*",
	}
)

// merged are the links of a merged /usr, as Debian has it.
var merged = map[string]string{"/bin": "/usr/bin", "/sbin": "/usr/sbin", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}

// getUserland makes a minimal Debian of the host's release, as a cpio archive.
func getUserland(ctx context.Context, release string) (string, error) {
	recipe := crc32.ChecksumIEEE(fmt.Append(nil, userlandPackages, userlandWithout))
	dir, err := cached(fmt.Sprintf("systemd-%s-%08x", release, recipe), func(dir string) error {
		return makeUserland(ctx, release, dir)
	})
	return filepath.Join(dir, "cpio"), err
}

func makeUserland(ctx context.Context, release, dir string) error {
	mmdebstrap, err := need("mmdebstrap", "mmdebstrap")
	if err != nil {
		return err
	}
	sources, err := packageSources()
	if err != nil {
		return err
	}
	options, err := aptOptions(ctx, dir)
	if err != nil {
		return err
	}
	defer os.Remove(options)
	cmd := exec.CommandContext(ctx, mmdebstrap, "--quiet", "--variant=minbase", "--format=tar",
		"--include="+strings.Join(userlandPackages, ","), "--aptopt="+options, release, "-", sources)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot make a Debian for guests: %w", err)
	}
	err = convert(out, filepath.Join(dir, "cpio"))
	_, _ = io.Copy(io.Discard, out)
	if waitErr := cmd.Wait(); waitErr != nil {
		hint := ""
		if os.Geteuid() != 0 {
			hint = " (not being root, mmdebstrap needs user namespaces and a range in /etc/subuid)"
		}
		return fmt.Errorf("cannot make a Debian for guests%s: %w\n%s", hint, waitErr, strings.TrimSpace(errs.String()))
	}
	return err
}

// packageSources returns the path of the host's list of package sources.
func packageSources() (string, error) {
	for _, name := range []string{"/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return name, nil
		}
	}
	return "", errors.New("cannot tell where Debian packages are: neither /etc/apt/sources.list.d/debian.sources nor /etc/apt/sources.list says it")
}

// aptOptions writes the host's settings for package downloads: its proxies, and whether it accepts
// an outdated archive.
func aptOptions(ctx context.Context, dir string) (string, error) {
	out, err := command(ctx, dir, "apt-config", "dump", "--no-empty", "Acquire")
	if err != nil {
		return "", err
	}
	var kept strings.Builder
	for line := range strings.Lines(out) {
		for _, name := range []string{"Check-Valid-Until ", "Check-Date ", "Retries ", "http::Proxy ", "https::Proxy "} {
			if strings.HasPrefix(line, "Acquire::"+name) {
				kept.WriteString(line)
			}
		}
	}
	name := filepath.Join(dir, "apt.conf")
	return name, os.WriteFile(name, []byte(kept.String()), 0o644)
}

// convert makes a cpio archive of a tar archive, without what guests do not need.
func convert(from io.Reader, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	a := newArchive(f, nil)
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("cannot read the new Debian: %w", err)
		}
		name := path.Clean("/" + h.Name)
		if name == "/" || unwanted(name[1:]) {
			continue
		}
		perm, o := uint32(h.Mode&0o7777), owner{h.Uid, h.Gid}
		switch h.Typeflag {
		case tar.TypeDir:
			a.dir(name, perm, o)
		case tar.TypeSymlink:
			a.link(name, h.Linkname)
		case tar.TypeLink: // the same for all that guests do with it
			a.link(name, path.Clean("/"+h.Linkname))
		case tar.TypeReg:
			a.file(name, perm, o, h.Size, r)
		default: // devices, which devtmpfs has
		}
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("cannot write the new Debian: %w", err)
	}
	// The next archive begins at a multiple of four.
	_, err = f.Write(make([]byte, -a.size&3))
	return errors.Join(err, f.Close())
}

func unwanted(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		for _, pattern := range userlandWithout {
			if ok, err := path.Match(pattern, name); ok || err != nil {
				return true
			}
		}
	}
	return false
}
