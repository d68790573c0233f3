package qconf

// GlobalHost is the name of the host object whose values hold for the whole
// cluster (host_conf(5)).
const GlobalHost = "global"

// ExecHost is an execution host of host_conf(5), or the global host.
type ExecHost struct {
	Text
	Name          string
	LoadScaling   []Weight  // factors by which reported load values are multiplied
	ComplexValues []Setting // the resources of the host
	// UserLists and XUserLists are access lists, of those who may use the host
	// (empty for everybody) and of those who may not.
	UserLists, XUserLists []string
	Projects, XProjects   []string // the same for projects
	UsageScaling          []Weight // of cpu, mem and io, for the share tree
	ReportVariables       []string // load values for the reporting file
}

var hostTable = table[ExecHost]{
	object: "host",
	manual: "host_conf(5)",
	layout: layout{column: 22},
	rows: []attribute[ExecHost]{
		{name: "hostname", required: true, kind: kind[ExecHost]{read: func(h *ExecHost, s string) (string, error) {
			h.Name = s
			if s == GlobalHost {
				return s, nil
			}
			return s, CheckHostName(s)
		}}},
		row("load_scaling", none, weights(CheckName, func(h *ExecHost) *[]Weight { return &h.LoadScaling })),
		row("complex_values", none, settings(func(h *ExecHost) *[]Setting { return &h.ComplexValues })),
		// qconf -se prints these two, but they cannot be configured: they are the latest values
		// that the host has reported.
		{name: "load_values", optional: true, kind: kind[ExecHost]{breaks: betweenItems, read: ignored[ExecHost]}},
		{name: "processors", optional: true, kind: kind[ExecHost]{read: ignored[ExecHost]}},
		row("user_lists", none, names(func(h *ExecHost) *[]string { return &h.UserLists })),
		row("xuser_lists", none, names(func(h *ExecHost) *[]string { return &h.XUserLists })),
		row("projects", none, names(func(h *ExecHost) *[]string { return &h.Projects })),
		row("xprojects", none, names(func(h *ExecHost) *[]string { return &h.XProjects })),
		row("usage_scaling", none, weights(usageName, func(h *ExecHost) *[]Weight { return &h.UsageScaling })),
		row("report_variables", none, list(",", CheckName, func(h *ExecHost) *[]string { return &h.ReportVariables })),
	},
}

// ignored stores the text of a value that this package does not use.
func ignored[T any](_ *T, s string) (string, error) { return s, nil }

// ParseHost reads an execution host in the notation of host_conf(5). file is
// only used in errors, which are all *Error, joined.
func ParseHost(file string, data []byte) (*ExecHost, error) {
	return whole(newHost(hostTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (h *ExecHost) With(attribute, value string) (*ExecHost, error) {
	return whole(newHost(hostTable.with(h.Text, attribute, value)))
}

func newHost(text Text, h ExecHost, err error) (*ExecHost, error) {
	h.Text = text
	return &h, err
}
