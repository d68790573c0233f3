package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeAll writes files by their path, with the folders they need.
func writeAll(files map[string]string) error {
	for path, text := range files {
		if err := makeRoom(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("cannot set up the guest: %w", err)
		}
	}
	return nil
}

// linkAll makes symbolic links, by path and target.
func linkAll(links map[string]string) error {
	for path, target := range links {
		if err := makeRoom(path); err != nil {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return fmt.Errorf("cannot set up the guest: %w", err)
		}
	}
	return nil
}

// makeRoom sees to it that a file can be made: what Debian has put there goes, so
// that nothing is written through its links.
func makeRoom(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot set up the guest: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot set up the guest: %w", err)
	}
	return nil
}

// appendTo adds to a file, which is made if it does not exist.
func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("cannot set up the guest: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot set up the guest: %w", err)
	}
	return nil
}
