package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
)

// elements returns the start tags of a page with their attributes. The page has to be well-formed.
func elements(t *testing.T, text string) (list []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose = false, []string{"meta"} // elements without an end
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok {
			list = append(list, e.Copy())
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestPage(t *testing.T) {
	got, _, status := report(t, "--html", "--from", "2026-11-20", "--to", "2026-11-24")
	if status != 0 {
		t.Fatal(got)
	}
	var heights, widths []string
	for _, e := range elements(t, got) {
		switch name := e.Name.Local; {
		case name == "script" || name == "link" || name == "img" || name == "iframe" || attribute(e, "src") != "" || attribute(e, "href") != "":
			t.Errorf("the page loads something: %v", e)
		case name == "rect" && attribute(e, "height") == "18":
			widths = append(widths, attribute(e, "class")+" "+attribute(e, "width"))
		case name == "rect":
			heights = append(heights, attribute(e, "class")+" "+attribute(e, "x")+" "+attribute(e, "height"))
		}
	}
	// Four days by hours are 48 columns of two hours, each 12.5 wide. The first run ends at 13:01 on the first day.
	const want = "all 75 120 inner 75 90 all 225 30 inner 225 30"
	if text := strings.Join(heights, " "); !strings.HasPrefix(text, want) {
		t.Errorf("columns %s, expected %s...", text, want)
	}
	if text := strings.Join(widths, " "); !strings.HasPrefix(text, "all 450 inner 360 ") {
		t.Errorf("bars %s", text)
	}
	for _, want := range []string{
		`<tr><th scope="row">alice</th><td>2</td><td>1</td><td>5.0</td><td>4.0</td><td>80 %</td><td>25 %</td><td>0:02:00</td></tr>`,
		"<p>Runs that ended: 2026-11-20 00:00 to 2026-11-24 00:00. Made on 2026-11-23 13:00 UTC by execd report.</p>",
		"default-src &#39;none&#39;",
	} {
		if !strings.Contains(got, want) && !strings.Contains(got, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page has no %s\n%s", want, got)
		}
	}
	if empty, _, _ := report(t, "--html", "--from", "2027-01-01", "--to", "2027-01-02"); !strings.Contains(empty, "There are no records of jobs.") || strings.Contains(empty, "<svg") {
		t.Errorf("a time without records: %s", empty)
	}
	if _, stderr, status := report(t, "--html", "--json"); status != 2 || !strings.Contains(stderr, "--json and --html exclude each other") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestPageOfThisSecond makes a page in the first second of an hour, in which a run ended.
func TestPageOfThisSecond(t *testing.T) {
	hour := time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC)
	end := hour.Add(200 * time.Millisecond)
	in := accounting.AppendJSON(nil, &accounting.Record{
		Owner: "alice", Queue: "all.q", Job: 1, Slots: 1, Submitted: end.Add(-time.Hour), Start: end.Add(-time.Hour), End: end, Usage: job.Usage{Wallclock: 3600},
	})
	var out bytes.Buffer
	c := Command{Args: []string{"--html", "--from", "2026-11-23T03:00", "--file", "-"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: t.Output(), Now: hour.Add(time.Second / 2)}
	if status, err := c.Run(); status != ExitGood || err != nil {
		t.Fatal(status, err)
	}
	if want := "<title>2026-11-23 13:00: 1.0 slot hours, 0.0 of them used</title>"; !strings.Contains(out.String(), want) {
		t.Errorf("the page has no %s\n%s", want, out.String())
	}
}

// TestHostilePage makes a page of names that contain HTML and control characters, and of impossible times.
func TestHostilePage(t *testing.T) {
	var in []byte
	for i, end := range []time.Time{time.Unix(1, 0), time.Unix(1<<40, 0), begin} {
		in = accounting.AppendJSON(in, &accounting.Record{
			Owner: "</title><script>alert(1)</script>\u202e\x1b\x07" + strings.Repeat("字", 100), Queue: `"><b>`, Project: "'", Job: 1 + i, Slots: 1,
			Submitted: end.Add(-time.Hour), Start: end.Add(-time.Hour), End: end, Usage: job.Usage{Wallclock: 3600, CPU: 1e300},
		})
	}
	in = accounting.AppendJSON(in, &accounting.Record{Owner: "backwards", Queue: "all.q", Job: 4, Slots: 1, Submitted: begin, Start: begin.Add(time.Hour), End: begin.AddDate(0, 0, 3), Usage: job.Usage{Wallclock: -3600, CPU: -1}})
	var out bytes.Buffer
	c := Command{Args: []string{"--all", "--html", "--file", "-"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: t.Output(), Now: begin}
	if status, err := c.Run(); status != ExitGood || err != nil {
		t.Fatal(status, err)
	}
	got := out.String()
	elements(t, got)
	for _, evil := range []string{"<script", "<b>", "\x1b", "\x07", "\u202e", "NaN", "Inf", `="-`} {
		if strings.Contains(got, evil) {
			t.Errorf("the page contains %q", evil)
		}
	}
	if n := len(regexp.MustCompile(`<rect class="all" x="[0-9.]+" y=`).FindAllString(got, -1)); n > 2*mostBins+3*mostBars {
		t.Errorf("%d columns", n)
	}
}
