package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// Call makes a call of what an agent is a part of, by its path (serve.Options.Methods):
// one that may be made twice, because the answer to the first got lost.
func (c *Client) Call(ctx context.Context, path string, in, out any) error {
	return c.request(ctx, path, in, out, true)
}

// call makes a call of the agent.
func (c *Client) call(ctx context.Context, method Method, in, out any, again bool) error {
	return c.request(ctx, Path+string(method), in, out, again)
}

// request makes a call, again and again where the agent is not reached. What was answered
// is final, except by an agent that had no connection to spare.
//
// That a call is made twice because the answer to the first got lost does no harm: all
// methods are idempotent but the orders usr1 and usr2, for which again is false unless calls
// are numbered.
func (c *Client) request(ctx context.Context, path string, in, out any, again bool) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &Error{Code: InvalidArgument, Message: "cannot encode the message: " + err.Error(), Err: err}
	}
	number := c.number()
	end := time.Now().Add(c.options.RetryFor)
	for wait := c.options.PauseMin; ; wait = c.longer(wait) {
		lost, err := c.try(ctx, path, number, body, out)
		if !lost || !again {
			return err
		}
		if ctx.Err() != nil || time.Now().Add(wait).After(end) {
			return err
		}
		c.lost(err)
		if pause(ctx, wait) != nil {
			return err
		}
	}
}

// number is that of a new call, see SequenceHeader; 0 for a master that does not count. It
// follows the clock, so that another client of the same epoch goes on with larger numbers.
func (c *Client) number() uint64 {
	if c.options.Epoch == 0 {
		return 0
	}
	for {
		last := c.sequence.Load()
		next := max(last+1, uint64(max(time.Now().UnixMicro(), 0)))
		if c.sequence.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (c *Client) longer(wait time.Duration) time.Duration { return min(2*wait, c.options.PauseMax) }

func (c *Client) lost(err error) {
	if c.options.Lost != nil {
		c.options.Lost(err)
	}
}

// try makes a call once; lost says that the agent may not have been reached.
func (c *Client) try(ctx context.Context, path string, number uint64, body []byte, out any) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	response, err := c.send(ctx, path, number, body)
	if err != nil {
		e := c.unreached(ctx, err)
		// A socket that is not for the caller stays so.
		return e.Code != Unauthenticated && (c.options.Socket == "" || !errors.Is(err, fs.ErrPermission)), e
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return true, c.unreached(ctx, err)
	case len(answer) > maxAnswer:
		return false, &Error{Code: ResourceExhausted, Message: fmt.Sprintf("the answer of the agent %s has more than %d bytes", c.where, maxAnswer)}
	case response.StatusCode != http.StatusOK:
		return refused(response, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return false, &Error{Code: Unknown, Message: fmt.Sprintf("cannot read the answer of %s: %v", c.where, err), Err: err}
	}
	return false, nil
}

func (c *Client) send(ctx context.Context, path string, number uint64, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = c.header.Clone()
	request.Header.Set("Content-Type", "application/json")
	if number > 0 {
		request.Header.Set(SequenceHeader, strconv.FormatUint(number, 10))
	}
	return c.http.Do(request)
}

// refused returns what an answer says that is no success. An agent that names a time to come
// back has not looked at the call.
func refused(response *http.Response, body []byte) (lost bool, err error) {
	e, known := parseError(response.StatusCode, body)
	lost = response.Header.Get("Retry-After") != "" || !known && e.Code == Unavailable
	return lost, e
}

func (c *Client) unreached(ctx context.Context, err error) *Error {
	code := Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		code = Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		code = DeadlineExceeded
	case distrusted(err):
		code = Unauthenticated
	}
	return &Error{Code: code, Message: fmt.Sprintf("cannot reach the agent %s: %v", c.where, err), Err: err}
}

// distrusted reports whether one of the two does not take the other for what it should
// be. With other certificates they may, but those have to be brought by somebody.
func distrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok { // no TLS over there
		return true
	}
	if errors.Is(err, errNotHere) {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error" // how crypto/tls marks what the peer said
}
