package gridengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// clientID gives a client that wants one an id of its own.
func (s *session) clientID() int { return int(s.clients.Add(1)) }

// client serves a connection of qrsh -inherit or qping.
func (s *session) client(conn *commlib.Conn) {
	defer conn.Abort()
	for {
		m, err := conn.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.log.Debug("a connection was closed", "endpoint", conn.Peer.String(), "error", err)
			}
			return
		}
		codec := s.codecOfTask(m)
		if tag, _ := codec.Tag(m.Tag); tag != message.TagJobExecution || conn.Peer.Component != commlib.ExecdHandle {
			s.log.Debug("an unknown message", "tag", m.Tag, "from", conn.Peer.String())
			continue
		}
		id, err := s.startTask(codec, m.Payload)
		if err != nil {
			s.complain("a task was not started", "from", conn.Peer.String(), "error", err)
			id = message.TaskRefused
		}
		answer, err := s.sign(codec, codec.EncodeTaskID(id))
		if err != nil {
			s.complain("a request for a task was not answered", "from", conn.Peer.String(), "error", err)
			return
		}
		if _, err := conn.Send(m.Tag, 0, answer); err != nil {
			return
		}
	}
}

// taskPatience is how long a request for a task waits until the release of sge_qmaster is known: for
// all forms to be tried twice.
const taskPatience = time.Minute

// codecOfTask returns the codec of a request for a task. After the start of the agent the release of
// sge_qmaster may be another than the expected one. A request that is not in the expected form then waits
// until the release is known.
func (s *session) codecOfTask(m *commlib.Message) *message.Codec {
	codec := s.codec()
	if tag, _ := codec.Tag(m.Tag); tag == message.TagJobExecution {
		if _, err := codec.DecodeTaskRequest(m.Payload); err == nil {
			return codec
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, taskPatience)
	defer cancel()
	select {
	case <-s.identified:
	case <-ctx.Done():
	}
	return s.codec()
}

// startTask starts a task of a parallel job, and returns its id.
func (s *session) startTask(codec *message.Codec, payload []byte) (string, error) {
	r, err := codec.DecodeTaskRequest(payload)
	if err != nil {
		return "", err
	}
	if err := s.checkOwner(payload, r.Owner); err != nil {
		return "", err
	}
	// The number of a task is 1 also for a job that is not an array job.
	found := make(chan job.ID, 1)
	if !s.do(func() {
		id := job.ID{Job: int(r.Job), Task: int(r.Task)}
		if j := s.jobs[key{r.Job, r.Task, ""}]; j != nil && !j.ghost {
			id = j.id
		}
		found <- id
	}) {
		return "", errors.New("the daemon is stopping")
	}
	around := s.surroundings()
	t := &agent.TaskStart{
		Owner: r.Owner, Dir: translatePath(r.Cwd, r.PathAliases, "", around),
		Key: fmt.Sprintf("%d.%d.%d.%d", r.Job, r.Task, time.Now().UnixNano(), s.clients.Add(1)),
	}
	for _, v := range r.Environment {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\n") {
			return "", fmt.Errorf("%q is not a name of an environment variable", v.Name)
		}
		if !strings.HasPrefix(v.Name, submitPrefix) {
			t.Env = append(t.Env, v.Name+"="+v.Value)
		}
	}
	name, value, err := around.security.certificateVariable(r.Certificate)
	if err != nil {
		return "", err
	}
	if name != "" {
		t.Env = append(t.Env, name+"="+value)
	}
	t.Command = interactive.Command(around.execd, around.host, around.shellOf(r.Owner), false, false)
	select {
	case t.Job = <-found:
	case <-s.ctx.Done():
		return "", s.ctx.Err()
	}
	report, err := s.commands.StartTask(s.ctx, t)
	return report.ID.PETask, err
}
