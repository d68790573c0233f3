// Package failpoint lets tests kill a program at a place in it.
//
// At marks the place. It does nothing, and costs nothing, in a program that is built as
// usual. In one that is built with -tags failpoint, and has EXECD_FAILPOINT=name in its
// environment, the process is killed when it comes to the place with that name, as by
// SIGKILL; with name:3 when it does so for the third time, and with name,name at any of
// several places.
package failpoint
