package expression

import (
	"fmt"
	"slices"
	"strings"
)

// Groups tells which host groups a host is in: directly, and as the host groups in
// which these are. The names begin with "@".
type Groups func(host string) []string

// HostReference is a wc_host or a wc_hostgroup of sge_types(5), as queue
// references and resource quotas name hosts. A nil one matches nothing.
type HostReference struct {
	expression *Expression
	group      bool
}

// CompileHostReference reads an expression on the names of hosts, or, if it begins with "@", on the
// names of host groups.
//
// The "@" is part of the first name only: "@a|b" means the group @a or a group named "b", which
// cannot exist. The names of host groups are compared like host names, ignoring case, but without
// domains.
func CompileHostReference(hosts HostNames, text string) (*HostReference, error) {
	if text == "" || text == "@" {
		return nil, fmt.Errorf("cannot read the host reference %q: it is empty, expected a host, @group or an expression on either", text)
	}
	group := text[0] == '@'
	if group {
		hosts = HostNames{}
	}
	e, err := CompileHost(hosts, text)
	if err != nil {
		return nil, err
	}
	return &HostReference{expression: e, group: group}, nil
}

// Match reports whether the reference matches a host. groups is only used if the reference is about
// host groups.
func (r *HostReference) Match(host string, groups Groups) bool {
	if r == nil {
		return false
	}
	if !r.group {
		return r.expression.Match(host)
	}
	return slices.ContainsFunc(groups(host), r.expression.Match)
}

// IsGroup reports whether the reference is about host groups.
func (r *HostReference) IsGroup() bool { return r != nil && r.group }

// Expression returns the expression with which the reference compares names.
func (r *HostReference) Expression() *Expression {
	if r == nil {
		return nil
	}
	return r.expression
}

// String returns the reference as it was written.
func (r *HostReference) String() string { return r.Expression().String() }

// QueueReference is a wc_queue of sge_types(5): an expression on cluster queues, wc_cqueue, alone
// or with one on hosts, wc_cqueue@wc_host, or on host groups, wc_cqueue@@wc_hostgroup. It is the
// argument of -q and -masterq of sge_submit(1). A nil one matches nothing.
type QueueReference struct {
	text  string
	queue *Expression
	at    *HostReference // nil for all hosts
}

// CompileQueueReference reads a queue reference. It requires a part before the "@" and a part after
// it: otherwise Grid Engine matches nothing.
func CompileQueueReference(hosts HostNames, text string) (*QueueReference, error) {
	queue, host, hasHost := strings.Cut(text, "@")
	if queue == "" || hasHost && (host == "" || host == "@") {
		return nil, fmt.Errorf("cannot read the queue reference %q: a part is empty, expected queue, queue@host or queue@@group", text)
	}
	r := &QueueReference{text: text}
	var err error
	if r.queue, err = Compile(String, queue); err != nil {
		return nil, err
	}
	if hasHost {
		if r.at, err = CompileHostReference(hosts, host); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// MatchQueue reports whether the reference can match an instance of a cluster queue.
func (r *QueueReference) MatchQueue(queue string) bool {
	return r != nil && r.queue.Match(queue)
}

// Match reports whether the reference matches the instance of a queue on a host.
func (r *QueueReference) Match(queue, host string, groups Groups) bool {
	return r.MatchQueue(queue) && (r.at == nil || r.at.Match(host, groups))
}

// Queue returns the part before the "@".
func (r *QueueReference) Queue() *Expression { return r.queue }

// Host returns the part after the "@", or nil if there is none.
func (r *QueueReference) Host() *HostReference { return r.at }

// String returns the reference as it was written.
func (r *QueueReference) String() string {
	if r == nil {
		return ""
	}
	return r.text
}

// QueueList is a wc_queue_list of sge_types(5). It matches what any of its elements matches; an
// empty list matches nothing.
type QueueList []*QueueReference

// MatchQueue reports whether the list can match an instance of a cluster queue.
func (l QueueList) MatchQueue(queue string) bool {
	for _, r := range l {
		if r.MatchQueue(queue) {
			return true
		}
	}
	return false
}

// Match reports whether the list matches the instance of a queue on a host.
func (l QueueList) Match(queue, host string, groups Groups) bool {
	for _, r := range l {
		if r.Match(queue, host, groups) {
			return true
		}
	}
	return false
}

// String returns the references, separated by commas.
func (l QueueList) String() string {
	items := make([]string, len(l))
	for i, r := range l {
		items[i] = r.String()
	}
	return strings.Join(items, ",")
}
