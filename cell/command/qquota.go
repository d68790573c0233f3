package command

import (
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/quota"
)

// qquota is qquota(1).
var qquota = command{
	name: "qquota", usage: "[options]", indent: 2, column: 39, complaint: complaint{prefix: "error: ", usage: true},
	run: (*call).qquota, needs: needsHome(quotaOptions), options: []option{
		{name: "-help", help: "print this help"},
		{name: "-h", args: "wc_host_list|wc_hostgroup_list", optional: anyNumber, help: "display only selected hosts"},
		{name: "-json", help: "display the information as JSON"},
		{name: "-l", args: "resource_attributes", values: 1, optional: anyNumber, help: "request the given resources"},
		{name: "-u", args: "user_list", optional: anyNumber, help: "display only selected users"},
		{name: "-pe", args: "wc_pe_list", optional: anyNumber, help: "display only selected parallel environments"},
		{name: "-P", args: "wc_project_list", optional: anyNumber, help: "display only selected projects"},
		{name: "-q", args: "wc_cqueue_list", optional: anyNumber, help: "display only selected queues"},
		{name: "-xml", help: "display the information in XML format"},
	},
}

// quotaOptions is the name of the files with default options of qquota (qquota(1)).
const quotaOptions = "sge_qquota"

func (x *call) qquota() {
	l, ok := x.optionLine(quotaOptions)
	if !ok {
		return
	}
	resources := l.lists("-l")
	for i, r := range resources {
		resources[i], _, _ = strings.Cut(r, "=") // a value does not count (tested)
	}
	s := quota.Selection{
		Users: l.lists("-u"), Projects: l.lists("-P"), PEs: l.lists("-pe"), Queues: l.lists("-q"), Hosts: l.lists("-h"), Resources: resources,
	}
	if s.Users == nil {
		s.Users = []string{x.in.By.User}
	}
	rows := view.New(x.cell, x.now).Quotas(s)
	switch {
	case l.has("-json"):
		if rows == nil {
			rows = []qstat.QuotaRow{}
		}
		x.json(&qstat.Document{Quotas: rows})
	case l.has("-xml"):
		x.print(qstat.AppendQuotasXML(nil, rows))
	default:
		x.print(qstat.AppendQuotas(nil, rows))
	}
}
