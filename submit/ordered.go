package submit

import "strings"

// ordered is a list that keeps the order of insertion and finds each entry by its key. A command
// line can have so many entries that a linear search for each one would take minutes.
type ordered[K comparable, V any] struct {
	entries []entry[V]
	at      map[K]int
}

type entry[V any] struct {
	value V
	gone  bool
}

// variables is an ordered list of variables by name.
type variables = ordered[string, Variable]

// resourceKey identifies a resource that can have one request.
type resourceKey struct {
	name string
	soft bool
}

// variablesOf returns an ordered list with the given variables, for further changes.
func variablesOf(list []Variable) *variables {
	l := &variables{}
	for _, v := range list {
		l.set(v.Name, v)
	}
	return l
}

// set replaces the value with the key, or appends the value.
func (l *ordered[K, V]) set(key K, value V) {
	if i, ok := l.at[key]; ok {
		l.entries[i].value = value
		return
	}
	if l.at == nil {
		l.at = map[K]int{}
	}
	l.at[key] = len(l.entries)
	l.entries = append(l.entries, entry[V]{value: value})
}

// remove removes the value with the key.
func (l *ordered[K, V]) remove(key K) {
	if i, ok := l.at[key]; ok {
		l.entries[i] = entry[V]{gone: true}
		delete(l.at, key)
	}
}

// all returns the current list; nil if nothing was ever inserted.
func (l *ordered[K, V]) all() []V {
	if l.entries == nil {
		return nil
	}
	list := make([]V, 0, len(l.at))
	for _, e := range l.entries {
		if !e.gone {
			list = append(list, e.value)
		}
	}
	return list
}

// byHost is a list of entries per host: a later option replaces the entries of earlier ones for the
// same host.
type byHost[V any] struct {
	entries []hostEntry[V]
	last    map[string]int // the last option with an entry, by host in lower case
	options int
}

type hostEntry[V any] struct {
	value  V
	host   string
	option int
}

// add adds the entries of an option.
func (l *byHost[V]) add(list []V, host func(V) string) {
	if l.last == nil {
		l.last = map[string]int{}
	}
	l.options++
	for _, v := range list {
		h := strings.ToLower(host(v))
		l.last[h] = l.options
		l.entries = append(l.entries, hostEntry[V]{v, h, l.options})
	}
}

// all returns the current list; nil if it is empty.
func (l *byHost[V]) all() (list []V) {
	for _, e := range l.entries {
		if l.last[e.host] == e.option {
			list = append(list, e.value)
		}
	}
	return list
}

// environment finds variables in a list of NAME=value. It reads the list at the first lookup.
type environment struct {
	list  []string
	value map[string]string
}

// lookup finds a variable. As with getenv(3), the first occurrence counts.
func (e *environment) lookup(name string) string {
	if e.value == nil {
		e.value = make(map[string]string, len(e.list))
		for _, x := range e.list {
			if n, v, ok := strings.Cut(x, "="); ok {
				if _, known := e.value[n]; !known {
					e.value[n] = v
				}
			}
		}
	}
	return e.value[name]
}
