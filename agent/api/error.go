package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
)

// Code says what kind of an error it is. The codes are Connect's.
type Code string

// The codes that agents and clients use.
const (
	Canceled           Code = "canceled"            // the caller has gone
	Unknown            Code = "unknown"             // the answer is none of an agent
	InvalidArgument    Code = "invalid_argument"    // the message makes no sense
	DeadlineExceeded   Code = "deadline_exceeded"   // the caller's time is over
	NotFound           Code = "not_found"           // no such job
	AlreadyExists      Code = "already_exists"      // another job has the number or the key
	Aborted            Code = "aborted"             // somebody else has attached to the terminal
	PermissionDenied   Code = "permission_denied"   // not for this caller
	ResourceExhausted  Code = "resource_exhausted"  // too large, too many, or no room on the host now
	FailedPrecondition Code = "failed_precondition" // the job does not fit, or another master has taken over; asking again does not help
	Unimplemented      Code = "unimplemented"       // this agent has no such method
	Internal           Code = "internal"            // an internal error of the agent
	Unavailable        Code = "unavailable"         // the agent takes no jobs, or cannot be reached
	Unauthenticated    Code = "unauthenticated"     // the token is missing or wrong
)

// statuses are the HTTP statuses of codes in Connect's unary protocol.
var statuses = map[Code]int{
	Canceled:           499,
	Unknown:            http.StatusInternalServerError,
	InvalidArgument:    http.StatusBadRequest,
	DeadlineExceeded:   http.StatusGatewayTimeout,
	NotFound:           http.StatusNotFound,
	AlreadyExists:      http.StatusConflict,
	Aborted:            http.StatusConflict,
	PermissionDenied:   http.StatusForbidden,
	ResourceExhausted:  http.StatusTooManyRequests,
	FailedPrecondition: http.StatusBadRequest,
	Unimplemented:      http.StatusNotImplemented,
	Internal:           http.StatusInternalServerError,
	Unavailable:        http.StatusServiceUnavailable,
	Unauthenticated:    http.StatusUnauthorized,
}

// Status is the HTTP status that answers with this code have.
func (c Code) Status() int { return cmp.Or(statuses[c], http.StatusInternalServerError) }

// codeOf is the code that Connect has for an answer without one: it came from
// something between client and agent.
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

// Error is a call that failed: what the agent answered, or why it was not reached.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Err     error  `json:"-"` // the cause, where the agent was not reached
}

// Error is "code: message".
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// parseError reads the body of an answer that is no success.
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
