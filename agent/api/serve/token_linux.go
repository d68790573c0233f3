package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// minToken is the minimum length of a token: a random one of this length cannot be guessed.
const minToken = 32

// token is the content of a token file.
type token struct {
	path string
	mu   sync.Mutex
	file os.FileInfo // as it was read
	hash [sha256.Size]byte
}

func openToken(path string) (*token, error) {
	if path == "" {
		return nil, errors.New("without certificates a token file is needed: every user of this host can connect to a loopback address")
	}
	t := &token{path: path}
	return t, t.read()
}

// read reads the file if it has changed since it was read last.
func (t *token) read() error {
	f, err := os.OpenFile(t.path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("cannot read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if old := t.file; old != nil && os.SameFile(old, info) && old.ModTime().Equal(info.ModTime()) && old.Size() == info.Size() && old.Mode() == info.Mode() {
		return nil
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("the token file %q is not a regular file", t.path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the token file %q has mode %#o, expected 0600", t.path, info.Mode().Perm())
	case owner != 0 && owner != uint32(os.Geteuid()):
		return fmt.Errorf("the token file %q belongs to user ID %d, expected root", t.path, owner)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return fmt.Errorf("cannot read the token: %w", err)
	}
	word := strings.TrimSpace(string(text))
	if len(word) < minToken || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("the token file %q has no token, expected one line of at least %d characters without blanks", t.path, minToken)
	}
	t.file, t.hash = info, sha256.Sum256([]byte(word))
	return nil
}

// matches compares a word with the current token in the file. It compares hashes, so that the time
// does not depend on the word.
func (t *token) matches(word string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.read(); err != nil {
		return false, err
	}
	hash := sha256.Sum256([]byte(word))
	return subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1, nil
}
