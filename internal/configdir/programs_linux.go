package configdir

import (
	"errors"
	"fmt"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/qconf"
)

// UntrustedProgram is a program of a configuration that the agent refuses to run as another user than
// the job's owner, because users other than root and that user can change it.
type UntrustedProgram struct {
	File, Attribute string // the place in the configuration, such as queues/all.q and prolog
	User            string // the user that it runs as
	Err             *trust.Error
}

// String names the attribute, the user of the program, and the users who can change it.
func (p UntrustedProgram) String() string {
	return fmt.Sprintf("%s: %s: is not run as %s: %v", p.File, p.Attribute, p.User, p.Err)
}

// UntrustedPrograms returns the programs that would run as another user than the owner of a job,
// and that this host refuses to run as that user. It leaves out programs and users that do not
// exist on this host: the configuration may be for other hosts.
func UntrustedPrograms(c *qconf.Cluster) []UntrustedProgram {
	var found []UntrustedProgram
	for _, v := range procedureValues(c) {
		for _, m := range asUser().FindAllStringSubmatch(v.value, -1) {
			user, err := userdb.System().User(m[1])
			if err != nil {
				continue
			}
			p := UntrustedProgram{File: v.file, Attribute: v.attribute, User: m[1]}
			if errors.As(trust.Users{}.With(user.UID).Program(m[2]), &p.Err) {
				found = append(found, p)
			}
		}
	}
	return found
}

// asUser matches USER@/PATH, also after the [HOST= of a value for some hosts (queue_conf(5)).
var asUser = lazyregexp.New(`([^\s,=@\[\]]+)@(/[^\s,\]]*)`)

// procedureValue is the value of an attribute that may name a user before a program.
type procedureValue struct{ file, attribute, value string }

// procedureValues returns the values of queues, parallel environments and the configurations of hosts.
func procedureValues(c *qconf.Cluster) []procedureValue {
	var values []procedureValue
	add := func(file string, o interface{ Value(string) (string, bool) }, attributes ...string) {
		for _, a := range attributes {
			if v, ok := o.Value(a); ok {
				values = append(values, procedureValue{file, a, v})
			}
		}
	}
	for _, name := range c.QueueNames() {
		if q, err := c.Queue(name); err == nil {
			add("queues/"+name, q, "prolog", "epilog")
		}
	}
	for _, name := range c.PENames() {
		if pe, err := c.PE(name); err == nil {
			add("pes/"+name, pe, "start_proc_args", "stop_proc_args")
		}
	}
	add("conf/"+qconf.GlobalName, c.Global(), "prolog", "epilog", "mailer")
	for _, name := range c.LocalNames() {
		if l, err := c.Local(name); err == nil {
			add("conf/"+name, l, "prolog", "epilog", "mailer")
		}
	}
	return values
}
