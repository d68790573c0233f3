package launcher

import (
	"context"
	"fmt"
)

// turns limit the orders that are carried out at the same time.
type turns struct {
	orders, waits, verifies, mails chan struct{}
	bytes                          *budget
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
