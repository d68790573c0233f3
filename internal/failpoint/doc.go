// Package failpoint lets tests kill a program at a place in it.
//
// At marks a failpoint. In an ordinary build it does nothing and costs nothing. In a program that
// was built with -tags failpoint and has EXECD_FAILPOINT=name in its environment, the process is
// killed, as by SIGKILL, when it reaches the failpoint with that name; with name:3, when it reaches
// it for the third time; and with name,name, at any of several failpoints.
package failpoint
