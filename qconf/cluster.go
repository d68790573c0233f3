package qconf

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// The objects of Builtin, in the notation of their files.
const (
	builtinQueue = `
qname            all.q
shell            /bin/sh
shell_start_mode posix_compliant
pe_list          make smp
load_thresholds  NONE
`
	builtinConfiguration = "execd_params SCRIPT_SHELL=true\nqmaster_params SLOTS_PE=smp\n"
	builtinMake          = `
pe_name            make
slots              9999999
allocation_rule    $round_robin
control_slaves     TRUE
job_is_first_task  FALSE
`
	builtinSmp = `
pe_name            smp
slots              9999999
allocation_rule    $pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
`
)

// Builtin returns the configuration without any files: the defaults of sge_conf(5)
// with SCRIPT_SHELL=true in execd_params and SLOTS_PE=smp in qmaster_params, the parallel
// environments smp ($pe_slots) and make ($round_robin), and the queue all.q with a slot for each of the
// processors, which offers both.
//
// all.q differs from the template of queue_conf(5) in two ways. It runs a script with the shell of
// -S, otherwise by the script's #! line, otherwise with /bin/sh, so that scripts written without
// Grid Engine run. And it has no load thresholds, because it has one slot for each processor. Its
// host list is empty: use Queue.Instance for any host.
func Builtin(processors int) *Cluster {
	slots := strconv.Itoa(min(max(processors, 0), maxSlots))
	c := (*Cluster)(nil).clone()
	c.global = static(ParseConfiguration("", []byte(builtinConfiguration)))
	q := static(ParseQueue("", []byte(builtinQueue+"slots "+slots+"\n")))
	q.defaults.Builtin = true
	c.queues[q.Name] = q
	for _, text := range []string{builtinMake, builtinSmp} {
		pe := static(ParsePE("", []byte(text)))
		c.pes[pe.Name] = pe
	}
	return c
}

// BuiltinOn returns the configuration of Builtin with one execution host. The host is in the host
// group @allhosts, on which all.q is.
func BuiltinOn(host string, processors int) (*Cluster, error) {
	c := Builtin(processors)
	h, err := ParseHost("", fmt.Appendf(nil, "hostname %s\n", host))
	if err != nil {
		return nil, err
	}
	group, err := ParseHostGroup("", fmt.Appendf(nil, "group_name @allhosts\nhostlist %s\n", host))
	if err != nil {
		return nil, err
	}
	if c.groups, err = NewHostGroups(group); err != nil {
		return nil, err
	}
	c.hosts[strings.ToLower(h.Name)] = h
	q, err := ParseQueue("", []byte(builtinQueue+"slots "+strconv.Itoa(min(max(processors, 0), maxSlots))+"\nhostlist @allhosts\n"))
	if err != nil {
		return nil, err
	}
	q.defaults.Builtin = true
	c.queues[q.Name] = q
	return c, nil
}

// clone returns a copy whose maps can be changed; A copy of nil has only the default configuration.
func (c *Cluster) clone() *Cluster {
	if c == nil {
		c = &Cluster{
			global: static(ParseConfiguration("", nil)), groups: static(NewHostGroups()),
			complexes: DefaultComplexes(), scheduler: static(ParseSchedulerConfig("", nil)),
			globalHost: static(ParseHost("", []byte("hostname "+GlobalHost))), userSets: map[string]*UserSet{},
		}
		c.addDefaultUserSets()
	}
	cp := *c
	cp.queues, cp.pes, cp.ckpts = cloneMap(c.queues), cloneMap(c.pes), cloneMap(c.ckpts)
	cp.locals, cp.merged = cloneMap(c.locals), cloneMap(c.merged)
	cp.hosts, cp.calendars = cloneMap(c.hosts), cloneMap(c.calendars)
	cp.userSets, cp.users, cp.projects = cloneMap(c.userSets), cloneMap(c.users), cloneMap(c.projects)
	cp.people = cloneMap(c.people)
	cp.missing, cp.doubtful = nil, nil
	return &cp
}

// static returns the object made of a text of this file. It ignores the error: tests check the same
// texts.
func static[T any](v *T, _ error) *T { return v }

func cloneMap[V any](m map[string]V) map[string]V {
	cp := make(map[string]V, len(m))
	maps.Copy(cp, m)
	return cp
}

