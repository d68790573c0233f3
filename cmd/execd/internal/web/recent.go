package web

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/standalone/api"
)

// events is the data of the page of events.
type events struct{ Rows []api.Event } // the latest first

func (s *source) events(ctx context.Context) (*events, error) {
	a, err := s.session.Recent(ctx)
	if err != nil {
		return nil, err
	}
	slices.Reverse(a.Events)
	return &events{a.Events}, nil
}

// chart is a diagram of the use of something over the last day.
type chart struct {
	Name, Label string // Label is the diagram in words
	Points      string // of a line, in the form of SVG
	Area        string // below the line
}

const (
	chartWidth  = 1000
	chartHeight = 100
	day         = 24 * 60 * 60
)

// charts returns the diagrams of the last day.
func charts(list []api.Sample, now time.Time) []chart {
	list = slices.DeleteFunc(slices.Clone(list), func(s api.Sample) bool { return now.Unix()-s.Time > day || s.Time > now.Unix() })
	if len(list) == 0 {
		return nil
	}
	var all []chart
	for _, c := range []struct {
		name string
		of   func(api.Sample) (used, total float64)
		text func(float64) string
	}{
		{"Slots", func(s api.Sample) (float64, float64) { return float64(s.UsedSlots), float64(s.Slots) }, count},
		{"Memory", func(s api.Sample) (float64, float64) { return s.UsedMemory, s.Memory }, size},
		{"GPUs", func(s api.Sample) (float64, float64) { return float64(s.UsedGPUs), float64(s.GPUs) }, count},
	} {
		var points []string
		var most, total, last float64
		first := 0
		for _, s := range list {
			used, of := c.of(s)
			most, total, last = max(most, used), max(total, of), used
			if of <= 0 {
				continue
			}
			x := chartWidth - int((now.Unix()-s.Time)*chartWidth/day)
			if len(points) == 0 {
				first = x
			}
			points = append(points, strconv.Itoa(x)+","+strconv.Itoa(chartHeight-int(min(used/of, 1)*(chartHeight-2))-1))
		}
		if total <= 0 || len(points) == 0 {
			continue
		}
		// The last value holds until now.
		_, y, _ := strings.Cut(points[len(points)-1], ",")
		points = append(points, strconv.Itoa(chartWidth)+","+y)
		line := strings.Join(points, " ")
		bottom := strconv.Itoa(chartHeight)
		all = append(all, chart{
			Name: c.name, Points: line, Area: strconv.Itoa(first) + "," + bottom + " " + line + " " + strconv.Itoa(chartWidth) + "," + bottom,
			Label: c.name + " in use: " + c.text(last) + " of " + c.text(total) + ", at most " + c.text(most) + " in the last day",
		})
	}
	return all
}

func count(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
