package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/execd-project/execd/agent/protocol"
)

// Code is the kind of an error. The codes are those of Connect.
type Code = protocol.Code

// The codes that agents and clients use.
const (
	Canceled           = protocol.Canceled           // the caller has closed the connection
	Unknown            = protocol.Unknown            // the answer is not one of an agent
	InvalidArgument    = protocol.InvalidArgument    // the message is invalid
	DeadlineExceeded   = protocol.DeadlineExceeded   // the caller's deadline has passed
	NotFound           = protocol.NotFound           // no such job
	AlreadyExists      = protocol.AlreadyExists      // another job has the number or the key
	Aborted            = protocol.Aborted            // another client has attached to the terminal
	PermissionDenied   = protocol.PermissionDenied   // not for this caller
	ResourceExhausted  = protocol.ResourceExhausted  // too large, too many, or no room on the host now
	FailedPrecondition = protocol.FailedPrecondition // the job does not fit, or another master has taken over; a retry does not help
	Unimplemented      = protocol.Unimplemented      // this agent has no such method
	Internal           = protocol.Internal           // an internal error of the agent
	Unavailable        = protocol.Unavailable        // the agent accepts no jobs, or cannot be reached
	Unauthenticated    = protocol.Unauthenticated    // the token is missing or wrong
)

// codeOf returns the code that Connect assigns to an answer without one, as a proxy between client
// and agent may send.
func codeOf(status int) Code {
	switch status {
	case http.StatusBadRequest:
		return Internal
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return PermissionDenied
	case http.StatusNotFound:
		return Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	return Unknown
}

// Error is the error of a failed call: the agent's answer, or the reason why it was not reached.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Err     error  `json:"-"` // the cause, if the agent was not reached
}

// Error returns "code: message".
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// parseError reads the body of an answer that reports an error. known is false if the body is not that
// of an agent.
func parseError(status int, body []byte) (e *Error, known bool) {
	e = &Error{}
	if err := json.Unmarshal(body, e); err == nil && e.Code != "" {
		return e, true
	}
	const most = 200
	if len(body) > most {
		body = body[:most]
	}
	return &Error{Code: codeOf(status), Message: fmt.Sprintf("something that is no agent answers with HTTP status %d: %q", status, body)}, false
}
