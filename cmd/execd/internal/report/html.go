package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// page is the text of the HTML report. It contains its style and its plots, and no script.
//
//go:embed report.html
var page string

const (
	// mostBins is the maximum number of columns of a plot.
	mostBins = 60
	// mostBars is the maximum number of names in a plot; the table has all of them.
	mostBars = 12
)

// document is the data of the HTML report.
type document struct {
	*view
	Made   time.Time
	Period string
	Plots  []plot
	Tables []group
}

// plot is a picture of columns over the time.
type plot struct {
	Title, Unit string
	Columns     []bar
	Top         string // label of the upper end of the axis
	First, Last string // labels of the ends of the time
}

// bar is a column of a plot, or a line of a picture of names. Lengths are in units of the picture.
type bar struct {
	X, Y, Width, Height float64
	Inner               float64 // a part of the bar that was used, as long as Height
	Text                string  // for readers of the picture
	Name, Hours         string
}

// InnerY returns the upper end of the inner part of a column.
func (b bar) InnerY() float64 { return round(plotHeight - b.Inner) }

// After returns the place of the number behind a bar.
func (b bar) After() float64 { return round(barLeft + b.Width + 5) }

// Short returns the name, cut to the room on the left of a bar.
func (b bar) Short() string {
	if r := []rune(b.Name); len(r) > mostLetters {
		return string(r[:mostLetters-1]) + "…"
	}
	return b.Name
}

// group is a table with its picture.
type group struct {
	Head   string
	Rows   []row
	Total  row
	Bars   []bar
	Height float64
}

// The size of plots.
const (
	plotWidth, plotHeight = 600.0, 120.0
	barWidth, barStep     = 450.0, 22.0
	barLeft               = 160.0
	mostLetters           = 20 // of a name on the left of a bar
)

// html writes the report for a browser.
func (v *view) html(w io.Writer, s *sums, now time.Time) error {
	d := document{view: v, Made: now, Period: "all records"}
	if v.To != nil {
		d.Period = v.From.In(now.Location()).Format("2006-01-02 15:04") + " to " + v.To.In(now.Location()).Format("2006-01-02 15:04")
	}
	d.Plots = plots(s, now.Location())
	for _, t := range []group{{Head: "User", Rows: v.Users}, {Head: "Project", Rows: v.Projects}, {Head: "Queue", Rows: v.Queues}} {
		if len(t.Rows) > 0 {
			t.Total = v.Total
			t.draw()
			d.Tables = append(d.Tables, t)
		}
	}
	text := func(s string) string { return printable.String(s) }
	parsed, err := template.New("report").Funcs(template.FuncMap{"text": text, "hours": hours, "percent": percent, "span": span}).Parse(page)
	if err != nil {
		return err
	}
	return parsed.Execute(w, d)
}

// draw makes the picture of the names with the most slot hours.
func (t *group) draw() {
	most := 0.0
	for _, r := range t.Rows {
		most = max(most, r.SlotSeconds)
	}
	for i, r := range t.Rows[:min(len(t.Rows), mostBars)] {
		b := bar{Y: float64(i) * barStep, Name: r.Name, Hours: hours(r.SlotSeconds), Text: hours(r.SlotSeconds) + " slot hours, " + hours(r.CPU) + " CPU hours"}
		if most > 0 {
			b.Width = round(max(r.SlotSeconds, 0) / most * barWidth)
			b.Inner = round(max(min(r.CPU, r.SlotSeconds), 0) / most * barWidth)
		}
		t.Bars = append(t.Bars, b)
	}
	t.Height = float64(len(t.Bars)) * barStep
}

// plots returns the pictures over the time: slot hours with the CPU hours in them, and runs with the
// failed ones in them. There are none without runs.
func plots(s *sums, zone *time.Location) []plot {
	if len(s.at) == 0 {
		return nil
	}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for at := range s.at {
		first, last = min(first, at), max(last, at)
	}
	if !s.to.IsZero() {
		first, last = (s.from.Unix()+s.shift)/s.step, (s.to.Add(-1).Unix()+s.shift)/s.step
	}
	each := (last-first)/mostBins + 1 // steps in a column
	columns := make([]usage, (last-first)/each+1)
	for at, u := range s.at {
		columns[(at-first)/each].add(u)
	}
	label := func(at int64) string { return time.Unix(at*s.step-s.shift, 0).In(zone).Format("2006-01-02 15:04") }
	picture := func(title, unit string, value func(*usage) (all, inner float64)) plot {
		p := plot{Title: title, Unit: unit, First: label(first), Last: label(last + 1)}
		most := 0.0
		for i := range columns {
			all, _ := value(&columns[i])
			most = max(most, all)
		}
		p.Top = strconv.FormatFloat(most, 'f', -1, 64)
		if unit != "runs" {
			p.Top = strconv.FormatFloat(most, 'f', 1, 64)
		}
		width := plotWidth / float64(len(columns))
		for i := range columns {
			all, inner := value(&columns[i])
			if all <= 0 { // records with wrong times
				continue
			}
			b := bar{X: round(float64(i) * width), Width: round(max(width-1, 1)), Height: round(all / most * plotHeight), Inner: round(max(min(inner, all), 0) / most * plotHeight)}
			b.Y = round(plotHeight - b.Height)
			b.Text = label(first+int64(i)*each) + ": " + strconv.FormatFloat(all, 'f', 1, 64) + " " + unit + ", " + strconv.FormatFloat(inner, 'f', 1, 64) + " of them used"
			if unit == "runs" {
				b.Text = label(first+int64(i)*each) + ": " + strconv.FormatFloat(all, 'f', 0, 64) + " runs, " + strconv.FormatFloat(inner, 'f', 0, 64) + " of them failed"
			}
			p.Columns = append(p.Columns, b)
		}
		return p
	}
	return []plot{
		picture("Slot hours of runs, by the time of their end; dark: CPU hours", "slot hours", func(u *usage) (float64, float64) { return u.slots / 3600, u.cpu / 3600 }),
		picture("Runs, by the time of their end; dark: failed", "runs", func(u *usage) (float64, float64) { return float64(u.runs), float64(u.failed) }),
	}
}

// round returns a length with one decimal.
func round(v float64) float64 { return math.Round(v*10) / 10 }
