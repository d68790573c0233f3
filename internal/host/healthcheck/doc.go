// Package healthcheck runs a program of the site that checks whether this host is fit for jobs. The host
// takes no jobs while it is not.
//
// Exit status 0 means that the host is healthy. Any other result takes the host out of service,
// with the last line of the program's output as the reason; so does a program that cannot be run or
// exceeds its deadline. Running jobs continue. The host returns to service after the configured
// number of successful runs in a row. An administrator's drain is independent of that: neither
// undoes the other.
//
//	       Begin                     0, the first time
//	(none) -----> no run has ended ------------------------> well
//	                     |                                   |  ^
//	                     | not 0                       not 0 |  | 0, Good times
//	                     v                                   v  | in a row
//	                     +---------------------------> not well +
//
// The host takes no job before the first run has succeeded, so that a host that boots with a broken
// disk does not lose jobs for an interval. After its start, the agent needs only one successful
// run, because a restart of the agent tells nothing about the host.
//
// The program runs in a session of its own, as nobody or as the configured user. It runs as root
// only if that is configured, and no other user can change it. At its end its process group is
// killed. A program that cannot be killed, because it hangs in the kernel (for example on an
// unreachable file server), delays nothing, but no other run starts before it has ended.
//
// It is not for load values, see package loadsensor. All methods may be called from
// several goroutines.
package healthcheck
