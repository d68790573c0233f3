package mail

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Bounds of an outbox: mailers at the same time, mail that waits for one, and such mail of the jobs of one
// owner. A host on which more waits has a mailer that does not work, or an owner of many short jobs, whose
// mail must not take the place of other users' mail.
const (
	maxMailers      = 4
	maxWaiting      = 1000
	maxWaitingOwner = 250
)

// Outbox sends the mail of many jobs in the background. Make one with NewOutbox.
type Outbox struct {
	// Through sends a mail with a mailer (Mailer.Command) through another process, if it returns sent. Set it before the first
	// Post. It may be nil.
	Through func(mailer string, m Message) (sent bool, err error)

	users  func(name string) (*userdb.User, error)
	failed func(owner string, m Message, err error)

	mu      sync.Mutex
	waiting []letter
	mailers int           // goroutines
	idle    chan struct{} // closed when there are none
	closed  bool
	ctx     context.Context // of the mailers
	cancel  context.CancelFunc
}

type letter struct {
	command, owner string
	message        Message
}

// NewOutbox makes an outbox. users finds owners of jobs and users of mailers; nil means the name
// service switch. failed is called for mail that could not be sent, possibly by several goroutines.
func NewOutbox(users func(name string) (*userdb.User, error), failed func(owner string, m Message, err error)) *Outbox {
	if users == nil {
		users = userdb.System().User
	}
	o := &Outbox{users: users, failed: failed, idle: make(chan struct{})}
	close(o.idle)
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Post queues a mail for the owner of a job. A mailer (see Mailer.Command) sends it later; Post
// waits for nothing.
func (o *Outbox) Post(command, owner string, m Message) {
	if err := o.post(letter{command, owner, m}); err != nil {
		o.failed(owner, m, err)
	}
}

func (o *Outbox) post(l letter) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errors.New("the agent is being shut down")
	}
	if len(o.waiting) >= maxWaiting {
		return fmt.Errorf("%d other mails wait for the mailer %s", len(o.waiting), l.command)
	}
	ofOwner := 0
	for i := range o.waiting {
		if o.waiting[i].owner == l.owner {
			ofOwner++
		}
	}
	if ofOwner >= maxWaitingOwner {
		return fmt.Errorf("%d other mails of jobs of %s wait for the mailer %s", ofOwner, l.owner, l.command)
	}
	o.waiting = append(o.waiting, l)
	if o.mailers < maxMailers {
		if o.mailers == 0 {
			o.idle = make(chan struct{})
		}
		o.mailers++
		go o.deliver()
	}
	return nil
}

// deliver sends waiting mail until there is none.
func (o *Outbox) deliver() {
	for {
		o.mu.Lock()
		if len(o.waiting) == 0 {
			if o.mailers--; o.mailers == 0 {
				o.waiting = nil
				close(o.idle)
			}
			o.mu.Unlock()
			return
		}
		l := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.mu.Unlock()
		if err := o.send(l); err != nil {
			o.failed(l.owner, l.message, err)
		}
	}
}

func (o *Outbox) send(l letter) error {
	if o.ctx.Err() != nil {
		return errors.New("the agent is being shut down")
	}
	if o.Through != nil {
		if sent, err := o.Through(l.command, l.message); sent || err != nil {
			return err
		}
	}
	owner, err := o.users(l.owner)
	if err != nil {
		return err
	}
	m := Mailer{Command: l.command, Users: o.users}
	return m.Send(o.ctx, owner, l.message)
}

// Close refuses further mail, waits until all mail is sent or the context ends, and kills the mailers that
// are still running.
func (o *Outbox) Close(ctx context.Context) {
	o.mu.Lock()
	o.closed = true
	idle := o.idle
	o.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	o.cancel()
	<-idle
}
