// Package api is how a master talks to an agent: the messages of its HTTP interface,
// and a client for masters that are written in Go. docs/api.md describes the interface
// itself, for all others.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// A call is POST /execd.v1.Agent/Method with JSON in both directions, errors being
// {"code": ..., "message": ...} with the codes and HTTP statuses of Connect's unary
// protocol. Reports is a stream of lines of JSON. Field names do not change, and none
// goes; new ones may come, so whoever reads an answer passes over what it does not know.
//
// Times are UTC, durations seconds, sizes bytes. The package imports nothing of the
// project but how files of certificates are read: a master that links it gets neither a
// scheduler nor what runs jobs. A Client may be used from any goroutine; messages are
// plain data.
package api
