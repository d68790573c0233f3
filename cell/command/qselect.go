package command

import (
	"github.com/execd-project/execd/cell/view"
)

// qselect is qselect(1).
var qselect = command{
	name: "qselect", usage: "[options]", indent: 8, column: 43, complaint: complaint{usage: true},
	run: (*call).qselect, needs: needsHome(selectOptions), options: []option{
		{name: "-help", help: "print this help"},
		{name: "-l", args: "resource_list", values: 1, optional: anyNumber, help: "request the given resources"},
		{name: "-pe", args: "pe_list", values: 1, optional: anyNumber, help: "select only queues with one of these parallel environments"},
		{name: "-q", args: "wc_queue_list", values: 1, optional: anyNumber, help: "print information on given queue"},
		{name: "-qs", args: "{a|c|d|o|s|u|A|C|D|E|S}", values: 1, optional: anyNumber, help: "selects queues which are in the given state(s)"},
		{name: "-U", args: "user_list", values: 1, optional: anyNumber, help: "select only queues where these users have access"},
	},
}

// selectOptions is the name of the files with default options of qselect.
const selectOptions = "sge_qselect"

func (x *call) qselect() {
	l, ok := x.optionLine(selectOptions)
	if !ok {
		return
	}
	s, ok := x.statSelection(l)
	if !ok {
		return
	}
	chosen := s.queues(view.New(x.cell, x.now), view.None)
	x.inListOrder(chosen)
	for i := range chosen {
		x.say("%s", chosen[i].Name())
	}
	if len(chosen) == 0 && !s.nowhere() {
		s.warnInaccessible()
	}
	if len(chosen) == 0 {
		x.result.Exit = 1
	}
}
