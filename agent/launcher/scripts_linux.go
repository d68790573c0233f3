package launcher

import (
	"errors"
	"fmt"

	"github.com/execd-project/execd/agent/launch"
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

func (s *Server) removeScript(number int) error {
	const none = ""
	defer s.useScript(number, none)()
	used, err := s.has(number)
	if used {
		return nil // its tasks share it
	}
	if err != nil {
		return err
	}
	return s.Spool.RemoveScript(number)
}
