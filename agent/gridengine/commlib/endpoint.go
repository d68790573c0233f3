package commlib

import (
	"fmt"
	"strconv"
	"strings"
)

// Endpoint is one end of a connection: a component on a host. Between two endpoints there is at most
// one connection, which either side can open.
type Endpoint struct {
	Host      string
	Component string // "qmaster", "execd"
	ID        int    // 1 for a daemon; 0 asks the other side for a free one
}

// The components that an execution daemon is connected with, and its own.
const (
	Qmaster     = "qmaster"
	Execd       = "execd"
	ExecdHandle = "execd_handle" // qrsh -inherit
	QrshServer  = "qrsh_ijs"     // the client side of an interactive job
	ShepherdIJS = "shepherd_ijs" // its job side
	Qping       = "qping"
)

// String returns the endpoint in the form of Grid Engine's messages: host/component/id.
func (e Endpoint) String() string { return e.Host + "/" + e.Component + "/" + strconv.Itoa(e.ID) }

// check refuses names that the texts of this protocol cannot represent.
func (e Endpoint) check() error {
	for _, s := range []string{e.Host, e.Component} {
		if s == "" || strings.ContainsAny(s, "<>\"\n\x00") {
			return fmt.Errorf("cannot use %q as a part of the name of an endpoint, expected a word", s)
		}
	}
	if e.ID < 0 {
		return fmt.Errorf("cannot use %d as the id of an endpoint, expected 0 or more", e.ID)
	}
	return nil
}
