package top

import (
	"context"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
)

// action is a command for a job that the user has to confirm.
type action struct {
	verb    string   // for the question
	command []string // of Grid Engine; the number of the job follows
	job     int
	name    string
	owner   string
}

// actions are the actions by their keys.
var actions = map[string]action{
	"d": {verb: "Delete", command: []string{"qdel"}},
	"h": {verb: "Hold", command: []string{"qhold"}},
	"r": {verb: "Release", command: []string{"qrls"}},
	"s": {verb: "Suspend", command: []string{"qmod", "-sj"}},
	"c": {verb: "Continue", command: []string{"qmod", "-usj"}},
}

// question returns the question that the user answers.
func (a *action) question() string {
	return printer.Sprintf("%s job %d (%s) of %s? y: yes, any other key: no", a.verb, a.job, a.name, a.owner)
}

// run carries out the action, and returns the first line of the answer.
func (a *action) run(ctx context.Context, session *qclient.Session) string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := session.Run(ctx, a.command[0], append(a.command[1:len(a.command):len(a.command)], strconv.Itoa(a.job))...)
	if err != nil {
		return printable.String(err.Error())
	}
	text, _, more := strings.Cut(answer.Message(), "\n")
	if text = printable.String(text); more {
		text += " ..."
	}
	if text == "" {
		text = a.verb + " job " + strconv.Itoa(a.job) + ": done"
	}
	return text
}
