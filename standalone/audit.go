package standalone

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

// The audit log records the changes that commands make. The commands do not report their changes:
// the log compares the records of the cell before and after a command, so that it cannot miss a
// change. Its lines are in the same commit as the changes, and are removed from the store once they
// are in the file and on the disk. If the daemon is killed in between, the next daemon writes them
// to the file. Configuration files are not in the store, so their record is written to the file
// before the change.

// auditPrefix begins the keys of lines that may not be in the file yet.
const auditPrefix = ownPrefix + "audit/"

// trail is the state of the audit log in this process.
type trail struct {
	next uint64 // number of the next key
	kept []line
	// unwritten is the number of bytes of kept that the log has not accepted, because too much
	// already waits for the file. They are read from the store again when there is room.
	unwritten int
	lost      uint64 // lost records that the log does not mention yet
}

// line is a committed line that may not be on the disk yet.
type line struct {
	key    string
	number uint64 // from Log.Write; if size is 0, 0 means that the line is on the disk
	size   int    // of a line that the log has not accepted
}

const (
	// mostUnwritten is the maximum number of bytes of lines in the store while the file cannot be
	// written, and unwrittenPause the time between attempts.
	mostUnwritten  = 64 << 20
	unwrittenPause = time.Second
	// keyLost has the number of records that there was no room for.
	keyLost = ownPrefix + "audit-lost"
)

// audited is a command whose record goes to the audit log; nil for a command without one.
type audited struct {
	m      *Master
	record audit.Record
}

// audit begins the record of a command. It first collects earlier changes, for example by time,
// which are not due to the command.
func (m *Master) audit(caller audit.Caller, q *api.CommandRequest, in *command.Input) *audited {
	if m.host.Audit == nil || onlyShows(q) {
		return nil
	}
	m.follow(m.cell.Tick(m.now()).Actions)
	m.collect()
	return &audited{m: m, record: audit.Record{
		ID: m.host.Audit.NewID(), Caller: caller, Command: q.Name, Args: audit.WithoutValues(in.Args),
	}}
}

// callerOf returns the user of a command on the socket.
func callerOf(c *serve.Call) *caller {
	uid := c.User.UID
	return &caller{c.User, audit.Caller{Via: "socket", UID: &uid, User: c.User.Name, PID: c.PID}}
}

// writes notes in the file which files of the configuration are about to change, and waits for
// the disk. The error is for a log without which nothing may change.
func (a *audited) writes(list []command.Write) error {
	if a == nil {
		return nil
	}
	r := a.record
	r.Outcome = audit.Begun
	for _, w := range list {
		is := w.Text
		if w.Remove {
			is = nil
		}
		kind, name, _ := strings.Cut(w.Path, "/")
		if o, changed := audit.Compare(kind, name, audit.Text(w.Old), audit.Text(is)); changed {
			r.Objects = append(r.Objects, o)
		}
	}
	if len(r.Objects) == 0 {
		return nil
	}
	if err := a.m.host.Audit.Add(&r, true); err != nil && a.m.host.Audit.Check() != nil {
		return err
	}
	return nil
}

// done adds a record of the command's changes, or of its refusal, to the next commit. begun says
// that there already is a record of files that the command was about to change, and changed that it
// has changed them.
func (a *audited) done(answer *api.CommandAnswer, begun, changed bool) {
	if a == nil {
		return
	}
	r := a.record
	r.Objects, r.Exit, r.Outcome = a.m.objects(), answer.Exit, audit.Done
	if r.Exit != 0 {
		r.Error = string(answer.Stderr)
		if r.Error == "" {
			r.Error = string(answer.Stdout) // where qdel and others say it
		}
		r.Error = audit.TextWithoutValues(strings.TrimSpace(r.Error))
	}
	switch {
	case begun && !changed && len(r.Objects) == 0:
		r.Outcome = audit.Failed
		_ = a.m.host.Audit.Add(&r, false) // the previous record names the attempt
	case len(r.Objects) > 0 || begun && r.Exit != 0:
		a.m.batch.audit = append(a.m.batch.audit, &r)
	case r.Exit != 0:
		r.Outcome = audit.Refused
		a.m.host.Audit.Refuse(&r, a.m.clock.Now())
	}
}

// failed notes that a command could not be carried out.
func (a *audited) failed(err error) {
	if a == nil {
		return
	}
	a.record.Outcome, a.record.Error = audit.Failed, err.Error()
	_ = a.m.host.Audit.Add(&a.record, false) // the answer is an error already
}

// collect adds the changes of the cell to the batch.
func (m *Master) collect() {
	list := m.taken()
	if len(list) > 0 && m.batch.latest == nil {
		m.batch.latest = map[string][]byte{}
	}
	for _, c := range list {
		m.batch.latest[c.Key] = c.Value
		m.batch.size += int64(len(c.Value))
	}
	m.batch.changes = append(m.batch.changes, list...)
}

