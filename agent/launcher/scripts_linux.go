package launcher

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// scriptUse is the use of a script by orders that are being carried out.
type scriptUse struct {
	script string
	orders int
	free   chan struct{} // closed at the end of the use
}

// useScript waits until no order uses another script of a job with this number, because all have the same file: a job
// whose directory is not there yet would get another script than the checked one. Call done at the end.
func (s *Server) useScript(number int, script string) (done func()) {
	for {
		s.mu.Lock()
		u := s.scripts[number]
		if u == nil {
			u = &scriptUse{script: script, free: make(chan struct{})}
			if s.scripts == nil {
				s.scripts = map[int]*scriptUse{}
			}
			s.scripts[number] = u
		}
		if u.script == script {
			u.orders++
			s.mu.Unlock()
			return func() { s.leaveScript(number, u) }
		}
		s.mu.Unlock()
		<-u.free
	}
}

func (s *Server) leaveScript(number int, u *scriptUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.orders--; u.orders == 0 {
		delete(s.scripts, number)
		close(u.free)
	}
}

// storeScript writes a script. It replaces a different one only if no task of the job is left.
func (s *Server) storeScript(number int, script []byte, p *launch.Plan) error {
	_, err := s.Spool.WriteScript(number, script, p.UID, p.GID)
	if !errors.Is(err, jobdir.ErrExists) {
		return err
	}
	same, err := s.Spool.HasScript(number, script, p.UID)
	if same || err != nil {
		return err
	}
	used, err := s.has(number)
	if err != nil {
		return err
	}
	if used {
		return &refusal{fmt.Errorf("cannot replace the script of job %d: this host has one of its tasks", number)}
	}
	return launch.ReplaceScript(s.Spool, number, script, p.UID, p.GID)
}

// removeUnused removes the script of a job if no task of the job has a directory, as far as the launcher remembers.
func (s *Server) removeUnused(number int) (bool, error) {
	if s.directories.mayHave(number) {
		return false, nil
	}
	return s.removeScript(number)
}

// removeScript removes the script of a job. It is false if a task of the job shares it.
func (s *Server) removeScript(number int) (bool, error) {
	const none = ""
	defer s.useScript(number, none)()
	used, err := s.has(number)
	if used || err != nil {
		return false, err
	}
	return true, s.Spool.RemoveScript(number)
}

// has reports whether a task of a job has a directory.
func (s *Server) has(number int) (bool, error) {
	return s.directories.has(number, s.Spool.Jobs)
}

// directories are the directories of jobs on the disk. Only the launcher makes and removes any, so it lists them once: with
// thousands of jobs that takes longer than the removal of a job.
type directories struct {
	mu     sync.Mutex
	listed bool
	of     map[int]map[job.ID]bool // by the number of the job; some of them may be gone
}

// made notes that a directory may exist from now on. The caller uses the script of the job: see useScript.
func (d *directories) made(id job.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(id)
}

func (d *directories) add(id job.ID) {
	id.PETask = "" // it is in the directory of its job
	if d.of == nil {
		d.of = map[int]map[job.ID]bool{}
	}
	if d.of[id.Job] == nil {
		d.of[id.Job] = map[job.ID]bool{}
	}
	d.of[id.Job][id] = true
}

// removed notes that a directory does not exist any more.
func (d *directories) removed(id job.ID) {
	if id.PETask != "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.of[id.Job], id); len(d.of[id.Job]) == 0 {
		delete(d.of, id.Job)
	}
}

// mayHave reports whether a job has a directory, or has had one whose removal was not seen.
func (d *directories) mayHave(number int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.of[number]) > 0
}

// has reports whether a job has a directory. Only if it may have one, list is called.
func (d *directories) has(number int, list func() ([]job.ID, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listed && len(d.of[number]) == 0 {
		return false, nil
	}
	ids, err := list()
	if err != nil {
		return false, err
	}
	has := false
	for _, id := range ids {
		has = has || id.Job == number
		if !d.listed {
			d.add(id)
		}
	}
	d.listed = true
	if !has {
		delete(d.of, number)
	}
	return has, nil
}

// noteRemoved notes that a directory does not exist any more, if that is so. The caller has the lock on the job.
func (s *Server) noteRemoved(id job.ID) {
	var st unix.Stat_t
	if err := unix.Lstat(jobdir.Area(s.Spool.Path()).JobPath(key(id)), &st); errors.Is(err, unix.ENOENT) {
		s.directories.removed(key(id))
	}
}
