package command

// Absent are commands of Grid Engine that execd does not have, with what to type instead.
var Absent = map[string]string{
	"qmake": "run make as a job with several slots: qrsh -now n -pe make 4 make -j4, or make -j$NSLOTS in a script",
	"qmon":  "there is no graphical interface: qstat shows jobs and queues, qconf shows and changes the configuration",
	"qping": "execd status says how the daemon of this host fares, and ends with 0 if it does well",
	"qsh":   "qlogin opens a session on this terminal; qrsh -V xterm opens a window",
	"qtcsh": "use tcsh, and put qrsh in front of a command that is to run as a job",
}
