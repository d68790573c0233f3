// Package api is the interface between a master and an agent: the messages of the agent's HTTP
// interface, and a client for masters written in Go. docs/api.md describes the interface for other
// languages.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A call is POST /execd.v1.Agent/Method with JSON in both directions. Errors are {"code": ...,
// "message": ...} with the codes and HTTP statuses of Connect's unary protocol. Reports is a stream
// of lines of JSON. Fields are never renamed or removed. New fields may be added, so a reader must
// ignore unknown fields.
//
// Times are UTC, durations seconds, sizes bytes. Within the project the package imports only
// agent/protocol and the reader of certificate files: a master that links it gets neither the
// scheduler nor the code that runs jobs. A Client may be used from any goroutine. Messages are plain data.
package api
