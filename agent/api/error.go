package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
)

// Code is the kind of an error. The codes are those of Connect.
type Code string

// The codes that agents and clients use.
const (
	Canceled           Code = "canceled"            // the caller has closed the connection
	Unknown            Code = "unknown"             // the answer is not one of an agent
	InvalidArgument    Code = "invalid_argument"    // the message is invalid
	DeadlineExceeded   Code = "deadline_exceeded"   // the caller's deadline has passed
	NotFound           Code = "not_found"           // no such job
	AlreadyExists      Code = "already_exists"      // another job has the number or the key
	Aborted            Code = "aborted"             // another client has attached to the terminal
	PermissionDenied   Code = "permission_denied"   // not for this caller
	ResourceExhausted  Code = "resource_exhausted"  // too large, too many, or no room on the host now
	FailedPrecondition Code = "failed_precondition" // the job does not fit, or another master has taken over; a retry does not help
	Unimplemented      Code = "unimplemented"       // this agent has no such method
	Internal           Code = "internal"            // an internal error of the agent
	Unavailable        Code = "unavailable"         // the agent accepts no jobs, or cannot be reached
	Unauthenticated    Code = "unauthenticated"     // the token is missing or wrong
)

// statuses maps codes to the HTTP statuses of Connect's unary protocol.
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

// Status returns the HTTP status of answers with this code.
func (c Code) Status() int { return cmp.Or(statuses[c], http.StatusInternalServerError) }

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

// parseError reads the body of an answer without success.
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
