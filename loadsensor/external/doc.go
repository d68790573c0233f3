// Package external runs load sensors: programs of the site that are asked for load
// values, by the load sensor interface of sge_execd(8) (package protocol).
//
// Other projects should not import this package: it may change at any time.
//
// A Sensor is one of them, with a goroutine of its own that owns the process. It
// starts, asks and ends it, and starts it again when its file has changed, when it
// has ended, and when it has not answered in time, with growing pauses while that does not
// help. Whatever the program does, the rest of the world neither waits for it nor takes
// more than a bounded amount of memory and of its output:
//
//	       file changed (quiet for Settle), or pause over
//	  +------------------------------------------------------+
//	  |                                                      v
//	waiting --start--> asked --whole report--> running --Ask--> asked
//	  ^                  |                        |
//	  |                  | no answer in Timeout,  | file changed, ended by itself,
//	  |                  | flood, output closed   | flood, output closed
//	  |                  v                        v
//	  +---- gone ---- ending: "quit", end of file; after Grace SIGKILL to the group
//
//	Stop: from each state by way of ending to ended.
//
// What a sensor said last is kept, with its time, until it says something else. How
// old it may get is the business of who reads it (package loadsensor).
//
// A sensor runs in a session of its own, as the configured user, never as root unless
// that is asked for, with an environment of its own and no descriptor but its three. When its
// process ends, what is left of its process group is killed. A process that has left
// its group and kept the pipes holds nobody up.
//
// All methods of Sensor and Watcher may be called from several goroutines; none of
// Sensor's waits.
package external
