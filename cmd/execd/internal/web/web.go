// Package web is the command execd web: web pages with which the caller can view and change
// everything that the Grid Engine commands allow. It is a client of the daemon with the caller's
// rights, and has no others.
//
// The pages are served on a port of the loopback interface, which all users of the host can reach.
// The file guard.go describes the protection against other users and other web sites.
//
// Other projects should not import this package: it may change at any time.
package web

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/userfile"
)

// Usage is the output of --help.
const Usage = `Usage: execd web [options]

Shows the hosts, the queue and your jobs in a browser on this machine, until it is interrupted.
It prints a link that works once: open it in a browser.

  --port PORT  TCP port on the loopback interface (default: a free one)
  --link       print a link to the pages that the daemon serves (--web), which works once
               within five minutes, and exit
  --help       print this text

Exit status: 0 after an interrupt, or after a link; 1 if it cannot listen, finds no daemon, or
the daemon serves no pages; 2 for wrong usage.
`

// The exit statuses of the command, besides options.ExitUsage.
const (
	ExitGood   = 0
	ExitFailed = 1
)

// Command is one call of execd web.
type Command struct {
	Args   []string // words after "execd web"
	Stdout io.Writer
	Stderr io.Writer
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	bodyTime      = 10 * time.Second
	maxHeader     = 16 << 10
	shutdownTime  = 2 * time.Second
)

// Run serves the pages and returns the exit status once ctx is done. A returned error has not been
// printed yet.
func (c *Command) Run(ctx context.Context) (int, error) {
	var port string
	var link bool
	line, err := options.Parse(Usage, c.Args, options.Values{"port": &port, "link": &link})
	if err != nil {
		return options.Exit(c.Stdout, Usage, err)
	}
	if len(line.Operands) > 0 {
		return options.ExitUsage, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	number := 0
	if port != "" {
		if number, err = strconv.Atoi(port); err != nil || number < 1 || number > math.MaxUint16 {
			return options.ExitUsage, options.Usagef("invalid port %q: expected a number from 1 to 65535", port)
		}
	}
	if link && port != "" {
		return options.ExitUsage, options.Usagef("--port is for pages of this command, and --link for those of the daemon")
	}
	if link {
		return c.askLink(ctx)
	}
	me, err := userdb.System().UserID(uint32(os.Getuid()))
	if err != nil {
		return ExitFailed, fmt.Errorf("cannot determine your user name: %w", err)
	}
	session, err := qclient.Dial(ctx, "execd web", c.Stderr)
	if err != nil {
		return ExitFailed, err
	}
	defer session.Close()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
	if err != nil {
		return ExitFailed, err
	}
	g := newGuard(ownRules(listener.Addr().(*net.TCPAddr).Port))
	g.opened = func(*userdb.User) { c.printLink("Link for another browser", g.link(me)) }
	s := newServer(ctx, g, func(u *userdb.User) content { return newSource(session, nil, u, ownFile) })
	server := &http.Server{
		Handler: bounded(s.handler(), bodyTime, sendTime), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // errors of clients only
	}
	c.printLink("Open in a browser", g.link(me))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return ExitFailed, err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(late) != nil {
		_ = server.Close()
	}
	<-ended //nolint:errcheck // the server was closed
	s.wait()
	return ExitGood, nil
}

// askLink prints a link to the pages of the daemon.
func (c *Command) askLink(ctx context.Context) (int, error) {
	session, err := qclient.Dial(ctx, "execd web", c.Stderr)
	if err != nil {
		return ExitFailed, err
	}
	defer session.Close()
	a, err := session.Link(ctx)
	if err != nil {
		return ExitFailed, err
	}
	printer.Fprintf(c.Stdout, "%s\n", a)
	return ExitGood, nil
}

// ownFile opens a file with the rights of this process.
func ownFile(path string) (*os.File, error) { return userfile.Open(path, 0) }

// bounded limits the time of each request for its body and its answer. Otherwise strangers, who can
// connect to the port, could use up all connections. The server's own ReadTimeout would end event
// streams, which set their own deadlines.
func bounded(next http.Handler, body, answer time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.ContentLength != 0 && control.SetReadDeadline(time.Now().Add(body)) != nil ||
			control.SetWriteDeadline(time.Now().Add(answer)) != nil {
			http.Error(w, "the connection cannot be bounded", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// printLink prints a link with its one-time token.
func (c *Command) printLink(what, link string) {
	printer.Fprintf(c.Stdout, "%s: %s\nThe link works once. Interrupt the command to end it.\n", what, link)
}
