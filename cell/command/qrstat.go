package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
)

// qrstat is qrstat(1).
var qrstat = command{
	name: "qrstat", usage: "[options]", complaint: complaint{prefix: "error: "},
	run: (*call).qrstat, needs: needsHome(statReservationOptions), options: []option{
		{name: "-ar", args: "ar_list", values: 1, help: "show these advance reservations in detail"},
		{name: "-explain", help: "show reason for error state"},
		{name: "-help", help: "print this help"},
		{name: "-json", help: "display the information as JSON"},
		{name: "-u", args: "user_list", values: 1, help: "all advance reservations of users specified in list"},
		{name: "-xml", help: "display the information in XML-Format"},
	},
}

// statReservationOptions is the name of the files with default options of qrstat (qrstat(1)).
const statReservationOptions = "sge_qrstat"

func (x *call) qrstat() {
	l, err := x.withDefaults(statReservationOptions)
	switch {
	case !x.usable(l, err):
		return
	case len(l.operands) > 0:
		x.help()
		x.fail(1, "error: too many options")
		return
	}
	all := view.New(x.cell, x.now).Reservations()
	details := l.has("-ar")
	if details {
		var missing []string
		for _, n := range l.lists("-ar") {
			if _, err := strconv.ParseUint(n, 10, 32); err != nil {
				x.fail(1, "error: ERROR! invalid id, must be an unsigned integer")
				return
			}
		}
		// If at least one of the reservations exists, there is no message about the others (tested).
		if all, missing = chosenReservations(all, l.lists("-ar")); missing != nil && all == nil {
			if l.has("-xml") {
				x.print(qstat.AppendUnknownReservationsXML(nil, missing))
				x.result.Exit = 1
				return
			}
			x.say("Following advance reservations do not exist:")
			x.say("%s", strings.Join(missing, ", "))
			x.result.Exit = 1
			return
		}
	} else {
		s := statSelection{call: x, users: x.usersOf(l)}
		if s.users == nil {
			s.users = []string{x.in.By.User}
		}
		all = slices.DeleteFunc(all, func(r qstat.Reservation) bool { return !s.hasUser(r.Owner) })
	}
	switch {
	case l.has("-json"):
		if all == nil {
			all = []qstat.Reservation{}
		}
		x.json(&qstat.Document{Reservations: all})
	case l.has("-xml"):
		x.print(qstat.AppendReservationsXML(nil, all, details, l.has("-explain"), x.zone))
	case details:
		x.print(qstat.AppendReservationDetails(nil, all, x.zone))
	default:
		x.print(qstat.AppendReservations(nil, all, l.has("-explain"), x.zone))
	}
}

// chosenReservations returns the reservations with the given numbers, and the numbers that no
// reservation has.
func chosenReservations(all []qstat.Reservation, numbers []string) (chosen []qstat.Reservation, missing []string) {
	for _, n := range numbers {
		i := slices.IndexFunc(all, func(r qstat.Reservation) bool { return strconv.Itoa(r.ID) == n })
		if i < 0 {
			missing = append(missing, n)
		} else {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, missing
}
