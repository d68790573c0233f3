package command

import (
	"slices"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/submit"
)

// otherActions returns the options that change no object.
func otherActions() []action {
	refused := func(name, args, help, reason, manage string) action {
		return action{option: option{name: name, args: args, optional: 1, help: help}, run: func(x *call, g *given) {
			if !x.cell.IsManager(x.in.By.User) {
				x.fail(1, "%s requires manager privileges", manage)
				return
			}
			x.fail(1, "denied: %s is not supported here: %s", g.name, reason)
		}}
	}
	const (
		service = "one daemon is qmaster and execd; stop it as a service, or by SIGTERM"
		threads = "the master has no threads to start and to stop"
		clients = "there are no event clients"
	)
	return []action{
		{option: option{name: "-clearusage", args: "[user_list]", optional: 1, help: "clear sharetree usage for user_list or all users/projects"}, by: managers, run: (*call).clearUsage},
		{option: option{name: "-cq", args: "wc_queue_list", values: 1, help: "clean queue"}, run: (*call).cleanQueue},
		{option: option{name: "-tsm", help: "trigger scheduler monitoring"}, run: func(x *call, _ *given) {
			if !x.cell.IsManager(x.in.By.User) {
				x.fail(1, "starting scheduler monitoring requires manager privileges")
				return
			}
			x.warn("%s triggers scheduler monitoring", x.who())
		}},
		refused("-km", "", "shutdown master", service, "shutting down qmaster"),
		refused("-ks", "", "shutdown scheduling thread", threads, "shutdown"),
		refused("-ke", "host_list", "shutdown execution daemon(s)", service, "shutting down execd"),
		refused("-kej", "host_list", "shutdown execution daemon(s) and their jobs", service, "shutting down execd"),
		refused("-kt", "thread_name", "kill qmaster thread", threads, "changing threads"),
		refused("-at", "thread_name", "add/start qmaster thread", threads, "changing threads"),
		refused("-kec", "evid_list", "kill event client", clients, "shutdown"),
	}
}

// clearUsage clears usage (-clearusage): of some users, or of all users and projects.
func (x *call) clearUsage(g *given) {
	if len(g.values) == 0 {
		a, err := x.cell.ClearUsage(x.now, x.in.By)
		if err != nil {
			x.fail(1, "%s", ErrorText(err))
			return
		}
		x.result.Actions = append(x.result.Actions, a.Actions...)
		for _, e := range a.Events {
			x.warn("%s", EventText(e))
		}
		return
	}
	for _, user := range list(g.value()) {
		if !slices.Contains(x.cell.Users(), user) {
			x.warn("denied: user %q does not exist", user)
			continue
		}
		x.cell.ClearUserUsage(x.now, user)
		x.warn("%s modified %q in user list", x.who(), user)
	}
}

// cleanQueue cleans queue instances (-cq): it restarts or removes their jobs.
func (x *call) cleanQueue(g *given) {
	for _, name := range list(g.value()) {
		r, err := compileQueue(x, name)
		found := false
		if err == nil {
			for _, q := range x.cluster().QueueNames() {
				for _, host := range x.hostsOf(q) {
					if r.Match(q, host, x.hostGroups) {
						found = true
						if !x.cell.IsOperator(x.in.By.User) {
							x.fail(1, "%s - you have no permission to modify queue \"%s@%s\"", x.in.By.User, q, host)
							continue
						}
						if !x.cell.IsManager(x.in.By.User) {
							x.fail(1, "cleaning a queue requires manager privileges")
							continue
						}
						x.cleanInstance(q, host)
					}
				}
			}
		}
		if !found {
			x.fail(1, "invalid queue or job %q", name)
		}
	}
}

// cleanInstance deletes the jobs of a queue instance by force.
func (x *call) cleanInstance(queue, host string) {
	id, ok := x.cell.Model().Instance(queue, host)
	if !ok {
		return
	}
	var jobs []submit.JobRange
	for _, t := range x.cell.TasksIn(id) {
		r := submit.JobRange{Job: number(t.Job.ID())}
		if t.Job.IsArray() {
			n := int(t.Number)
			r.Tasks = []submit.Array{{First: n, Last: n, Step: 1}}
		}
		jobs = append(jobs, r)
	}
	if jobs != nil {
		a := x.cell.Delete(x.now, x.in.By, cell.DeleteRequest{Jobs: jobs, Force: true})
		x.result.Actions = append(x.result.Actions, a.Actions...)
	}
	x.warn("%s purged queue \"%s@%s\"", x.who(), queue, host)
}
