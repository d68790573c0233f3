package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/execd-project/execd/agent/api"
)

// decode reads a message. It refuses unknown fields, so that no request of a master is ignored
// silently. An empty body is an empty message.
func decode[T any](body []byte) (*T, *api.Error) {
	m := new(T)
	if len(bytes.TrimSpace(body)) == 0 {
		return m, nil
	}
	if !utf8.Valid(body) {
		return nil, refuse(api.InvalidArgument, "cannot read the message: it is no UTF-8; for other text there are fields that end in _base64")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, refuse(api.InvalidArgument, "cannot read the message: %s", describe(err, body))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse(api.InvalidArgument, "cannot read the message: there is more behind it")
	}
	return m, nil
}

// describe returns the place and the cause of the error in a message.
func describe(err error, body []byte) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("at byte %d: %v", e.Offset, e)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := e.Field
		if where == "" {
			where = "the message"
		}
		return fmt.Sprintf("%s is a JSON %s, expected %s", where, e.Value, expected(e))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("it ends after %d bytes, before it is complete", len(body))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// expected returns the type that a field should have had, in the words of JSON.
func expected(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind().String(); {
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number from 0 on"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "string":
		return "a string"
	case kind == "slice":
		return "a list"
	default:
		return "an object"
	}
}
