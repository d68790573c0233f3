package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/standalone/api"
)

// errNoPage is the error for an address without a page.
var errNoPage = &qclient.RefusedError{Message: "There is no such page."}

// menu implements content.
func (s *source) menu() []tab {
	return []tab{
		{Name: "Overview", Link: "/"},
		{Name: "Jobs", Link: "/jobs"},
		{Name: "Events", Link: "/log"},
		{Name: "Share tree", Link: "/shares"},
		{Name: "Quotas", Link: "/quotas"},
	}
}

// fill implements content.
func (s *source) fill(ctx context.Context, p *page, u *url.URL) (err error) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch {
	case first == "" && rest == "":
		p.Title, p.Template = "Overview", "overview"
		p.Body, err = s.overview(ctx)
	case first == "jobs" && rest == "":
		p.Title, p.Template = "Jobs", "jobs"
		p.Body, err = s.jobs(ctx, p.User, u.Query())
	case first == "jobs":
		p.Title, p.Template = "Job "+rest, "job"
		number, bad := strconv.ParseUint(rest, 10, 31)
		if bad != nil || number == 0 {
			return &qclient.RefusedError{Message: "The number of a job is expected, such as 17."}
		}
		p.Body, err = s.job(ctx, p.User, int(number), u.Query(), p.Now)
	case first == "hosts":
		p.Title, p.Template = "Host "+rest, "host"
		p.Body, err = s.hostPage(ctx, rest, p.Now)
	case first == "shares" && rest == "":
		p.Title, p.Template = "Share tree", "shares"
		p.Body, err = s.shares(ctx)
	case first == "quotas" && rest == "":
		p.Title, p.Template = "Quotas", "quotas"
		p.Body, err = s.quotas(ctx)
	case first == "log" && rest == "":
		p.Title, p.Template = "Events", "events"
		p.Body, err = s.events(ctx)
	default:
		err = errNoPage
	}
	return err
}

// actions lists the commands of the buttons on the page of a job.
var actions = map[string][]string{
	"delete": {"qdel"}, "hold": {"qhold"}, "release": {"qrls"}, "requeue": {"qmod", "-rj"},
	"suspend": {"qmod", "-sj"}, "resume": {"qmod", "-usj"}, "clear": {"qmod", "-cj"},
}

// changeable are the attributes in the form that changes a job, and the options of qalter(1).
var changeable = []struct{ name, option string }{{"name", "-N"}, {"priority", "-p"}, {"resources", "-l"}, {"queues", "-q"}}

// changes returns the qalter command for the attributes that a user has changed in the form; nil if there
// are none.
func changes(r *http.Request) []string {
	command := []string{"qalter"}
	for _, c := range changeable {
		if value := strings.TrimSpace(r.PostFormValue(c.name)); value != "" && value != r.PostFormValue("old-"+c.name) {
			command = append(command, c.option, value)
		}
	}
	if len(command) == 1 {
		return nil
	}
	return command
}

// act implements content. It runs the Grid Engine command for the action.
func (s *source) act(r *http.Request, job, action string) (answer, bool) {
	command := actions[action]
	number, err := strconv.ParseUint(job, 10, 31)
	if action == "change" {
		command = changes(r)
	}
	if command == nil || err != nil || number == 0 {
		return answer{}, false
	}
	a, err := s.session.Run(api.From(r.Context(), r.RemoteAddr), command[0], append(command[1:len(command):len(command)], strconv.FormatUint(number, 10))...)
	s.forget()
	if err != nil {
		return answer{text: err.Error(), bad: true}, true
	}
	return answer{text: a.Message(), bad: a.Status != 0}, true
}
