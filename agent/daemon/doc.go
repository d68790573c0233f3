// Package daemon implements execd agent: it connects the agent with its configuration, its log, its
// listeners and the service manager, and stops all of them at the end.
//
// Other projects should not import this package: it may change at any time.
package daemon
