package agentclient

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/options"
)

// The exit statuses of the commands, besides options.ExitUsage.
const (
	ExitGood    = 0
	ExitTrouble = 1 // status: something does not work
	ExitRefused = 3 // the agent does not answer, or refuses
)

// Usages are the help texts, by the names of the commands.
var Usages = map[string]string{
	"status": `Usage: execd status [options]

Shows the agent's status: whether it takes jobs and why not, slots, jobs by state, the
version of its configuration, and faults.

  --socket PATH  socket of the agent (default: EXECD_SOCKET, or that of your own agent if
                 one runs, else /run/execd/agent.sock)
  --json         print JSON, see Health in docs/api.md
  --help         print this text

Exit status: 0 if everything works, also if the host is drained; 1 if something does not
work; 2 for wrong usage; 3 if no agent answers.
`,
	"jobs": `Usage: execd jobs [options]

Lists the jobs of this host, including finished jobs that no master has acknowledged.

  --user NAME    only jobs of this user; may be repeated
  --state STATE  only jobs in this state: accepted, starting, running, suspended,
                 ending, ended or reported; may be repeated
  --socket PATH  socket of the agent (default: EXECD_SOCKET, or that of your own agent if
                 one runs, else /run/execd/agent.sock)
  --json         print JSON, see Jobs in docs/api.md
  --help         print this text

Exit status: 0, also if there are no jobs; 2 for wrong usage; 3 if no agent answers.
`,
	"attach": `Usage: execd attach [options] JOB

Connects the terminal to an interactive job of this host as soon as the job has started.
Any attached client is disconnected. If standard input is not a terminal, its content is
typed, followed by Ctrl-D.

At the beginning of a line, ~. detaches: the job continues, and a client may attach again.
~^Z (Ctrl-Z) suspends this program, ~? lists these commands, ~~ types ~. If a client is
disconnected without ~., the agent waits for a client (execd agent --hang-up), and then
terminates the job.

  --escape CHAR  escape character instead of ~: a character, ^X for Ctrl-X, or none
  --socket PATH  socket of the agent (default: EXECD_SOCKET, or that of your own agent if
                 one runs, else /run/execd/agent.sock)
  --help         print this text

Exit status: that of the job, 128+n after signal n; 0 if detached; 125 for wrong usage, if
the agent does not answer or refuses, or if another client attached.
`,
	"drain": `Usage: execd drain [options]

Makes the agent refuse new jobs until execd resume, also over restarts. Running jobs
continue. Only root, the agent's user and managers may do this.

  --reason TEXT  reason, which execd status and masters show
  --socket PATH  socket of the agent (default: EXECD_SOCKET, or that of your own agent if
                 one runs, else /run/execd/agent.sock)
  --help         print this text

Exit status: 0 if done, 2 for wrong usage, 3 if no agent answers or the agent refuses.
`,
	"resume": `Usage: execd resume [options]

Makes the agent take jobs again after execd drain. Other reasons to refuse jobs, such as
the health check, remain. Only root, the agent's user and managers may do this.

  --socket PATH  socket of the agent (default: EXECD_SOCKET, or that of your own agent if
                 one runs, else /run/execd/agent.sock)
  --help         print this text

Exit status: 0 if done, 2 for wrong usage, 3 if no agent answers or the agent refuses.
`,
}

type settings struct {
	socket, reason string
	users, states  []string
	json           bool
	job            api.ID // attach
	escapeText     string
	escape         byte // 0 for none
}

// States are the states in which a job can be seen.
var States = []string{
	string(api.Accepted), string(api.Starting), string(api.Running), string(api.Suspended),
	string(api.Ending), string(api.Ended), string(api.Reported),
}

func parse(command string, args []string) (*settings, error) {
	s := &settings{escapeText: "~"}
	to := options.Values{"socket": &s.socket}
	switch command {
	case "status":
		to["json"] = &s.json
	case "jobs":
		to["json"], to["user"], to["state"] = &s.json, &s.users, &s.states
	case "attach":
		to["escape"] = &s.escapeText
	case "drain":
		to["reason"] = &s.reason
	}
	line, err := options.Parse(Usages[command], args, to)
	switch {
	case err != nil:
	case command == "attach":
		err = s.attachTo(line.Operands)
	case len(line.Operands) > 0:
		err = options.Usagef("unexpected argument %q", line.Operands[0])
	}
	if err != nil {
		return nil, err
	}
	for _, state := range s.states {
		if !slices.Contains(States, state) {
			return nil, options.Usagef("--state %q is not a state of a job%s, expected one of %s", state, nearest.Hint("", state, States), strings.Join(States, ", "))
		}
	}
	return s, nil
}

// attachTo reads what execd attach has of its own.
func (s *settings) attachTo(args []string) error {
	if len(args) != 1 {
		return options.Usagef("expected the number of one job, and there are %d arguments", len(args))
	}
	var err error
	if s.job.Job, err = strconv.Atoi(args[0]); err != nil || s.job.Job <= 0 {
		return options.Usagef("%q is not a number of a job", args[0])
	}
	switch e := s.escapeText; {
	case e == "none":
	case len(e) == 1 && e[0] > ' ' && e[0] < 0x7f:
		s.escape = e[0]
	case len(e) == 2 && e[0] == '^' && e[1] >= 'A' && e[1] <= 'z':
		s.escape = e[1] & 0x1f
	default:
		return options.Usagef("--escape %q, expected one character, ^X for Ctrl-X, or none", e)
	}
	if s.escapeText != "none" && strings.IndexByte("\x00\r\n\x1a.?", s.escape) >= 0 {
		return options.Usagef("--escape %q has another meaning", s.escapeText)
	}
	return nil
}

// DefaultSocket returns the socket of an agent of the caller, if there is one, or else that of the
// host.
func DefaultSocket() string {
	places := paths.Sockets(os.Getuid() == 0)
	host := len(places) - 1
	for _, path := range places[:host] {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return places[host]
}
