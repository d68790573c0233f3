package gridengine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// edit replaces attributes in the text of a Grid Engine object, which consists of lines with a name
// and a value, and appends missing ones.
func edit(object string, attributes map[string]string) string {
	missing := maps.Clone(attributes)
	var b strings.Builder
	for line := range strings.Lines(object) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "#") {
			continue
		}
		if value, ok := attributes[name]; ok {
			delete(missing, name)
			line = name + " " + value + "\n"
		}
		b.WriteString(line)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		b.WriteString(name + " " + missing[name] + "\n")
	}
	return b.String()
}

// qconf passes an object to a qconf option that reads it from a file. For some options the file's
// name is the object's name.
func (c *Cell) qconf(option, name, object string) error {
	path := "/home/cell/etc/" + name
	if err := c.AddFile(path, object, 0o644); err != nil {
		return err
	}
	out, err := c.Root("qconf", option, path)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, object)
	}
	// qconf does not always report a refusal with its exit status.
	for _, word := range []string{"error", "unknown", "invalid", "denied", "rejected"} {
		if strings.Contains(strings.ToLower(out), word) {
			return fmt.Errorf("qconf %s: %s\n%s", option, out, object)
		}
	}
	return nil
}

// SetConf changes attributes of the global configuration. sge_execd fetches it
// with a load report, seconds later.
func (c *Cell) SetConf(attributes map[string]string) error {
	c.confMu.Lock()
	defer c.confMu.Unlock()
	conf, err := c.Root("qconf", "-sconf")
	if err != nil {
		return err
	}
	return c.qconf("-Mconf", "global", edit(conf, attributes))
}

// SetSchedulerConf changes attributes of sched_conf(5).
func (c *Cell) SetSchedulerConf(attributes map[string]string) error {
	c.confMu.Lock()
	defer c.confMu.Unlock()
	conf, err := c.Root("qconf", "-ssconf")
	if err != nil {
		return err
	}
	return c.qconf("-Msconf", "sched", edit(conf, attributes))
}

// Configure passes an object to a qconf option that reads it from a file. For some options the
// file's name is the object's name.
func (c *Cell) Configure(option, name, object string) error { return c.qconf(option, name, object) }

// A Queue is a cluster queue on the cell's host: its attributes that differ from Grid Engine's
// template, in addition to enough slots and no load threshold.
type Queue struct {
	Name       string
	Attributes map[string]string
}

// AddQueues creates cluster queues.
func (c *Cell) AddQueues(queues ...Queue) error {
	template, err := c.Root("qconf", "-sq")
	if err != nil {
		return err
	}
	var files []string
	for _, q := range queues {
		attributes := map[string]string{
			"qname": q.Name, "hostlist": c.Host, "slots": "1000", "load_thresholds": "NONE", "pe_list": "NONE",
		}
		maps.Copy(attributes, q.Attributes)
		path := "/home/cell/etc/" + q.Name
		if err := c.AddFile(path, edit(template, attributes), 0o644); err != nil {
			return err
		}
		files = append(files, path)
	}
	// One command for all: entering the namespaces takes as long as qconf.
	const addAll = `for file; do qconf -Aq "$file" || { cat "$file" >&2; exit 1; }; done`
	_, err = c.Root(append([]string{"sh", "-c", addAll, "sh"}, files...)...)
	return err
}

// AddPE makes a parallel environment that keeps a job on one host.
func (c *Cell) AddPE(name string, attributes map[string]string) error {
	pe := map[string]string{
		"pe_name": name, "slots": "1000", "user_lists": "NONE", "xuser_lists": "NONE",
		"start_proc_args": "NONE", "stop_proc_args": "NONE", "allocation_rule": "$pe_slots",
		"control_slaves": "FALSE", "job_is_first_task": "TRUE", "urgency_slots": "min",
		"accounting_summary": "FALSE",
	}
	if c.install.root == "" {
		pe["qsort_args"] = "NONE"
	} else {
		pe["ign_sreq_on_mhost"], pe["master_forks_slaves"], pe["daemon_forks_slaves"] = "FALSE", "FALSE", "FALSE"
	}
	maps.Copy(pe, attributes)
	return c.qconf("-Ap", name, edit("", pe))
}

// AddCkpt makes a checkpointing environment.
func (c *Cell) AddCkpt(name string, attributes map[string]string) error {
	ckpt := map[string]string{
		"ckpt_name": name, "interface": "userdefined", "ckpt_command": "none", "migr_command": "none",
		"restart_command": "none", "clean_command": "none", "ckpt_dir": "/tmp", "signal": "none", "when": "sx",
	}
	maps.Copy(ckpt, attributes)
	return c.qconf("-Ackpt", name, edit("", ckpt))
}