// objects adds the changes of the cell to the batch, and returns the old and new state of the
// changed objects.
func (m *Master) objects() []audit.Object {
	before := map[string][]byte{}
	list := m.taken()
	for _, c := range list {
		if _, ok := kinds[prefixOf(c.Key)]; !ok {
			continue
		}
		value, ok := m.batch.latest[c.Key]
		if !ok {
			value, _ = m.read(c.Key) // unreadable values are left out
		}
		before[c.Key] = value
	}
	if m.batch.latest == nil {
		m.batch.latest = map[string][]byte{}
	}
	type object struct{ was, is map[string]any }
	found := map[[2]string]*object{}
	var order [][2]string
	for _, c := range list {
		m.batch.latest[c.Key] = c.Value
		m.batch.size += int64(len(c.Value))
		kind, ok := kinds[prefixOf(c.Key)]
		if !ok {
			continue
		}
		name := [2]string{kind, nameOf(c.Key)}
		o := found[name]
		if o == nil {
			o = &object{}
			found[name] = o
			order = append(order, name)
		}
		addTo(&o.was, c.Key, before[c.Key])
		addTo(&o.is, c.Key, c.Value)
	}
	m.batch.changes = append(m.batch.changes, list...)
	var objects []audit.Object
	for _, name := range order {
		o := found[name]
		if x, changed := audit.Compare(name[0], name[1], o.was, o.is); changed && len(x.Attributes) > 0 { // otherwise only internal marks changed
			for key, hide := range hidden {
				if a, ok := x.Attributes[key]; ok {
					x.Attributes[key] = audit.Attribute{Was: hide(a.Was), Is: hide(a.Is)}
				}
			}
			objects = append(objects, x)
		}
	}
	return objects
}

// kinds maps the prefix of a record's key to the kind of its object. Missing prefixes belong to
// values that commands do not change: assigned numbers, and usage.
var kinds = map[string]string{
	"job": "job", "request": "job", "script": "job", "task": "task", "user": "user", "project": "project",
	"host": "host", "queue": "queue_instance", "orphan": "orphan", "reservation": "reservation",
}

// concern reports whether the changes contain more than assigned numbers and usage.
func concern(changes []store.Change) bool {
	return slices.ContainsFunc(changes, func(c store.Change) bool { return kinds[prefixOf(c.Key)] != "" })
}

func prefixOf(key string) string {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix
}

// nameOf returns the name of a record's object: numbers without leading zeros, and for a task the
// two numbers with a point between them.
func nameOf(key string) string {
	prefix, name, _ := strings.Cut(key, "/")
	switch prefix {
	case "job", "request", "script", "task", "reservation":
		words := strings.Split(name, "/")
		for i, w := range words {
			if n, err := strconv.ParseUint(w, 10, 32); err == nil {
				words[i] = strconv.FormatUint(n, 10)
			}
		}
		return strings.Join(words, ".")
	}
	return name
}

// marks are attributes of records that order and date them, and say nothing of their own.
var marks = []string{"v", "changed", "started", "stamp"}

// addTo adds the attributes of a record to the attributes of an object.
func addTo(to *map[string]any, key string, value []byte) {
	if value == nil {
		return
	}
	if *to == nil {
		*to = map[string]any{}
	}
	var record map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&record) != nil {
		(*to)["record"] = fmt.Sprintf("%d bytes that cannot be read", len(value))
		return
	}
	if prefixOf(key) == "script" {
		text, _ := record["text"].(string)
		size, sum := strconv.Itoa(len(text)), cell.ScriptSum([]byte(text))
		if beside, is := cell.ScriptOf(key, value); is && beside != "" {
			n, _ := record["size"].(json.Number)
			size, sum = n.String(), beside
		}
		(*to)["script"] = fmt.Sprintf("%s bytes, SHA-256 %s", size, sum)
		return
	}
	if fields, ok := record["request"].(map[string]any); ok && prefixOf(key) == "request" {
		delete(record, "request")
		maps.Copy(*to, fields)
	}
	for name, v := range record {
		if !slices.Contains(marks, name) {
			(*to)[name] = v
		}
	}
}

// hidden are the attributes that contain variables; the log contains only the names of these.
var hidden = map[string]func(any) any{"env": variableNames, "origin": withoutEnvironment, "request": withoutEnvironment}

func variableNames(v any) any {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	names := make([]any, 0, len(list))
	for _, x := range list {
		switch x := x.(type) {
		case string:
			name, _, _ := strings.Cut(x, "=")
			names = append(names, name)
		case map[string]any:
			names = append(names, x["Name"])
		}
	}
	return names
}

func withoutEnvironment(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	shown := map[string]any{}
	for name, value := range fields {
		switch name {
		case "env", "environment":
			shown[name] = variableNames(value)
		default:
			shown[name] = value
		}
	}
	return shown
}

