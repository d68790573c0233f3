// Package daemon is execd agent: it puts the agent together with its configuration,
// its log, its listeners and the service manager, and takes it down again.
//
// Other projects should not import this package: it may change at any time.
package daemon
