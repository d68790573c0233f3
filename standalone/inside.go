package standalone

import (
	"context"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/standalone/api"
)

// Insider makes calls of a user to the master of this process, with the rights and the limits that the
// user has on the socket. It may be used by several goroutines.
type Insider struct {
	master *Master
	caller *caller
}

// caller is the user of a call.
type caller struct {
	user *userdb.User
	from audit.Caller
}

// As returns an Insider for a user whom the caller of As has identified. from is the caller in the audit
// log; As fills in the user.
func (m *Master) As(u *userdb.User, from audit.Caller) *Insider {
	uid := u.UID
	from.UID, from.User = &uid, u.Name
	return &Insider{m, &caller{u, from}}
}

// Command makes the master carry out a command line.
func (i *Insider) Command(ctx context.Context, q *api.CommandRequest) (*api.CommandAnswer, error) {
	var after []func()
	defer func() {
		for _, do := range after {
			do()
		}
	}()
	c := *i.caller
	c.from.Remote = api.Remote(ctx)
	a, err := i.master.commandOf(ctx, &c, q, func(do func()) { after = append(after, do) })
	if err != nil {
		return nil, err
	}
	answer, ok := a.(*api.CommandAnswer)
	if !ok {
		return nil, refuse(agentapi.Internal, "internal error of the daemon: the answer to a command has another form")
	}
	return answer, nil
}

// Places returns the paths of files that users read themselves.
func (i *Insider) Places(context.Context) (*api.PlacesAnswer, error) {
	return &api.PlacesAnswer{Accounting: api.Text(i.master.host.Accounting)}, nil
}

// Recent returns the latest events and the use of the host over the last day.
func (i *Insider) Recent(ctx context.Context) (*api.RecentAnswer, error) {
	a, err := i.master.recentOf(ctx)
	if err != nil {
		return nil, err
	}
	return a, nil
}
