// Package healthcheck runs a program of the site that says whether this host is fit
// for jobs, and has no jobs taken while it is not.
//
// Exit status 0 is for a host that is well. Any other end takes the host out of
// service, with the last line that the program has written as the reason, and so does
// a program that cannot be run or has not ended at its deadline. Jobs that run go on.
// The host comes back after as many good runs in a row as are configured; an order of
// an administrator stands beside that, and neither undoes the other.
//
//	       Begin                     0, the first time
//	(none) -----> no run has ended ------------------------> well
//	                     |                                   |  ^
//	                     | not 0                       not 0 |  | 0, Good times
//	                     v                                   v  | in a row
//	                     +---------------------------> not well +
//
// So no job is taken before the first run has ended well: a host that has come up with
// a broken disk does not swallow jobs for the length of an interval. One that begins
// needs one good run only, since a restart of the agent says nothing about the host.
//
// The program runs in a session of its own, as nobody or whoever is configured, as
// root only where that is said and nobody else can change it. At its end its process
// group is killed. One that cannot be killed (it hangs in the kernel, as with a file
// server that is away) holds nobody up; no other is started before it is gone.
//
// It is not for load values, see package loadsensor. All methods may be called from
// several goroutines.
package healthcheck
