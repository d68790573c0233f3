package drmaa

import (
	"errors"
	"fmt"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
)

// code is a DRMAA_ERRNO_* of drmaa.h.
type code int

const (
	success              code = 0
	internalError        code = 1
	communicationFailure code = 2
	authFailure          code = 3
	invalidArgument      code = 4
	invalidContact       code = 7
	invalidFormat        code = 13
	invalidValue         code = 14
	tryLater             code = 16
	deniedByDRM          code = 17
	invalidJob           code = 18
	resumeInconsistent   code = 19
	suspendInconsistent  code = 20
	holdInconsistent     code = 21
	releaseInconsistent  code = 22
	exitTimeout          code = 23
	noRusage             code = 24
)

// callError is the reason of a failed call, with the code that the library returns.
type callError struct {
	code code
	text string // empty for the text of drmaa_strerror
}

func (e *callError) Error() string { return e.text }

func failure(c code, format string, args ...any) *callError {
	return &callError{c, fmt.Sprintf(format, args...)}
}

// ofDaemon converts the error of a call to the daemon to an error with its code.
func ofDaemon(err error) *callError {
	text := qclient.Explain(err).Error()
	e, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
		return &callError{communicationFailure, text}
	}
	switch e.Code {
	case agentapi.PermissionDenied, agentapi.Unauthenticated:
		return &callError{authFailure, text}
	case agentapi.ResourceExhausted:
		return &callError{tryLater, text}
	case agentapi.InvalidArgument:
		return &callError{invalidArgument, text}
	case agentapi.Internal:
		return &callError{internalError, text}
	default:
		return &callError{communicationFailure, text}
	}
}
