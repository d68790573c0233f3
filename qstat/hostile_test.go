package qstat

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile are texts that are orders to a terminal, or lines of their own, and the same text as it
// is where nothing is the matter with it.
var hostile = []string{
	"\x1b]0;owned\a\x1b[2J", "x\nforged_line: 1\n", "x\r\tforged", "\x9b2J", "\u009b2J", "\u202e\u2066\u200f", "\u2028forged\u2029", "\x7f\x00", "b\xff", "plain",
}

// fill sets every string of a value to a text, whatever it is in, and has a bit of everything.
func fill(v reflect.Value, text string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text, depth-1)
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text, depth-1)
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Uint8: // a phase
		v.SetUint(uint64(Running))
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

func filled[T any](text string) T {
	var x T
	fill(reflect.ValueOf(&x).Elem(), text, 6)
	return x
}

// everything returns, as text, XML and JSON, all that can be shown of a cell in which every text is
// the given one.
func everything(t *testing.T, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string, b []byte) { all[name] = string(b) }
	var c Cell
	for _, phase := range []Phase{Pending, Running, Finished} {
		j := filled[Job](text)
		j.ID = int(phase) + 1
		j.Tasks[0].Phase = phase
		c.Jobs = append(c.Jobs, j)
	}
	c.Queues, c.Hosts = []QueueInstance{filled[QueueInstance](text)}, []Host{filled[Host](text)}
	elsewhere := filled[Job](text)
	elsewhere.ID, elsewhere.Tasks[0].Grants[0].Queue = 4, c.Queues[0].Name()
	c.Jobs = append(c.Jobs, elsewhere)
	for name, o := range map[string]Options{
		"list": {}, "full": {Full: true}, "everything": {Full: true, Resources: true, Explain: "aAcE", Requests: true, Extended: true, LoadName: text},
		"numbers": {Urgency: true, Priorities: true, Requests: true}, "tasks": {Subtasks: true, Extended: true, QueueWidth: -1}, "wide": {QueueWidth: -1},
	} {
		add("qstat "+name, c.AppendText(nil, o))
		add("qstat "+name+".xml", c.AppendXML(nil, o))
	}
	for name, o := range map[string]HostOptions{"all": {Resources: true, Selected: true, Queues: true, Jobs: true}, "jobs": {Jobs: true}} {
		add("qhost "+name, c.AppendHosts(nil, o))
		add("qhost "+name+".xml", c.AppendHostsXML(nil, o))
	}
	detail := filled[JobDetail](text)
	detail.Withheld, detail.Verification = nil, "" // which are words of ours
	other := detail
	other.Withhold()
	add("qstat -j", AppendDetails(nil, []JobDetail{detail, other}, DetailOptions{}))
	add("qstat -j.xml", AppendDetailsXML(nil, []JobDetail{detail, other}, DetailOptions{}))
	reasons, groups := filled[[]Reason](text), filled[[]ReasonGroup](text)
	add("reasons", AppendReasons(nil, reasons, groups))
	add("reasons.xml", AppendReasonsXML(nil, reasons, groups))
	add("info", AppendSchedulingInfo(nil, reasons))
	add("unknown", AppendUnknownJobs(nil, []string{text, text}))
	add("unknown.xml", AppendUnknownJobsXML(nil, []string{text, text}))
	quotas, reservations, summary := filled[[]QuotaRow](text), filled[[]Reservation](text), filled[[]QueueSummary](text)
	add("qquota", AppendQuotas(nil, quotas))
	add("qquota.xml", AppendQuotasXML(nil, quotas))
	add("qrstat", AppendReservations(nil, reservations, true, nil))
	add("qrstat.xml", AppendReservationsXML(nil, reservations, false, true, nil))
	add("qrstat -ar", AppendReservationDetails(nil, reservations, nil))
	add("qrstat -ar.xml", AppendReservationsXML(nil, reservations, true, true, nil))
	add("qrstat unknown.xml", AppendUnknownReservationsXML(nil, []string{text}))
	add("summary", AppendSummary(nil, summary, Options{Extended: true, QueueWidth: -1}))
	add("summary.xml", AppendSummaryXML(nil, summary, Options{Extended: true}))
	shares, entries := filled[[]ShareRow](text), filled[[]ScheduleEntry](text)
	for name, format := range map[string]string{"": "", "wide ": "<%-40s>", "short ": "%.9s"} {
		add(name+"shares", AppendShares(nil, [][]ShareRow{shares}, ShareOptions{Header: true, Names: true, Text: format}))
	}
	add("schedule", AppendSchedule(nil, entries))
	document := filled[Document](text)
	b, err := document.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	add("document.json", b)
	return all
}

// TestHostileText shows a cell in which every text that there is was chosen by somebody hostile:
// whatever a view is made of, and whatever is added to it, it has as many lines as with harmless
// text, and nothing in it is an order to a terminal.
func TestHostileText(t *testing.T) {
	harmless := everything(t, "plain")
	for _, text := range hostile {
		for name, shown := range everything(t, text) {
			if got, want := strings.Count(shown, "\n"), strings.Count(harmless[name], "\n"); got != want && text != "plain" {
				t.Errorf("%s of %q has %d lines, want %d:\n%s", name, text, got, want, shown)
			}
			if !utf8.ValidString(shown) {
				t.Errorf("%s of %q is no UTF-8", name, text)
			}
			if i := strings.IndexFunc(shown, forbidden); i >= 0 {
				t.Errorf("%s of %q has %q", name, text, shown[i:min(len(shown), i+8)])
			}
			switch {
			case strings.HasSuffix(name, ".json") && !json.Valid([]byte(shown)):
				t.Errorf("%s of %q is no JSON: %s", name, text, shown)
			case strings.HasSuffix(name, ".xml"):
				for d := xml.NewDecoder(strings.NewReader(shown)); ; {
					if _, err := d.Token(); err != nil {
						if !errors.Is(err, io.EOF) {
							t.Errorf("%s of %q: %v\n%s", name, text, err, shown)
						}
						break
					}
				}
			}
		}
	}
}

// forbidden are characters that are never printed but for line breaks, and for tabs, which some
// views have between their columns.
func forbidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
}

// TestTabs checks that a tab in a text of a user does not begin a column.
func TestTabs(t *testing.T) {
	harmless := everything(t, "plain")
	for name, shown := range everything(t, "a\tb") {
		if got, want := strings.Count(shown, "\t"), strings.Count(harmless[name], "\t"); got != want {
			t.Errorf("%s has %d tabs, want %d:\n%s", name, got, want, shown)
		}
	}
}

// TestXMLParserReadsEveryText writes texts and parses them again. Texts that XML can contain are
// unchanged; all others are in their printable form.
func TestXMLParserReadsEveryText(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\tc\rd": "a\nb\tc\rd", "\u009b2J\u202e\x7f": "\u009b2J\u202e\x7f", "\x1b[2J\n": `\x1b[2J\x0a`, "b\xff": `b\xff`, "<&>\"'": "<&>\"'", "\ufffd": "\ufffd",
	} {
		var document struct {
			Names []string `xml:"ST_name"`
		}
		shown := AppendUnknownJobsXML(nil, []string{text})
		if err := xml.Unmarshal(shown, &document); err != nil || !slices.Equal(document.Names, []string{want}) {
			t.Errorf("%q is read as %q, %v\n%s", text, document.Names, err, shown)
		}
	}
}
