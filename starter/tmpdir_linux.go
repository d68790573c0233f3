package starter

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// checkTmpdir checks the TMPDIR that a real execd has made. A real execd accepts whatever exists
// under that name, which anyone can predict: a directory of another user, with files planted in it
// that programs would find first, or a link to a directory that it would delete after the job. If
// the directory cannot be trusted, the job gets a new one.
func (s *Shepherd) checkTmpdir() {
	if !s.privileged || s.d.Tmpdir == "" || s.d.ID.PETask != "" || s.failed != 0 {
		return
	}
	if ours, err := s.dir.Exists(jobdir.FileTmpdir); err == nil && ours {
		return
	}
	err := asRoot(func() error {
		problem := s.tmpdirProblem()
		if problem == "" {
			return nil
		}
		s.trace("TMPDIR " + s.d.Tmpdir + " cannot be trusted: " + problem)
		t, err := jobdir.MakeTmpdir(s.d.QueueTmpdir, jobdir.TmpdirName(s.d.ID, s.d.Queue), int(s.owner.UID), int(s.owner.GID))
		if err != nil {
			return err
		}
		s.moveTmpdir(t)
		return nil
	})
	if err != nil {
		s.fail(job.FailedBeforeProlog, "no TMPDIR for the job: "+err.Error())
	}
}

// tmpdirProblem describes the error of the TMPDIR, or returns "". It removes a link in its place,
// so that a real execd does not follow it after the job.
func (s *Shepherd) tmpdirProblem() string {
	fd, err := unix.Open(s.d.Tmpdir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		if err := unix.Unlink(s.d.Tmpdir); err != nil {
			return "it is not a directory, and cannot be removed: " + err.Error()
		}
		return "it was a link or a file; removed"
	}
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err.Error()
	}
	switch {
	case st.Uid != s.owner.UID:
		return "it belongs to user ID " + itoa(int(st.Uid))
	case st.Mode&0o022 != 0:
		return "other users may write to it"
	}
	if name, err := oslite.FirstName(fd); err == nil && name != "" {
		return "it was not empty before the job: it contains " + name
	}
	return ""
}

// moveTmpdir makes the job use another TMPDIR than the one in its description.
func (s *Shepherd) moveTmpdir(t jobdir.Tmpdir) {
	s.tmpdir = &t
	s.jobEnv.set("TMPDIR", t.Path)
	s.jobEnv.set("TMP", t.Path)
	if rest, ok := strings.CutPrefix(s.jobEnv.get("PATH"), s.d.Tmpdir+":"); ok {
		s.jobEnv.set("PATH", t.Path+":"+rest)
	}
	s.trace("the job has TMPDIR " + t.Path + " instead")
}

// removeTmpdir removes a TMPDIR that the supervisor has made. The daemon removes that of the
// description.
func (s *Shepherd) removeTmpdir() {
	if s.tmpdir == nil {
		return
	}
	err := asRoot(func() error {
		return jobdir.RemoveTmpdir(*s.tmpdir, jobdir.RemoveOptions{UID: int(s.owner.UID), GID: int(s.owner.GID)})
	})
	if err != nil {
		s.trace(err.Error())
	}
}

// asRoot calls f with root's rights on files. Otherwise the thread has those of the admin user.
func asRoot(f func() error) error {
	uid, err := unix.SetfsuidRetUid(0)
	if err != nil {
		return err
	}
	gid, err := unix.SetfsgidRetGid(0)
	if err != nil {
		return err
	}
	err = f()
	if e := unix.Setfsgid(gid); err == nil {
		err = e
	}
	if e := unix.Setfsuid(uid); err == nil {
		err = e
	}
	return err
}
