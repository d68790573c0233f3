package command

import (
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// qrsub and qrdel are qrsub(1) and qrdel(1).
var (
	qrsub = command{name: "qrsub", derived: submitOptions(submit.Qrsub), usage: "[options]", run: (*call).qrsub, needs: needsSubmit(reservationRequest)}
	qrdel = command{name: "qrdel", usage: "[options] ar_list", complaint: complaint{prefix: "error: ", usage: true}, run: (*call).qrdel, options: []option{
		{name: "-f", help: "force action"},
		{name: "-help", help: "print this help"},
		{name: "-u", args: "user_list", values: 1, help: "delete all reservations of users specified in list"},
	}}
)

// reservationOptions are the options of qrsub whose meaning differs from the options of jobs with
// the same name.
var reservationOptions = map[string]option{
	"-a":       {args: "date_time", help: "start of the reservation, [[CC]YY]MMDDhhmm[.SS]; default: now"},
	"-l":       {args: "resource=value,...", help: "reserve these resources"},
	"-m":       {args: "b|e|a|n...", help: "mail at the start, the end, or an error of the reservation, never"},
	"-masterq": {args: "queue,...", help: "reserve one of these queues for the master task"},
	"-now":     {args: "y[es]|n[o]", help: "reserve interactive queues only"},
	"-N":       {args: "name", help: "name of the reservation"},
	"-pe":      {args: "pe_name n[-[m]]|[-]m,...", help: "reserve slots of a parallel environment"},
	"-q":       {args: "queue,...", help: "reserve some of these queues"},
	"-u":       {args: "user|@access_list,...", help: "users who may submit jobs to the reservation"},
	"-w":       {args: "e|v", help: "with v, only report whether it could be granted"},
}

func (x *call) qrsub() {
	if len(x.in.Args) == 0 {
		x.nothing()
		return
	}
	r, err := submit.ParseReservation(x.in.submission(reservationRequest))
	if err != nil {
		x.submitError(err)
		x.result.Exit = 1 // (tested)
		return
	}
	if r.Help {
		x.help()
		return
	}
	r.Start, r.End = x.date(r.Start), x.date(r.End)
	a, err := x.cell.Reserve(x.now, x.in.By, r)
	if err == nil {
		x.answer(a)
		return
	}
	x.result.Exit = 1
	for _, part := range refusalParts(err) {
		x.say("%s", part)
	}
	x.suggest(ErrorText(err))
}

func (x *call) qrdel() {
	l, ok := x.jobLine()
	if !ok {
		return
	}
	r := cell.DeleteReservationsRequest{Users: l.lists("-u"), Force: l.has("-f")}
	for _, o := range l.operands {
		r.References = append(r.References, list(o)...)
	}
	if len(r.References) == 0 && len(r.Users) == 0 {
		x.nothing()
		return
	}
	if !x.mayReserve() {
		return
	}
	x.answer(x.cell.DeleteReservations(x.now, x.in.By, r))
}

// mayReserve reports whether the caller may make or delete advance reservations, and prints an error if
// not.
func (x *call) mayReserve() bool {
	set, err := x.cluster().UserSet(qconf.ARUsers)
	if x.cell.IsManager(x.in.By.User) || err == nil && set.Contains(x.in.By.User, x.in.By.Group) {
		return true
	}
	x.say("denied: %q must be manager or in userset %q", x.in.By.User, qconf.ARUsers)
	x.result.Exit = 1
	return false
}
