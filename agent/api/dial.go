package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/execd-project/execd/internal/certfile"
)

// Options describe the address of an agent and the credentials of the caller. Set Address or
// Socket.
type Options struct {
	Address string // host:port
	Socket  string // path of a Unix socket on this host

	// TLS names the files for an Address with TLS. Without TLS the address must be a loopback
	// address, and the agent requires a token.
	TLS *TLS
	// Token is the content of the agent's token file, for an Address without TLS. TokenFile names
	// that file instead; Dial reads it once.
	Token, TokenFile string

	// Epoch is the epoch of the master, see EpochHeader; 0 for a master without one. Calls of a
	// master with an epoch are numbered, see SequenceHeader. The numbers are at least the
	// microseconds since 1970.
	Epoch uint64

	// Timeout is the time limit of one attempt of a call; 0 means 30 seconds.
	Timeout time.Duration
	// RetryFor is how long a call is retried while the agent cannot be reached. 0 means 30 seconds,
	// and a negative value disables retries. The context of a call can end the retries earlier.
	RetryFor time.Duration
	// PauseMin is the pause before the second attempt, and PauseMax the longest pause before
	// further attempts. Up to half as much is added at random. 0 means 50 ms and 5 s.
	PauseMin, PauseMax time.Duration
	// Heartbeat is the interval at which the agent sends a sign of life in a stream of reports; 0
	// means 10 seconds. If three heartbeats are missing, the client closes the stream and opens
	// another one.
	Heartbeat time.Duration
	// Lost, if it is set, is called before each retry, when an agent cannot be reached or a stream
	// breaks.
	Lost func(error)
	// Connected, if it is set, is called with each new connection to a Socket before it is used. An error closes the
	// connection, and the call fails with it.
	Connected func(net.Conn) error
}

// TLS names files in PEM. The client reads them again when they change; established connections
// continue.
type TLS struct {
	CA          string // certificates of the authorities that sign the certificates of agents
	Certificate string // of this master
	Key         string // of Certificate
	// ServerName is the name that the agent's certificate must contain. Empty means the host of
	// Address.
	ServerName string
}

// The default values of Options.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultRetryFor  = 30 * time.Second
	DefaultHeartbeat = 10 * time.Second
	DefaultPauseMin  = 50 * time.Millisecond
	DefaultPauseMax  = 5 * time.Second
)

// Client talks to one agent. Make one with Dial.
type Client struct {
	options Options
	where   string // names the agent in errors
	url     string // base URL, without the path
	header  http.Header
	http    *http.Client

	sequence atomic.Uint64 // number of the last call
}

// Dial makes a client and checks its options. It does not connect; the first call does.
func Dial(options Options) (*Client, error) {
	c := &Client{options: options, header: http.Header{}}
	setDefaults(&c.options)
	if options.Epoch > 0 {
		c.header.Set(EpochHeader, fmt.Sprint(options.Epoch))
	}
	// Use fewer connections than an agent grants to one peer, so that a burst of calls waits in the
	// client.
	transport := &http.Transport{
		MaxConnsPerHost: 32, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		// Compression makes reports ten times shorter. On the same host it is not worth the CPU
		// time.
		DisableCompression: options.TLS == nil,
	}
	var err error
	switch {
	case (options.Address == "") == (options.Socket == ""):
		err = errors.New("expected either the address of an agent or the path of its socket")
	case options.Socket != "":
		c.where, c.url = options.Socket, "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", options.Socket)
			if err == nil && options.Connected != nil {
				if err = options.Connected(conn); err != nil {
					return nil, errors.Join(err, conn.Close())
				}
			}
			return conn, err
		}
		if options.TLS != nil || options.Token != "" || options.TokenFile != "" {
			err = errors.New("certificates and a token cannot be used with a Unix socket: the kernel tells the agent the user ID of its client")
		}
	case options.TLS != nil:
		c.where, c.url = options.Address, "https://"+options.Address
		err = c.useTLS(transport)
	default:
		c.where, c.url = options.Address, "http://"+options.Address
		err = c.useToken(transport)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot talk to the agent %s: %w", c.where, err)
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

func setDefaults(o *Options) {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&o.Timeout, DefaultTimeout}, {&o.RetryFor, DefaultRetryFor}, {&o.Heartbeat, DefaultHeartbeat}, {&o.PauseMin, DefaultPauseMin}, {&o.PauseMax, DefaultPauseMax}} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
}

// useTLS makes each new connection use the current content of the certificate files.
func (c *Client) useTLS(transport *http.Transport) error {
	o := c.options.TLS
	if c.options.Token != "" || c.options.TokenFile != "" {
		return errors.New("certificates and a token cannot be used together")
	}
	name := o.ServerName
	if name == "" {
		host, _, err := net.SplitHostPort(c.options.Address)
		if err != nil {
			return err
		}
		name = host
	}
	files, err := certfile.Open(certfile.Paths{CA: o.CA, Certificate: o.Certificate, Key: o.Key}, nil)
	if err != nil {
		return err
	}
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		m := files.Current()
		d := tls.Dialer{Config: &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: name, RootCAs: m.Authorities,
			// Go sends a certificate by default only if the agent knows the certificate's
			// authority. The agent could then not report that it does not know the authority.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.Certificate, nil },
		}}
		return d.DialContext(ctx, network, address)
	}
	return nil
}

// useToken makes connections without TLS, to this host only: everyone on the path of a network
// connection could read the token.
func (c *Client) useToken(transport *http.Transport) error {
	token := c.options.Token
	if token == "" {
		if c.options.TokenFile == "" {
			return errors.New("certificates are missing: an address needs them, or a token if it is a loopback address")
		}
		b, err := os.ReadFile(c.options.TokenFile)
		if err != nil {
			return fmt.Errorf("cannot read the token: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("invalid token: expected one word of printable characters")
	}
	c.header.Set("Authorization", "Bearer "+token)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := checkHere(conn.RemoteAddr()); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	return nil
}

// errNotHere is the error for a token with an address of another host.
var errNotHere = errors.New("the address is not a loopback address: it needs certificates")

func checkHere(peer net.Addr) error {
	if a, ok := peer.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("%s: %w", peer, errNotHere)
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// pause waits between two attempts. Its random part prevents a thousand clients from calling a
// restarted agent at the same moment.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + time.Duration(rand.Int64N(int64(d)/2+1)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