// Queue returns a cluster queue by its name. The error wraps ErrNotFound.
func (c *Cluster) Queue(name string) (*Queue, error) { return find(c.queues, "queue", name) }

// QueueNames returns the names of the queues, sorted.
func (c *Cluster) QueueNames() []string { return sortedKeys(c.queues) }

// PE returns a parallel environment by its name. The error wraps ErrNotFound.
func (c *Cluster) PE(name string) (*ParallelEnvironment, error) {
	return find(c.pes, "parallel environment", name)
}

// PENames returns the names of the parallel environments, sorted.
func (c *Cluster) PENames() []string { return sortedKeys(c.pes) }

// Checkpoint returns a checkpointing environment by its name. The error wraps
// ErrNotFound.
func (c *Cluster) Checkpoint(name string) (*Checkpoint, error) {
	return find(c.ckpts, "checkpointing environment", name)
}

// CheckpointNames returns the names of the checkpointing environments, sorted.
func (c *Cluster) CheckpointNames() []string { return sortedKeys(c.ckpts) }

// HostGroups returns the host groups. It is never nil.
func (c *Cluster) HostGroups() *HostGroups { return c.groups }

// Complexes returns the complex configuration: If the cluster has none, it is the template. It is
// never nil.
func (c *Cluster) Complexes() *Complexes { return c.complexes }

// Instance returns a queue on a host: Queue and Queue.Instance in one, with
// the errors of both.
func (c *Cluster) Instance(queue, host string) (QueueInstance, error) {
	q, err := c.Queue(queue)
	if err != nil {
		return QueueInstance{}, err
	}
	return q.Instance(host, c.groups)
}

// Config returns the configuration of a host: the global one, overridden by the host's local one if
// there is one. The local configuration with exactly the host's name comes first, then the first
// one whose name SameHost accepts.
func (c *Cluster) Config(host string) *Configuration {
	if conf := c.merged[c.localName(host)]; conf != nil {
		return conf
	}
	return c.global
}

// Global returns the global configuration.
func (c *Cluster) Global() *Configuration { return c.global }

// Local returns the local configuration of a host as its file has it. The
// error wraps ErrNotFound.
func (c *Cluster) Local(host string) (*Local, error) {
	if l := c.locals[c.localName(host)]; l != nil {
		return l, nil
	}
	return find[Local](nil, "local configuration of host", host)
}

// LocalNames returns the hosts that have a local configuration, sorted, in small
// letters.
func (c *Cluster) LocalNames() []string { return sortedKeys(c.locals) }

// localName returns the key of a host's local configuration.
func (c *Cluster) localName(host string) string {
	low := strings.ToLower(host)
	if c.locals[low] != nil {
		return low
	}
	for _, name := range sortedKeys(c.locals) {
		if SameHost(name, low) {
			return name
		}
	}
	return ""
}

// WithoutShareTree returns the cluster without its share tree.
func (c *Cluster) WithoutShareTree() *Cluster {
	changed := c.clone()
	changed.shareTree, changed.missing, changed.doubtful = nil, c.missing, c.doubtful
	return changed
}

// Warnings returns the places in all files that can be read but are probably not
// meant, in the order of the files.
func (c *Cluster) Warnings() []*Error {
	warnings := append([]*Error(nil), c.global.warnings...)
	for _, l := range sortedKeys(c.locals) {
		warnings = append(warnings, c.locals[l].warnings...)
	}
	for _, p := range sortedKeys(c.pes) {
		warnings = append(warnings, c.pes[p].warnings...)
	}
	for _, k := range sortedKeys(c.ckpts) {
		warnings = append(warnings, c.ckpts[k].warnings...)
	}
	for _, q := range sortedKeys(c.queues) {
		warnings = append(warnings, c.queues[q].warnings...)
	}
	for _, u := range sortedKeys(c.userSets) {
		warnings = append(warnings, c.userSets[u].warnings...)
	}
	for _, q := range c.quotas {
		warnings = append(warnings, q.warnings...)
	}
	if w := c.poolWarning(); w != nil {
		warnings = append(warnings, w)
	}
	return append(warnings, c.doubtful...)
}

func find[V any](m map[string]*V, what, name string) (*V, error) {
	if v := m[name]; v != nil {
		return v, nil
	}
	return nil, &Error{Value: name, Problem: fmt.Sprintf("%s %q does not exist", what, name), Err: ErrNotFound}
}
