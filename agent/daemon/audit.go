package daemon

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/internal/textfile"
)

// openAudit opens the audit log if the options ask for one.
func (d *daemon) openAudit() (err error) {
	if d.settings.audit == "" {
		return nil
	}
	log := d.logOf("audit")
	d.audit, err = audit.Open(audit.Options{
		Path: d.settings.audit, Host: d.host, Daemon: d.name(), Journal: true, Required: d.auditRequired,
		Report: func(err error) {
			if err != nil {
				log.Error("the audit log cannot be written: records wait", "required", d.auditRequired, "error", err)
			} else {
				log.Info("the audit log can be written again")
			}
		},
	})
	return err
}

// name returns the name of the daemon: agent or standalone.
func (d *daemon) name() string {
	return d.Name
}

// known holds the configuration files as last recorded in the audit log, and the caller that is
// currently reloading them.
type known struct {
	mu     sync.Mutex
	files  map[string][]byte
	reader reader
}

// reader is a caller that reloads the configuration.
type reader struct {
	command string
	id      string
	caller  audit.Caller
	// told are the files, by path, that already have a record. Other new files come from the
	// built-in configuration.
	told map[string][]byte
}

// useFor applies a configuration and records the reader r as its cause.
func (d *daemon) useFor(r reader) error {
	d.known.mu.Lock()
	before := d.known.reader
	d.known.reader = r
	d.known.mu.Unlock()
	err := d.use()
	d.known.mu.Lock()
	d.known.reader = before
	d.known.mu.Unlock()
	if err != nil && r.told == nil {
		_ = d.audit.Add(&audit.Record{ID: r.id, Caller: r.caller, Command: r.command, Outcome: audit.Refused, Error: err.Error()}, false)
	}
	return err
}

// useForCall returns the function that applies a configuration for the caller of the API.
func (d *daemon) useForCall(ctx context.Context) func() error {
	id, caller := audit.Call(ctx)
	return func() error { return d.useFor(reader{command: "configuration", id: id, caller: caller}) }
}

// noteConfiguration records the changes of the configuration that has just been taken into use.
func (d *daemon) noteConfiguration() {
	if d.audit == nil {
		return
	}
	files := d.configuration.texts()
	d.known.mu.Lock()
	was, r := d.known.files, d.known.reader
	d.known.files = files
	d.known.mu.Unlock()
	if was == nil {
		return
	}
	if r.command == "" {
		r.command, r.caller = "configuration", audit.Caller{Via: "socket"}
	}
	record := &audit.Record{ID: r.id, Caller: r.caller, Command: r.command, Outcome: audit.Done}
	all := maps.Clone(was)
	maps.Copy(all, files)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if _, told := r.told[path]; told || r.told != nil && was[path] == nil {
			continue
		}
		kind, name, _ := strings.Cut(path, "/")
		if o, changed := audit.Compare(kind, name, audit.Text(was[path]), audit.Text(files[path])); changed {
			record.Objects = append(record.Objects, o)
		}
	}
	if len(record.Objects) > 0 {
		_ = d.audit.Add(record, true)
	}
}

// texts returns the files of the configuration in use, by their paths below its directory.
// Unreadable files are left out: the agent could not use them either.
func (c *configuration) texts() map[string][]byte {
	texts := map[string][]byte{}
	dir := c.current()
	if dir == "" {
		return texts
	}
	files := os.DirFS(dir)
	_ = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if text, err := textfile.ReadFS(files, path, textfile.MaxConfig); err == nil {
				texts[path] = append([]byte{}, text...) // not nil, which is for none
			}
		}
		return nil
	})
	return texts
}

// auditCounts returns the function that gives the metrics of the audit log, nil without a log.
func (d *daemon) auditCounts() func() (failures, lost uint64) {
	if d.audit == nil {
		return nil
	}
	return d.audit.Counts
}
