package command

import "testing"

// TestOddValues compares the answers to empty and odd values with those of the original (tested).
func TestOddValues(t *testing.T) {
	w := configured(t)
	w.in.Files["options"], w.in.Files["words"] = []byte("-p -9\n"), []byte("-p -9 one\n")
	w.line("alice", "qsub -h -N one job.sh")
	w.line("alice", "qsub -h -N many -t 1-3 job.sh")
	for _, c := range []struct {
		user           string
		args           []string
		stdout, stderr string
		exit           int
	}{
		{"alice", []string{"qalter", "-uall", "-p", "-1"}, "", "Unknown option -uall\n\n", 5},
		{"alice", []string{"qalter", "-A", "", "one"}, "NULL pointer passed as object name for \"account string\"\n", "", 1},
		{"alice", []string{"qalter", "-A", "a\tb", "one"}, "Tab not allowed in objectname\n", "", 1},
		{"alice", []string{"qalter", "-ckpt", "", "one"}, "modified checkpointing environment of job 1\n", "", 0},
		{"alice", []string{"qalter", "-sc", "", "one"}, "", "qalter: Wrong context list format -sc \"\"\nno variable is named\n", 7},
		{"alice", []string{"qalter", "-@", "options", "one"}, "alice@node1 sets scheduling priority of job 1 to -9\n", "", 0},
		{"alice", []string{"qalter", "0", "-p", "-1"}, "", "ERROR! \"0\" is an invalid job-task identifier\n", 2},
		{"alice", []string{"qalter", "0,one", "-p", "-1"}, "", "ERROR! \"0\" is an invalid job-task identifier\n", 2},
		{"alice", []string{"qalter", "4294967296", "-p", "-1"}, "", "ERROR! \"4294967296\" is an invalid job-task identifier\n", 2},
		{"alice", []string{"qdel", "0.1"}, "", "error: ERROR! \"0.1\" is an invalid job-task identifier\n", 1},
		{"alice", []string{"qhold", "0"}, "", "ERROR! \"0\" is an invalid job-task identifier\n", 2},
		{"alice", []string{"qmod", "-s", "0"}, "", "ERROR! \"0\" is an invalid job-task identifier\n", 1},
		{"alice", []string{"qresub", "0"}, "", "ERROR! \"0\" is an invalid job-task identifier\n", 2},
		{"alice", []string{"qsub", ""}, "", "Unable to read script file because of error: error opening : No such file or directory\n", 14},
		{"alice", []string{"qsub", "-b", "y", ""}, "", "Unable to run job: job rejected cause there is no job_name in the request\nExiting.\n", 1},
		{"alice", []string{"qsub", "-hold_jid_ad", "many", "job.sh"}, "", "Unable to run job: Can only specify \"-hold_jid_ad\" option with an array job (using \"-t\" option)\nExiting.\n", 1},
		{"alice", []string{"qsub", "-c", "ns", "job.sh"}, "", "Unable to run job: job rejected: checkpointing with \"-c n\" requested\nExiting.\n", 1},
		{"root", []string{"qrsub", "-d", "1h"}, "", "qrsub: Wrong time format \"1h\" specified to -d option\n\"1h\" is not a time, expected seconds, hours:minutes:seconds or INFINITY\n", 1},
		{"root", []string{"qrsub", "-d", "0"}, "missing value for \"end time or duration\" in advance reservation request\n", "", 1},
		{"root", []string{"qrsub", "-d", "INFINITY"}, "missing value for \"end time or duration\" in advance reservation request\n", "", 1},
		{"root", []string{"qconf", "-dattr", "exechost", "complex_values", "tok", "node1"}, "", "denied: attribute \"tok\" is not a complex attribute\n", 1},
		{"root", []string{"qconf", "-aattr", "exechost", "complex_values", "tok", "node1"}, "", "denied: attribute \"tok\" is not a complex attribute\n", 1},
		{"root", []string{"qconf", "-dattr", "exechost", "complex_values", "", "node1"}, "", "The attribute name (\"complex_values\") and/or value (\"\") is invalid\n", 1},
		{"root", []string{"qconf", "-dattr", "exechost", "report_variables", "tok", "node1"}, "", "unknown resource \"tok\"\n", 1},
		{"root", []string{"qconf", "-dattr", "exechost", "user_lists", "tok", "node1"}, "", "Userset \"tok\" does not exist\n", 1},
		{"root", []string{"qconf", "-aattr", "exechost", "projects", "tok", "node1"}, "", "denied: project \"tok\" referenced in projects of exechost \"node1\" does not exist\n", 1},
		{"root", []string{"qrsub", "-a", "203501010000", "-d", "60", "-N", ""}, "Your advance reservation 1 has been granted\n", "", 0},
		{"root", []string{"qrsub", "-N", "a:b", "-d", "60"}, "Colon (':') not allowed in objectname\n", "", 1},
		{"root", []string{"qrsub", "-e", "x"}, "", "\nInvalid format of date/hour-minute field.\nqrsub: Wrong date/time format \"x\" specified to -e option\nexpected [[CC]YY]MMDDhhmm[.SS]\n", 1},
		{"root", []string{"qconf", "-Arqs", "r1"}, "root@node1 added \"r1\" to resource quota set list\n", "", 0},
		{"root", []string{"qconf", "-mattr", "resource_quota", "limit", "nosuch=5", "r1/1"}, "", "\"resource_quota\" references not existing complex attribute \"nosuch\"\n", 1},
		// Differences.
		{"alice", []string{"qsub", "-terse", "-h", "-N", "a", "-N", "b", "job.sh"}, "5\n", "", 0},
		{"alice", []string{"qsub", "-M", "a b", "job.sh"}, "", "qsub: Wrong mail list format \"a b\" specified to -M option\n\"a b\" is not a mail address\n", 7},
		{"alice", []string{"qsub", "-pe", "", "1", "job.sh"}, "", "qsub: invalid option argument \"-pe  1\"\nparallel environment: the name is empty\n", 7},
		{"alice", []string{"qalter", "-A", "a b", "one"}, "Space (' ') not allowed in objectname\n", "", 1},
		{"root", []string{"qrsub", "-d", "1.5"}, "", "qrsub: Wrong time format \"1.5\" specified to -d option\n\"1.5\" is not a time, expected seconds, hours:minutes:seconds or INFINITY\n", 1},
		{"root", []string{"qrsub", "-a", "203501010000", "-e", "203501010000"}, "start time is later than end time\n", "", 1},
	} {
		r := w.run(c.user, c.args[0], c.args[1:]...)
		if r.Stdout != c.stdout || r.Stderr != c.stderr || r.Exit != c.exit {
			t.Errorf("%q\n%q and %q, exit status %d, expected\n%q and %q, %d", c.args, r.Stdout, r.Stderr, r.Exit, c.stdout, c.stderr, c.exit)
		}
	}
}
