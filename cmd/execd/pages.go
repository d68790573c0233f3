package main

import (
	"context"
	"fmt"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/web"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/standalone"
	"github.com/execd-project/execd/standalone/api"
)

// daemonPages are the web pages of execd standalone and execd agent.
type daemonPages struct{ *web.Site }

// newPages makes the web pages of a daemon.
func newPages(h *daemon.Web) (daemon.Pages, error) {
	w := &web.Host{Address: h.Address, Listener: h.Listener, Files: h.Files, Front: h.Front}
	switch master := h.Master.(type) {
	case nil: // execd agent
		w.Call = h.Call
	case *standalone.Master:
		w.As = func(u *userdb.User) qclient.Daemon { return master.As(u, audit.Caller{Via: "web"}) }
	default:
		return nil, fmt.Errorf("no pages for a master of type %T", master)
	}
	site, err := web.NewSite(w)
	if err != nil {
		return nil, err
	}
	return daemonPages{site}, nil
}

// Methods are the calls of the pages on the socket of the daemon.
func (p daemonPages) Methods() map[string]serve.Method {
	return map[string]serve.Method{
		api.PathLink: {
			Summary: "Make a link with which the caller enters the web pages of the daemon.", In: agentapi.Empty{}, Out: api.LinkAnswer{},
			Do: func(_ context.Context, c *serve.Call) (any, *agentapi.Error) {
				link, life := p.Link(c.User)
				return &api.LinkAnswer{Link: link, Seconds: int(life.Seconds())}, nil
			},
		},
	}
}
