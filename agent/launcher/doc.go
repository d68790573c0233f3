// Package launcher divides a daemon of root: the front, which has no rights, sends orders about jobs
// over a socket pair, and the launcher, which is root, checks and carries them out. Client is the
// front's end, a launch.Launcher; Server is the launcher's. See docs/design/front-and-launcher.md.
//
// Other projects should not import this package: it may change at any time.
//
// The methods of a Client may be called from several goroutines, but for one job at a time. The
// server believes nothing that an order says: see check.go.
package launcher
