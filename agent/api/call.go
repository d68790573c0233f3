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

// maxAnswer is the largest answer in bytes that a client reads.
const maxAnswer = 256 << 20

// Call calls a method of the program that contains the agent, by its path (serve.Options.Methods).
// The method must be idempotent: Call repeats a call whose answer got lost.
func (c *Client) Call(ctx context.Context, path string, in, out any) error {
	return c.request(ctx, path, in, out, true)
}

// call makes a call of the agent.
func (c *Client) call(ctx context.Context, method Method, in, out any, again bool) error {
	return c.request(ctx, Path+string(method), in, out, again)
}

// request makes a call and retries it while the agent cannot be reached. An answer is final, unless
// the agent refused the call for lack of a free connection.
//
// A call may be made twice, if the answer to the first got lost. All methods are idempotent except
// the orders usr1 and usr2: for these again is false unless calls are numbered.
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

// number returns the number of a new call, see SequenceHeader; 0 for a master without an epoch.
// Numbers follow the clock, so that another client of the same epoch continues with larger ones.
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

// try makes a call once. lost is true if the agent may not have been reached.
func (c *Client) try(ctx context.Context, path string, number uint64, body []byte, out any) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	response, err := c.send(ctx, path, number, body)
	if err != nil {
		e := c.unreached(ctx, err)
		// A socket without permission for the caller does not become accessible by retrying.
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

// refused returns the error of an answer without success. lost is true if the agent asks for a
// retry at a later time: it has not processed the call then.
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

// distrusted reports whether one side rejects the other's certificate. Retrying does not help until
// the administrator installs other certificates.
func distrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok { // the other side does not speak TLS
		return true
	}
	if errors.Is(err, errNotHere) {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error" // crypto/tls marks errors that the peer reported this way
}
