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

// Options say where an agent is, and who asks. One of Address and Socket is needed.
type Options struct {
	Address string // host:port
	Socket  string // path of a Unix socket on this host

	// TLS are files for an Address. Without them the address must be a loopback one,
	// and the agent wants a token.
	TLS *TLS
	// Token is what the agent's token file has, for an Address without TLS. TokenFile
	// names such a file instead; it is read once.
	Token, TokenFile string

	// Epoch is that of the master, see EpochHeader; 0 for a master that does not count. With
	// one the calls are numbered, see SequenceHeader, by the microseconds since 1970 or more.
	Epoch uint64

	// Timeout is how long one try of a call may take; 0 is 30 seconds.
	Timeout time.Duration
	// RetryFor is how long a call is tried again when the agent is not reached; 0 is 30
	// seconds, less than 0 is never. The context of a call can end it earlier.
	RetryFor time.Duration
	// PauseMin is how long is waited before the second try, PauseMax how long it becomes
	// with further ones, each with up to half as much added at random; 0 is 50 ms and 5 s.
	PauseMin, PauseMax time.Duration
	// Heartbeat is how often the agent says in a stream of reports that it is alive; 0
	// is 10 seconds. After three of them without a word the stream is given up, and
	// another one opened.
	Heartbeat time.Duration
	// Lost, where it is set, is told each time that an agent is not reached or a stream
	// breaks, before it is tried again.
	Lost func(error)
}

// TLS are files in PEM. They are read again when they have changed; connections that
// stand are kept.
type TLS struct {
	CA          string // certificates of the authorities that agents' certificates are signed by
	Certificate string // of this master
	Key         string // of that
	// ServerName is the name that the agent's certificate must have; empty is the host
	// of Address.
	ServerName string
}

// The defaults of Options.
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
	where   string // the agent, for errors
	url     string // up to the path
	header  http.Header
	http    *http.Client

	sequence atomic.Uint64 // number of the last call
}

// Dial makes a client. It checks the options; the agent is reached with the first call.
func Dial(options Options) (*Client, error) {
	c := &Client{options: options, header: http.Header{}}
	setDefaults(&c.options)
	if options.Epoch > 0 {
		c.header.Set(EpochHeader, fmt.Sprint(options.Epoch))
	}
	// Fewer connections than an agent grants to one peer, so that a burst waits here.
	transport := &http.Transport{
		MaxConnsPerHost: 32, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		// Reports become a tenth as long; on this host that is not worth the processor.
		DisableCompression: options.TLS == nil,
	}
	var err error
	switch {
	case (options.Address == "") == (options.Socket == ""):
		err = errors.New("give the address of an agent, or the path of its socket")
	case options.Socket != "":
		c.where, c.url = options.Socket, "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", options.Socket)
		}
		if options.TLS != nil || options.Token != "" || options.TokenFile != "" {
			err = errors.New("on a Unix socket the agent knows who asks: it takes neither certificates nor a token")
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

// useTLS has connections made with what the files have at that time.
func (c *Client) useTLS(transport *http.Transport) error {
	o := c.options.TLS
	if c.options.Token != "" || c.options.TokenFile != "" {
		return errors.New("with certificates no token is needed")
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
			// Certificates would only be sent where the agent knows their authority, and
			// it could not say that it does not.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.Certificate, nil },
		}}
		return d.DialContext(ctx, network, address)
	}
	return nil
}

// useToken has connections made without TLS, to this host alone: a token that crosses
// a network belongs to all who can see it.
func (c *Client) useToken(transport *http.Transport) error {
	token := c.options.Token
	if token == "" {
		if c.options.TokenFile == "" {
			return errors.New("certificates are needed, or on this host a token")
		}
		b, err := os.ReadFile(c.options.TokenFile)
		if err != nil {
			return fmt.Errorf("cannot read the token: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token is not one word of visible characters")
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

// errNotHere keeps a token on this host.
var errNotHere = errors.New("the address is not of this host: certificates are needed")

func checkHere(peer net.Addr) error {
	if a, ok := peer.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("%s: %w", peer, errNotHere)
	}
	return nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// pause waits between two tries. The random part keeps a thousand clients of an agent
// that comes back from asking at the same moment.
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
