// Package daemon is execd agent: it puts the agent together with its configuration,
// its log, its listeners and the service manager, and takes it down again.
package daemon