// auditChanges returns the lines of the batch as a record of the store, and the removals of lines
// that are in the file. The key is empty if the store has no room for the lines.
func (m *Master) auditChanges() (list []store.Change, lines []byte, key string) {
	m.writeTrail()
	for _, r := range m.batch.audit {
		lines = append(lines, m.host.Audit.Lines(r)...)
	}
	synced := m.host.Audit.Synced()
	for _, l := range m.trail.kept {
		if l.size == 0 && l.number <= synced {
			list = append(list, store.Change{Key: l.key})
		}
	}
	switch {
	case len(lines) == 0:
	case m.trail.unwritten > 0 && m.trail.unwritten+len(lines) > mostUnwritten:
		list = append(list, store.Change{Key: keyLost, Value: strconv.AppendUint(nil, m.trail.lost+uint64(len(m.batch.audit)), 10)})
	default:
		key = fmt.Sprintf("%s%020d", auditPrefix, m.trail.next)
		m.trail.next++
		list = append(list, store.Change{Key: key, Value: lines})
	}
	return list, lines, key
}

// auditCommitted writes committed lines to the file; number is the number of their records.
func (m *Master) auditCommitted(lines []byte, key string, number int, removed []store.Change) {
	gone := map[string]bool{}
	for _, c := range removed {
		gone[c.Key] = c.Value == nil
	}
	if len(gone) > 0 {
		m.trail.kept = slices.DeleteFunc(m.trail.kept, func(l line) bool { return gone[l.key] })
	}
	switch {
	case len(lines) == 0:
	case key == "":
		m.trail.lost += uint64(number)
	case m.trail.unwritten > 0: // older lines come first
		m.keepLine(line{key: key, size: len(lines)})
	default:
		m.writeLine(key, lines)
	}
}

// writeLine hands lines of the store to the log, which retries those that it cannot write.
func (m *Master) writeLine(key string, lines []byte) {
	number, err := m.host.Audit.Write(lines)
	l := line{key: key, number: number}
	if number == 0 && err != nil {
		l.size = len(lines)
	}
	m.keepLine(l)
}

func (m *Master) keepLine(l line) {
	m.trail.kept = append(m.trail.kept, l)
	m.trail.unwritten += l.size
}

// writeTrail hands the log the lines that it had no room for.
func (m *Master) writeTrail() {
	if m.trail.unwritten == 0 && m.trail.lost == 0 || m.host.Audit.Check() != nil || m.host.Audit.Err() != nil {
		return
	}
	for i := range m.trail.kept {
		l := &m.trail.kept[i]
		if l.size == 0 {
			continue
		}
		text, err := m.read(l.key)
		if err != nil {
			return
		}
		number, err := m.host.Audit.Write(text)
		if number == 0 && err != nil {
			return
		}
		m.trail.unwritten -= l.size
		l.number, l.size = number, 0
	}
	if m.trail.lost > 0 {
		m.host.Audit.Lose(m.trail.lost)
		m.trail.lost = 0
		m.batch.records = append(m.batch.records, store.Change{Key: keyLost})
	}
}

// waitForTrail returns the time until the next retry of the audit log.
func (m *Master) waitForTrail(d time.Duration) time.Duration {
	if m.trail.unwritten > 0 || m.trail.lost > 0 {
		return min(d, unwrittenPause)
	}
	return d
}

// auditFailed records that the changes of commands were not committed.
func (m *Master) auditFailed(list []*audit.Record, err error) {
	for _, r := range list {
		r.Outcome, r.Error, r.Objects = audit.Failed, err.Error(), nil
		_ = m.host.Audit.Add(r, false)
	}
}

// restoreTrail writes lines to the file that a daemon has committed which was killed.
func (m *Master) restoreTrail() error {
	var list []store.Change
	for key, value := range m.store.All(auditPrefix) {
		list = append(list, store.Change{Key: key, Value: bytes.Clone(value)})
	}
	if err := m.store.Err(); err != nil {
		return err
	}
	if m.host.Audit == nil {
		return nil // until there is one again
	}
	var there uint64 // the number of lines that the file has: they may not be on the disk
	if m.host.Audit.Sync() != nil {
		there = 1
	}
	for _, c := range list {
		if n, err := strconv.ParseUint(strings.TrimPrefix(c.Key, auditPrefix), 10, 64); err == nil {
			m.trail.next = max(m.trail.next, n+1)
		}
		switch {
		case m.host.Audit.Has(c.Value):
			m.keepLine(line{key: c.Key, number: there})
		case m.trail.unwritten > 0:
			m.keepLine(line{key: c.Key, size: len(c.Value)})
		default:
			m.writeLine(c.Key, c.Value)
		}
	}
	text, err := m.read(keyLost)
	if err != nil {
		return err
	}
	m.trail.lost, _ = strconv.ParseUint(string(text), 10, 64) // none is 0
	return nil
}

// endTrail writes all lines to the disk, and removes them from the store.
func (m *Master) endTrail() {
	m.writeTrail()
	if len(m.trail.kept) == 0 || m.host.Audit.Sync() != nil {
		return
	}
	list, lines, _ := m.auditChanges()
	if list = append(list, m.batch.records...); len(lines) == 0 && len(list) > 0 && m.store.Commit(list) == nil {
		m.auditCommitted(nil, "", 0, list)
	}
}
