package qconf

import (
	"fmt"
	pathpkg "path"
	"strings"
)

// PrivateTmpName is the complex with which a job requests its own /tmp.
const PrivateTmpName = "private_tmp"

// DefaultPrivateTmpShare is the default of PRIVATE_TMP_SHARE: the sockets of X servers.
const DefaultPrivateTmpShare = "/tmp/.X11-unix"

// PrivateTmp says which queues give their jobs their own /tmp, /var/tmp and /dev/shm.
type PrivateTmp struct {
	Default bool
	// Queues are settings for some queues. The last one that matches a queue counts.
	Queues []QueuePrivateTmp
}

// QueuePrivateTmp is the setting for some queues.
type QueuePrivateTmp struct {
	Queue string // name or pattern
	On    bool
}

// For returns the setting for a queue.
func (p PrivateTmp) For(queue string) bool {
	on := p.Default
	for _, q := range p.Queues {
		if ok, err := pathpkg.Match(q.Queue, queue); ok && err == nil {
			on = q.On
		}
	}
	return on
}

// privateTmp is the parameter; [queue=value] after it sets a queue's.
var privateTmp = param[ExecdParams]{
	name: "PRIVATE_TMP",
	kind: kind[ExecdParams]{read: func(e *ExecdParams, s string) (string, error) {
		on, err := parseBool(s)
		e.PrivateTmp = PrivateTmp{Default: on}
		return s, err
	}},
	override: func(e *ExecdParams, queue, s string) error {
		on, err := parseBool(s)
		if _, bad := pathpkg.Match(queue, ""); err == nil && (bad != nil || queue == "") {
			err = fmt.Errorf("%q is not a name of a queue", queue)
		}
		e.PrivateTmp.Queues = append(e.PrivateTmp.Queues, QueuePrivateTmp{queue, on})
		return err
	},
}

// privatePlaces are the directories of which a job has its own.
var privatePlaces = []string{"/tmp", "/var/tmp", "/dev/shm"}

// readPrivateTmpShare reads paths separated by colons, or none.
func readPrivateTmpShare(e *ExecdParams, s string) (string, error) {
	e.PrivateTmpShare = nil
	if isWord(s, none) {
		return s, nil
	}
	for path := range strings.SplitSeq(s, ":") {
		inside := false
		for _, place := range privatePlaces {
			inside = inside || strings.HasPrefix(path, place+"/")
		}
		if !inside || pathpkg.Clean(path) != path {
			return s, fmt.Errorf("%q is not a path in %s, expected such paths separated by colons, or none", path, strings.Join(privatePlaces, ", "))
		}
		e.PrivateTmpShare = append(e.PrivateTmpShare, path)
	}
	return s, nil
}

// WithPrivateTmp returns the cluster with the complex private_tmp, which a host that can give jobs
// their own /tmp offers. The host must exist. Use it for the built-in configuration only, not for
// that of a site.
func (c *Cluster) WithPrivateTmp(host string, offered bool) (*Cluster, error) {
	const text = PrivateTmpName + " " + PrivateTmpName + " BOOL == YES NO 0 0\n"
	complexes, err := ParseComplexes("", []byte(c.complexes.Format()+text))
	if err != nil {
		return nil, err
	}
	changed, err := c.WithComplexes(complexes)
	if err != nil {
		return nil, err
	}
	h, err := changed.Host(host)
	if err != nil {
		return nil, fmt.Errorf("cannot set complex_values: %w", err)
	}
	value := "FALSE"
	if offered {
		value = "TRUE"
	}
	if h, err = h.With("complex_values", formatSettings(append(h.ComplexValues, Setting{Name: PrivateTmpName, Value: value}))); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}

// RequestsPrivateTmp reports whether one of the requests is for private_tmp, under its name or its
// shortcut.
func (c *Complexes) RequestsPrivateTmp(requests []Setting) bool {
	on := false
	for _, r := range requests {
		name := r.Name
		if c != nil {
			if x, ok := c.Find(name); ok {
				name = x.Name
			}
		}
		if name == PrivateTmpName {
			on, _ = parseBool(r.Value)
		}
	}
	return on
}
