package launcher

import (
	"context"
	"fmt"
	"sync"

	"github.com/execd-project/execd/job"
)

// turns limit the orders that are carried out at the same time.
type turns struct {
	orders, waits, verifies, mails chan struct{}
	bytes                          *budget
	ends                           endTurns
}

// Limits of orders that end processes or remove directories. These may take a minute (jobdir.RemoveOptions), because the owner
// of the job decides how much there is to remove. mostEndsEach is how many such orders about jobs of one owner are carried out
// at the same time, so that no user delays the jobs of the others.
const (
	mostEnds     = 32
	mostEndsEach = 8
)

// isEnd reports whether orders of a kind have the limits mostEnds and mostEndsEach.
func isEnd(k kind) bool { return k == kindRemove || k == kindDiscard || k == kindCollect }

// endTurns are the turns of orders that end processes or remove directories, and of outcomes that are determined at the end of
// a wait.
type endTurns struct {
	all    chan struct{}
	owners owners
}

// turn waits for a turn of an owner. Call done at its end, unless ok is false: the context has ended.
func (e *endTurns) turn(ctx context.Context, owner string) (done func(), ok bool) {
	leave, ok := e.owners.take(ctx, owner)
	if !ok {
		return nil, false
	}
	select {
	case e.all <- struct{}{}:
		return func() {
			<-e.all
			leave()
		}, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}

// owners are the turns of owners of jobs. The zero value is ready to use.
type owners struct {
	mu    sync.Mutex
	turns map[string]*ownTurns
}

// ownTurns counts the turns of one owner. It exists while an order of this owner has a turn or waits for one.
type ownTurns struct {
	room  chan struct{}
	users int // guarded by owners.mu
}

// take waits for a turn of an owner. Call done at its end, unless ok is false: the context has ended.
func (o *owners) take(ctx context.Context, owner string) (done func(), ok bool) {
	o.mu.Lock()
	t := o.turns[owner]
	if t == nil {
		t = &ownTurns{room: make(chan struct{}, mostEndsEach)}
		if o.turns == nil {
			o.turns = map[string]*ownTurns{}
		}
		o.turns[owner] = t
	}
	t.users++
	o.mu.Unlock()
	leave := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(o.turns, owner)
		}
	}
	select {
	case t.room <- struct{}{}:
		return func() {
			<-t.room
			leave()
		}, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}

// end carries out an order that ends processes or removes directories, and answers it, when it is its turn.
func (s *Server) end(ctx context.Context, c *conn, o *received, t *turns) {
	id, _ := jobOf(o.body)
	if done, ok := t.ends.turn(ctx, s.ownerOf(id)); ok { // otherwise the front has gone
		defer done()
		s.answer(ctx, c, o)
	}
}

// ownerOf returns the owner of a job; empty if the job is unknown, or another order about it is being carried out.
func (s *Server) ownerOf(id job.ID) string {
	h, err := s.find(id)
	if err != nil || !h.mu.TryLock() {
		return ""
	}
	defer h.mu.Unlock()
	if h.job == nil {
		return ""
	}
	return h.job.Description.Owner
}

func tryTurn(room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	default:
		return false
	}
}

func tooMany(room chan struct{}, k kind) error {
	return fmt.Errorf("the front is waiting for %d orders %s already", cap(room), k)
}

// waitToo answers an order to launch a job a second time, when the supervisor has ended.
func (s *Server) waitToo(ctx context.Context, c *conn, o *received, room chan struct{}) {
	a := &answer{Number: o.envelope.Number, compact: true}
	if !tryTurn(room) {
		s.refuse(c, o, tooMany(room, kindWait))
		return
	}
	defer func() { <-room }()
	var body any
	b, err := s.wait(ctx, o.launchedJob())
	if err != nil {
		a.Error = errorOf(err)
	} else {
		body = b
	}
	_ = s.reply(c, a, body, -1)
}
