package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cached returns a directory of the cache. If it does not exist, fill creates its content. If
// several processes call it at once, one of them fills the directory.
func cached(name string, fill func(dir string) error) (string, error) {
	top, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the cache of guests: %w", err)
	}
	top = filepath.Join(top, "execd-vm")
	dir := filepath.Join(top, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(top, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the cache of guests: %w", err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", fmt.Errorf("cannot lock the cache of guests: %w", err)
	}
	defer lock.Close() // which unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("cannot lock the cache of guests: %w", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err // another process has created it meanwhile
	}
	// Under another name until it is complete; remains of an interrupted attempt are removed.
	unfinished := dir + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o755)); err != nil {
		return "", fmt.Errorf("cannot make the cache of guests: %w", err)
	}
	if err := fill(unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return "", fmt.Errorf("cannot fill the cache of guests: %w", err)
	}
	return dir, nil
}

// debian returns the release of the host, by its code name.
func debian() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("cannot tell the release of Debian: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = strings.Trim(value, `"`)
	}
	if values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return "", errors.New("cannot tell the release of Debian: this host has another system, and guests are made of the host's packages")
	}
	return values["VERSION_CODENAME"], nil
}

// unpack downloads a Debian package and unpacks it into a directory, without installing it. For a
// metapackage, depends is the beginning of the name of the real package.
func unpack(ctx context.Context, dir, pkg, depends string) error {
	err := tryUnpack(ctx, dir, pkg, depends)
	if err == nil || os.Geteuid() != 0 {
		return err
	}
	// The package lists may be missing, or older than the archive.
	if _, err := command(ctx, dir, "apt-get", "-q", "update"); err != nil {
		return err
	}
	return tryUnpack(ctx, dir, pkg, depends)
}

func tryUnpack(ctx context.Context, dir, pkg, depends string) error {
	if depends != "" {
		out, err := command(ctx, dir, "apt-cache", "depends", pkg)
		if err != nil {
			return err
		}
		meant := ""
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(name, depends) {
				meant = name
			}
		}
		if meant == "" {
			return fmt.Errorf("cannot find what the Debian package %s stands for: apt-get update may be needed", pkg)
		}
		pkg = meant
	}
	if _, err := command(ctx, dir, "apt-get", "-q", "download", pkg); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("cannot find what apt-get has downloaded for %s: there are %d files of that name", pkg, len(files))
	}
	if _, err := command(ctx, dir, "dpkg-deb", "-x", files[0], dir); err != nil {
		return err
	}
	return os.Remove(files[0])
}

// command runs a program in a directory, and returns its output. The error contains the output.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cannot run %q: %w\n%s", cmd, err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
