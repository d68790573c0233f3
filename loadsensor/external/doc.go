// Package external runs load sensors: programs of the site that report load values through the load
// sensor interface of sge_execd(8) (package protocol).
//
// Other projects should not import this package: it may change at any time.
//
// A Sensor manages one program, with a goroutine of its own that owns the process. It starts the
// program, sends requests and stops it. It restarts the program if its file has changed, if the
// process has exited, and if it has not answered in time; the delay grows while the program keeps
// failing. No caller waits for the program, and the memory and output that it can use up are
// limited:
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
// A Sensor keeps the last report, with its time, until the next one. Package loadsensor decides how
// old a report may be.
//
// A sensor runs in its own session, as the configured user (never as root unless Config allows it),
// with its own environment and no descriptors except the three standard ones. When the process
// exits, the other processes of its process group are killed. A process that has left the group and
// still holds the pipes delays nothing.
//
// All methods of Sensor and Watcher may be called from several goroutines; no method of Sensor
// blocks.
package external
