package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// administrator is the source of Drain and Resume.
const administrator = "administrator"

// Drain refuses new jobs until Resume, also after a restart of the agent. The jobs of
// this host continue.
func (a *Agent) Drain(_ context.Context, reason string) error {
	if strings.TrimSpace(reason) == "" {
		reason = "no reason given"
	}
	return a.DrainFor(administrator, reason)
}

// Resume undoes Drain. Drains by other sources stay.
func (a *Agent) Resume(context.Context) error { return a.DrainFor(administrator, "") }

// DrainFor sets the reason why a source wants the host to take no jobs, or with an empty reason
// removes it. The sources are independent of each other.
func (a *Agent) DrainFor(source, reason string) error {
	if strings.ContainsAny(source, "\t\n") || source == "" {
		return &Error{InvalidArgument, errors.New("invalid source of a drain: expected a name of one line without tabs")}
	}
	reason = strings.Join(strings.Fields(reason), " ")
	changed, err := a.journal.drain(source, reason)
	if !changed {
		return err
	}
	a.noteService()
	if reason == "" {
		a.log.Info("the host takes jobs again", "source", source)
	} else {
		a.log.Warn("the host takes no jobs", "source", source, "reason", reason)
	}
	return nil
}

// whyNoJobs returns the reason for which no jobs are taken; empty if they are.
func (a *Agent) whyNoJobs() string {
	if a.stopping.Load() {
		return "the agent is being shut down"
	}
	if a.options.Load != nil && !a.load.known() {
		return "the load of this host is not known yet"
	}
	return a.outOfService()
}

// launcherAway returns an error while the process that starts jobs is not running.
func (a *Agent) launcherAway() error {
	if l, ok := a.launcher.(interface{ Away() error }); ok {
		return l.Away()
	}
	return nil
}

// LauncherChanged reports that a launcher in another process has gone or is back: its method Away says which.
func (a *Agent) LauncherChanged() { a.noteService() }

// outOfService returns the reason for which this host takes no jobs though the agent could; empty
// if it does.
func (a *Agent) outOfService() string {
	var reasons []string
	if err := a.starts.whyOut(); err != nil {
		reasons = append(reasons, err.Error())
	}
	if why := a.guard.whyNot(); why != "" {
		reasons = append(reasons, errNoUsers.Error()+": "+why)
	}
	if err := a.disk.hangs(); err != nil {
		reasons = append(reasons, err.Error())
	}
	if err := a.launcherAway(); err != nil {
		reasons = append(reasons, err.Error())
	}
	drains := a.journal.drained()
	for _, source := range sortedKeys(drains) {
		reasons = append(reasons, source+": "+drains[source])
	}
	return strings.Join(reasons, "; ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
