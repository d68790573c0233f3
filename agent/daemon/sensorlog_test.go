package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/loadsensor/protocol"
)

// TestSensorLog checks that a sensor's repeated faults are not logged with each report.
func TestSensorLog(t *testing.T) {
	var out bytes.Buffer
	l := newSensorLog(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info, DisableTime: true}))
	garbled := func(text string, line int) external.Event {
		return external.Event{Path: "/s", Kind: external.Violated, Text: text, Violation: &protocol.Violation{Line: line, Text: text, Problem: "p"}}
	}
	for line := range 3 {
		l.event(external.Event{Path: "/s", Kind: external.Reported, Text: "report"})
		l.event(garbled("first", line))
		l.event(garbled("second", line))
	}
	l.event(external.Event{Path: "/s", Kind: external.Failed, Text: "failed"})
	l.event(external.Event{Path: "/s", Kind: external.Started, Text: "started"})
	want := "[WARN]  load sensor: sensor=/s event=first\n[WARN]  load sensor: sensor=/s event=second\n" +
		"[WARN]  load sensor: sensor=/s event=failed\n[INFO]  load sensor: sensor=/s event=started\n"
	if got := out.String(); got != want {
		t.Errorf("%s\nexpected\n%s", strings.TrimSpace(got), want)
	}
}
