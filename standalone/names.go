package standalone

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/standalone/api"
)

const (
	// maxNames is the maximum number of names in an answer. No user reads a longer list in a shell, and the shell
	// takes longer to show it than a user waits after pressing the tab key.
	maxNames = 500
	// maxJobName is the maximum length of a job's name in such an answer, in bytes.
	maxJobName = 60
)

// serveNames returns names that complete a command line.
func (m *Master) serveNames(ctx context.Context, c *serve.Call) (any, *agentapi.Error) {
	q := &api.NamesRequest{}
	if err := decode(c.Body, q); err != nil {
		return nil, err
	}
	var names func(prefix string) []api.Name
	switch q.Of {
	case api.NamableJobs:
		owner := c.User.Name
		if c.Manager {
			owner = ""
		}
		names = func(prefix string) []api.Name { return m.jobNames(owner, prefix) }
	case api.NamableUsers:
		names = m.userNames
	default:
		return nil, refuse(agentapi.InvalidArgument, "unknown kind of names "+strconv.Quote(string(q.Of))+": expected jobs or users")
	}
	if m.showing.take(ctx, c.User.UID) != nil {
		return nil, ending()
	}
	c.After(func() { m.showing.give(c.User.UID) })
	a := &api.NamesAnswer{}
	if err := m.look(ctx, func() { a.Names = names(string(q.Prefix)) }); err != nil {
		return nil, err
	}
	return a, nil
}

// jobNames returns the numbers of jobs of an owner, or of all users if the owner is empty.
func (m *Master) jobNames(owner, prefix string) []api.Name {
	var list []*cell.Job
	for _, j := range m.cell.Jobs() {
		if (owner == "" || j.Owner() == owner) && strings.HasPrefix(strconv.FormatUint(uint64(j.ID()), 10), prefix) {
			list = append(list, j)
		}
	}
	list = bounded(list, func(j *cell.Job) string { return strconv.FormatUint(uint64(j.ID()), 10) })
	names := make([]api.Name, 0, len(list))
	for _, j := range list {
		text := printable.Clip(j.Name(), maxJobName) + " of " + j.Owner()
		if state := m.stateLetters(j); state != "" {
			text += ", " + state
		}
		names = append(names, api.Name{Name: api.Text(strconv.FormatUint(uint64(j.ID()), 10)), Text: api.Text(text)})
	}
	return names
}

// stateLetters returns the state that qstat shows for the first task of a job, such as hqw.
func (m *Master) stateLetters(j *cell.Job) string {
	for _, t := range j.Tasks() {
		if t.Running() != nil {
			return t.State()
		}
	}
	for _, w := range m.cell.WaitingTasks(j) {
		return w.State
	}
	return ""
}

// userNames returns the users of the configuration and the owners of jobs, sorted.
func (m *Master) userNames(prefix string) []api.Name {
	found := map[string]bool{}
	for _, name := range m.cell.Cluster().UserNames() {
		found[name] = true
	}
	for _, j := range m.cell.Jobs() {
		found[j.Owner()] = true
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return !strings.HasPrefix(name, prefix) })
	var names []api.Name
	for _, name := range bounded(slices.Sorted(maps.Keys(found)), func(name string) string { return name }) {
		names = append(names, api.Name{Name: api.Text(name)})
	}
	return names
}

// bounded returns at most maxNames elements of a longer list. A shell inserts the beginning that all names
// have in common. That of the returned names is the same, because they include the first and the last name
// in alphabetical order.
func bounded[T any](list []T, name func(T) string) []T {
	if len(list) <= maxNames {
		return list
	}
	compare := func(a, b T) int { return strings.Compare(name(a), name(b)) }
	return append(slices.Clone(list[:maxNames-2]), slices.MinFunc(list[maxNames-2:], compare), slices.MaxFunc(list[maxNames-2:], compare))
}
