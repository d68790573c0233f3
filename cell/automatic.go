package cell

import (
	"fmt"
	"slices"
	"strings"
)

// AutomaticUser is a user object that the cell made for a job (sge_conf(5), enforce_user auto).
type AutomaticUser struct {
	Name            string
	OverrideTickets int
	FunctionalShare int
	Expires         int64 // when it is removed, in seconds since 1970; 0 for never
	DefaultProject  string
}

// AutomaticUsers returns the automatic user objects, by name.
func (c *Cell) AutomaticUsers() []AutomaticUser {
	var list []AutomaticUser
	for i, name := range c.policy.users.list {
		expiry, automatic := c.policy.automatic[name]
		if !automatic {
			continue
		}
		e := c.policy.Users[i]
		list = append(list, AutomaticUser{
			Name: name, OverrideTickets: int(e.OverrideTickets), FunctionalShare: int(e.FunctionalShares),
			Expires: expiry.at, DefaultProject: c.cluster.Global().AutoUserDefaultProject,
		})
	}
	slices.SortFunc(list, func(a, b AutomaticUser) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// RemoveAutomaticUser removes an automatic user object and the usage of the user. It keeps the
// object of a user who has jobs, since it would be made again.
func (c *Cell) RemoveAutomaticUser(now int64, name string) error {
	c.tick(now)
	switch {
	case !c.policy.isAutomatic(name):
		return fmt.Errorf("user %q does not exist", name)
	case c.perUser[name] > 0:
		return fmt.Errorf("user %q has jobs", name)
	}
	c.policy.removeUser(name)
	c.touchUser(name)
	c.usersChanged(name)
	return nil
}
