package command

import (
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// qhold and qrls are qhold(1) and qrls(1).
var (
	qhold = command{name: "qhold", usage: "[options] job_task_list", complaint: submitComplaint, run: (*call).qhold, options: []option{
		{name: "-h", args: "hold_list", values: 1, help: "assign holds for jobs or tasks"},
		{name: "-help", help: "print this help"},
		{name: "-u", args: "user_list", values: 1, help: "specify users whose jobs are held"},
		tasksOption,
	}}
	qrls = command{name: "qrls", usage: "[options] job_task_list", complaint: submitComplaint, run: (*call).qrls, options: []option{
		{name: "-h", args: "hold_list", values: 1, help: "remove holds for jobs or tasks"},
		{name: "-help", help: "print this help"},
		{name: "-u", args: "user_list", values: 1, help: "specify users whose jobs are released"},
		tasksOption,
	}}
)

func (x *call) qhold() { x.hold("u") }
func (x *call) qrls()  { x.hold("U") }

// hold runs qhold, or if the default letter is a capital, qrls, which treats small letters as
// capitals.
func (x *call) hold(letters string) {
	l, ok := x.jobLine()
	if !ok {
		return
	}
	release := letters == strings.ToUpper(letters)
	if typed, ok := l.last("-h"); ok {
		if letters = typed; release {
			letters = strings.ToUpper(letters)
		}
	}
	typed, given := l.last("-h")
	change, err := submit.ParseHolds(letters)
	if given && (err != nil || strings.Trim(typed, "uos") != "") {
		x.fail(exitValue, "qalter: Unknown hold list %q specified to -h option", typed)
		return
	}
	jobs, ok := x.jobs(l.operands)
	if !ok {
		return
	}
	users := l.lists("-u")
	if len(jobs) == 0 && len(users) == 0 {
		x.nothing()
		return
	}
	a := x.cell.Hold(x.now, x.in.By, jobs, users, change)
	x.answer(a)
	for _, e := range a.Events {
		switch {
		case !e.Denied:
		case e.Kind == cell.AlterationDisallowed:
			x.result.Exit = 4
		case e.Kind == cell.HoldNeedsManager, e.Kind == cell.HoldNeedsOperator:
			x.result.Exit = 10
		case e.Kind == cell.MayNotAlter:
			x.result.Exit = 18
		default:
			x.result.Exit = 3
		}
	}
}

// submitComplaint is for the commands that are the same program as qalter in Grid Engine.
var submitComplaint = complaint{prefix: "qalter: ", exit: exitUsage}
