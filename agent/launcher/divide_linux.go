package launcher

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/submission"
)

// Entry is the digest of a user's submission under a key.
type Entry struct {
	UID         uint32
	Key, Digest string
}

// AddAll records submissions as Add does, with one wait for the disk.
func (s *Submissions) AddAll(list []Entry) error {
	for _, e := range list {
		if !submission.ValidKey(e.Key) || !submission.ValidDigest(e.Digest) {
			return errClaim
		}
		if err := s.add(e.UID, entryName(e.UID, e.Key), e.Digest, 0); err != nil {
			return fmt.Errorf("submission %s of user ID %d: %w", e.Key, e.UID, err)
		}
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}
