package cell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/tickets"
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

// defaultProject returns the default project of a user object (user(5)), empty if there is none.
func (c *Cell) defaultProject(user string) string {
	if u, err := c.cluster.User(user); err == nil {
		return u.DefaultProject
	}
	if conf := c.cluster.Global(); conf.EnforceUser == qconf.EnforceUserAuto {
		return conf.AutoUserDefaultProject
	}
	return ""
}

// enrolUser creates an object for a user without one (sge_conf(5), enforce_user auto), and extends
// the lifetime of an automatic object by auto_user_delete_time.
func (c *Cell) enrolUser(now int64, name string) {
	conf := c.cluster.Global()
	if !c.policy.knowsUser(name) {
		if conf.EnforceUser != qconf.EnforceUserAuto {
			return
		}
		c.policy.addUser(name, tickets.Entity{FunctionalShares: float64(conf.AutoUserFShare), OverrideTickets: float64(conf.AutoUserOTicket)})
		c.policy.automatic[name] = expiry{}
		c.touchUser(name)
		c.usersChanged(name)
	}
	c.prolong(now, name)
}

// prolong sets the time at which an automatic user object is removed. auto_user_delete_time 0 means
// never.
func (c *Cell) prolong(now int64, name string) {
	keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
	expiry, automatic := c.policy.automatic[name]
	if !automatic || keep == 0 {
		return
	}
	if expiry.at == 0 {
		expiry.due = now + keep
		c.timers.add(timer{at: expiry.due, kind: userExpires, name: name})
	}
	expiry.at = now + keep
	c.policy.automatic[name] = expiry
	c.touchUser(name)
}

func (c *Cell) userLeft(now int64, name string) {
	if c.perUser[name] == 0 {
		c.prolong(now, name)
	}
}

// expireUser removes an automatic user object whose user has had no job for auto_user_delete_time.
func (c *Cell) expireUser(name string) {
	expiry := c.policy.automatic[name]
	if expiry.at == 0 {
		return
	}
	if c.perUser[name] > 0 || expiry.at > c.now {
		keep := int64(c.cluster.Global().AutoUserDeleteTime.Seconds())
		expiry.due = max(expiry.at, c.now+max(keep, 1))
		c.policy.automatic[name] = expiry
		c.timers.add(timer{at: expiry.due, kind: userExpires, name: name})
		c.touchUser(name)
		return
	}
	c.policy.removeUser(name)
	c.touchUser(name)
	c.usersChanged(name)
}

// usersChanged updates the state that depends on the numbers of users, after a user object was
// added or removed.
func (c *Cell) usersChanged(name string) {
	if c.policy.Tree == nil || !c.policy.inTree[name] && len(c.policy.users.list) <= c.policy.room {
		c.state.Entitlements = c.policy.Entitlements
		if c.perUser[name] > 1 { // jobs submitted before the user had an object
			c.entitleAgain(func(j *Job) bool { return j.Owner() == name })
		}
		return
	}
	c.policy.plant(c.cluster)
	c.state.Entitlements = c.policy.Entitlements
	c.entitleAgain(func(*Job) bool { return true })
}
