package protocol

import "cmp"

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

// statuses maps codes to the HTTP statuses of Connect's unary protocol. They are numbers because a
// program that needs only the codes should not link net/http.
var statuses = map[Code]int{
	Canceled:           499,
	Unknown:            500,
	InvalidArgument:    400,
	DeadlineExceeded:   504,
	NotFound:           404,
	AlreadyExists:      409,
	Aborted:            409,
	PermissionDenied:   403,
	ResourceExhausted:  429,
	FailedPrecondition: 400,
	Unimplemented:      501,
	Internal:           500,
	Unavailable:        503,
	Unauthenticated:    401,
}

// Status returns the HTTP status of answers with this code.
func (c Code) Status() int { return cmp.Or(statuses[c], 500) }
