package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	systemd "github.com/coreos/go-systemd/v22/journal"

	"github.com/execd-project/execd/internal/printable"
)

// mostEntries is the maximum number of lines that wait for the journal. Further lines are only in
// the file.
const mostEntries = 1024

// journal sends records to the systemd journal (systemd-journald(8)), in the background. A nil
// journal sends nothing.
type journal struct {
	write   func(message string, fields map[string]string) error
	entries chan []byte
	done    sync.WaitGroup
}

// openJournal returns the journal of this host, or nil if there is none.
func openJournal() *journal {
	if !systemd.Enabled() {
		return nil
	}
	return newJournal(func(message string, fields map[string]string) error {
		return systemd.Send(message, systemd.PriNotice, fields)
	})
}

func newJournal(send func(message string, fields map[string]string) error) *journal {
	j := &journal{write: send, entries: make(chan []byte, mostEntries)}
	j.done.Go(func() {
		for line := range j.entries {
			message, fields := entry(line)
			_ = j.write(message, fields) // it is in the file
		}
	})
	return j
}

func (j *journal) send(lines []byte) {
	if j == nil {
		return
	}
	for line := range bytes.Lines(lines) {
		select {
		case j.entries <- bytes.Clone(bytes.TrimSpace(line)):
		default:
		}
	}
}

func (j *journal) close() {
	if j != nil {
		close(j.entries)
		j.done.Wait()
	}
}

// entry returns a line as an entry of the journal: its fields, and the line as a whole.
func entry(line []byte) (message string, fields map[string]string) {
	fields = map[string]string{"SYSLOG_IDENTIFIER": "execd-audit", "EXECD_AUDIT_RECORD": string(line)}
	var r Record
	if json.Unmarshal(line, &r) != nil {
		return string(line), fields
	}
	set := func(name, value string) {
		if value != "" {
			fields["EXECD_AUDIT_"+name] = value
		}
	}
	who := r.Caller.User
	if u := r.Caller.UID; u != nil {
		set("UID", strconv.FormatUint(uint64(*u), 10))
	}
	if r.Caller.Certificate != "" {
		who = r.Caller.Certificate
	}
	if who == "" {
		who = r.Caller.Via
	}
	set("ID", r.ID)
	set("USER", r.Caller.User)
	set("CERTIFICATE", r.Caller.Certificate)
	set("REMOTE", r.Caller.Remote)
	set("VIA", r.Caller.Via)
	set("COMMAND", r.Command)
	set("OUTCOME", string(r.Outcome))
	message = who + ": " + r.Command + " " + string(r.Outcome)
	for i, o := range r.Objects {
		if i == 3 {
			message += ", ..."
			break
		}
		message += ", " + o.Kind + " " + o.Name + " " + o.Change
	}
	return printable.String(message), fields
}
