package web

import (
	"slices"
	"time"
)

// timeLine is a diagram of the times at which a job was pending and running.
type timeLine struct {
	From, To int64 // seconds since 1970
	Bars     []bar
	Marks    []mark // of events
	Label    string // the diagram in words
}

// bar is a part of the diagram, in thousandths of its width.
type bar struct {
	X, Width, Y int
	Kind        string // pending, running, done or failed
}

// mark is an event in the diagram.
type mark struct {
	X    int
	Text string
}

const (
	lineWidth = 1000
	lineRows  = 12 // maximum number of runs in the diagram
	rowHeight = 14
)

// newTimeLine returns the diagram of a job; nil if the time of its submission is unknown. submitted
// is the time in its records, for a job that the daemon does not know.
func newTimeLine(p *jobPage, submitted, now time.Time) *timeLine {
	l := &timeLine{To: now.Unix()}
	switch {
	case p.Known:
		l.From = p.Detail.Submitted
	case !submitted.IsZero():
		l.From = submitted.Unix()
	default:
		return nil
	}
	for _, s := range p.Steps {
		if s.Started > 0 { // a job that was requeued has another time of submission
			l.From = min(l.From, s.Started)
		}
	}
	if !p.Known {
		l.To = l.From
		for _, s := range p.Steps {
			l.To = max(l.To, s.Ended)
		}
	}
	span := max(l.To-l.From, 1)
	at := func(t int64) int { return int(min(max(t-l.From, 0), span) * lineWidth / span) }
	steps := p.Steps[max(len(p.Steps)-lineRows, 0):]
	for i, s := range steps {
		y := i * rowHeight
		if s.Started == 0 {
			continue
		}
		end, kind := l.To, "running"
		if s.Ended > 0 {
			end, kind = s.Ended, "done"
		}
		if s.Bad {
			kind = "failed"
		}
		l.Bars = append(l.Bars, bar{0, max(at(s.Started), 1), y, "pending"}, bar{at(s.Started), max(at(end)-at(s.Started), 3), y, kind})
	}
	if len(l.Bars) == 0 {
		l.Bars = append(l.Bars, bar{0, lineWidth, 0, "pending"})
	}
	for _, e := range p.Events {
		if e.Time > l.From && e.Time < l.To {
			l.Marks = append(l.Marks, mark{at(e.Time), clock(e.Time, now) + " " + e.What})
		}
	}
	l.Label = "Submitted " + clock(l.From, now)
	if len(steps) > 0 && steps[0].Started > 0 {
		l.Label += ", started " + clock(steps[0].Started, now)
	}
	if !p.Known {
		l.Label += ", ended " + clock(l.To, now)
	}
	return l
}

// Kinds returns the kinds of the bars, each once.
func (l *timeLine) Kinds() []string {
	var kinds []string
	for _, b := range l.Bars {
		if !slices.Contains(kinds, b.Kind) {
			kinds = append(kinds, b.Kind)
		}
	}
	return kinds
}

// Height returns the height of the diagram.
func (l *timeLine) Height() int { return l.Bars[len(l.Bars)-1].Y + rowHeight }
