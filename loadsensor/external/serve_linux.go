package external

import (
	"fmt"
	"os"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/loadsensor/protocol"
)

// reason is the reason why a process is stopped, or has exited.
type reason int

const (
	stopped  reason = iota // Stop
	replaced               // its file has changed
	silent                 // no answer in time
	flooded                // too much output
	deaf                   // it reads no requests, or has closed its output
	died                   // exited by itself
)

// service is the state of serving one process.
type service struct {
	*Sensor
	p       *process
	decoder protocol.Decoder
	asked   time.Time // zero if no report is pending
	answer  clock.Timer
	read    int // bytes since the last request
	wrong   int // violations since then
	reports int
	over    bool             // standard output is ignored from now on
	state   *os.ProcessState // of a process that died
}

// serve sends requests to the process and reads its output until there is a reason to stop it.
func (s *Sensor) serve(p *process) (*service, reason) {
	v := &service{Sensor: s, p: p}
	v.decoder = protocol.Decoder{Report: v.report, Violation: v.violation}
	var settle clock.Timer
	defer func() {
		stopTimer(v.answer)
		stopTimer(settle)
	}()
	// Request at once: callers already wait for the first report, and after a restart the values
	// should not become older than necessary.
	if err := v.ask(); err != nil {
		return v, v.broken()
	}
	for {
		select {
		case <-s.stop:
			return v, stopped
		case <-s.wake:
			if v.asked.IsZero() && v.wanted() {
				if err := v.ask(); err != nil {
					return v, v.broken()
				}
			}
			// Without a Watcher, changes are noticed here.
			settle = v.compare(settle)
		case <-s.changed:
			settle = v.compare(settle)
		case <-timerC(settle):
			settle = nil
			if now, ok := s.look(); ok && now == s.stamp {
				return v, replaced
			}
			settle = v.compare(settle)
		case <-timerC(v.answer):
			return v, silent
		case b, ok := <-p.pieces[0]:
			if !ok {
				p.pieces[0] = nil
				return v, v.broken()
			}
			if !v.feed(b) {
				return v, flooded
			}
		case b, ok := <-p.pieces[1]:
			if !ok {
				p.pieces[1] = nil
			} else if !v.feedStderr(b) {
				return v, flooded
			}
		case v.state = <-p.exited:
			return v, died
		}
	}
}

// compare checks the file, and starts the settle timer if it has changed.
func (v *service) compare(settle clock.Timer) clock.Timer {
	now, ok := v.look()
	if !ok || now == v.stamp {
		return settle
	}
	v.stamp = now
	stopTimer(settle)
	return v.config.Clock.NewTimer(v.config.Settle)
}

// broken distinguishes a process that has closed a pipe from one that has exited, which also closes
// it.
func (v *service) broken() reason {
	timer := time.NewTimer(leftOver)
	defer timer.Stop()
	select {
	case v.state = <-v.p.exited:
		return died
	case <-timer.C:
		return deaf
	}
}

// wanted reports whether a caller waits for an answer.
func (v *service) wanted() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Sensor.answer != nil
}

func (v *service) ask() error {
	if err := v.p.ask(); err != nil {
		return err
	}
	v.asked, v.read, v.wrong, v.told = v.config.Clock.Now(), 0, 0, 0
	v.answer = v.config.Clock.NewTimer(v.config.Timeout)
	v.enter(Asked, 0)
	return nil
}

// feed processes a piece of output; it returns false if there is too much.
func (v *service) feed(b []byte) bool {
	v.read += len(b)
	if !v.over {
		v.decoder.Feed(b)
	}
	return v.read <= maxOutput && v.wrong <= maxWrong
}

func (v *service) feedStderr(b []byte) bool {
	v.read += len(b)
	v.stderr.feed(b, v.wrote)
	return v.read <= maxOutput
}

func (v *service) wrote(line string) {
	v.update(func(st *Status) { st.Stderr = keepLast(st.Stderr, line, keptStderr) })
	if v.told++; v.told <= toldPerRequest {
		v.notify(Event{Kind: Wrote, Text: line, PID: v.p.pid})
	}
}

// report processes a whole report.
func (v *service) report(values []protocol.Value) {
	now := v.config.Clock.Now()
	wasAsked := !v.asked.IsZero()
	var took time.Duration
	if wasAsked {
		took = now.Sub(v.asked)
	} else {
		v.violation(protocol.Violation{Line: v.decoder.Lines(), Problem: "the report was not asked for", Expected: "one report for each line read", Harmless: true})
	}
	stopTimer(v.answer)
	v.asked, v.answer = time.Time{}, nil
	// The delay also grows for a sensor that exits after each report.
	if v.reports++; v.reports > 1 {
		v.failures = 0
	}
	v.update(func(st *Status) {
		st.Fault, st.LastReport, st.Values = "", now, len(values)
		st.Reports++
		if wasAsked {
			st.Took = took
		}
		v.values = values
	})
	if v.Status().State == Asked {
		v.enter(Running, 0)
	}
	// The next request precedes the notification, so that a caller that asks then gets a new
	// report.
	v.release()
	if v.told++; !wasAsked && v.told > toldPerRequest {
		return
	}
	v.notify(Event{
		Kind: Reported, Values: values, Took: took, Asked: wasAsked, PID: v.p.pid,
		Text: fmt.Sprintf("the load sensor has reported %d values after %v", len(values), took),
	})
}

func (v *service) violation(w protocol.Violation) {
	v.wrong++
	v.update(func(st *Status) {
		st.Violations++
		st.LastViolations = keepLast(st.LastViolations, w, keptViolations)
	})
	if v.told++; v.told <= toldPerRequest {
		v.notify(Event{Kind: Violated, Text: w.String(), Violation: &w, PID: v.p.pid})
	}
}

// end stops the process and records the result. It returns true if the sensor must not be started
// again.
func (s *Sensor) end(p *process, v *service, why reason) (over bool) {
	v.announce(why)
	s.enter(Ending, 0)
	defer p.close()
	over = why == stopped
	var timer clock.Timer
	switch why {
	case died:
		v.drain() // may contain the requested report
		v.finish(why)
		s.release()
		return false
	case flooded:
		p.kill()
		v.over = true
		timer = s.config.Clock.NewTimer(unkillable)
	default:
		p.quit()
		// From here on output is dropped, and the remaining output would form other lines.
		v.over = true
		timer = s.config.Clock.NewTimer(s.config.Grace)
	}
	defer func() { stopTimer(timer) }()
	s.release()
	killed := why == flooded
	fault := s.Status().Fault
	stop := s.stop
	if over {
		stop = nil
	}
	for {
		select {
		case <-stop:
			over, stop = true, nil
		case <-s.wake:
			s.release()
		case v.state = <-p.exited:
			v.drain()
			s.update(func(st *Status) { st.Fault = fault }) // it was not stuck after all
			v.finish(why)
			return over
		case b, ok := <-p.pieces[0]:
			v.late(0, b, ok, why)
		case b, ok := <-p.pieces[1]:
			v.late(1, b, ok, why)
		case <-timer.C():
			if !killed {
				killed = true
				p.kill()
				s.notify(Event{Kind: Killed, PID: p.pid, Text: fmt.Sprintf("the load sensor has not ended %v after \"quit\" and is killed with all its processes", s.config.Grace)})
				timer = s.config.Clock.NewTimer(unkillable)
				continue
			}
			// The process hangs in the kernel. A second one would hang there, too.
			text := fmt.Sprintf("process %d of the load sensor does not end although it was killed; it is not started again before that", p.pid)
			s.update(func(st *Status) { st.Fault = text })
			s.notify(Event{Kind: Stuck, PID: p.pid, Text: text})
			if over {
				return true
			}
			timer = s.config.Clock.NewTimer(s.config.BackoffMax)
		}
	}
}

// announce reports why the process is stopped.
func (v *service) announce(why reason) {
	switch why {
	case stopped:
		v.notify(Event{Kind: Stopped, PID: v.p.pid, Text: "the load sensor is told to end"})
	case replaced:
		v.failures = 0
		v.notify(Event{Kind: Changed, PID: v.p.pid, Text: "the load sensor's file has changed; it is started again"})
	case silent:
		v.decoder.Abandon(fmt.Sprintf("it has not ended %v after the request", v.config.Timeout))
		v.fail(Failed, fmt.Sprintf("the load sensor has not answered within %v", v.config.Timeout), v.p.pid)
	case flooded:
		v.fail(Failed, fmt.Sprintf("the load sensor has written more than %d bytes, or %d wrong lines, since it was asked", maxOutput, maxWrong), v.p.pid)
	case deaf:
		v.fail(Failed, "the load sensor has closed its input or output, expected it to answer until it reads \"quit\"", v.p.pid)
	case died: // finish reports it, with the status
	}
}

// late processes output of a process that the agent is stopping. It uses only lines of standard error.
func (v *service) late(which int, b []byte, ok bool, why reason) {
	if !ok {
		v.p.pieces[which] = nil
	} else if which == 1 && why != flooded {
		v.stderr.feed(b, v.wrote)
	}
}

// drain reads the remaining output of a process that has exited.
func (v *service) drain() {
	for v.p.pieces[0] != nil || v.p.pieces[1] != nil {
		select {
		case b, ok := <-v.p.pieces[0]:
			if !ok {
				v.p.pieces[0] = nil
			} else if !v.feed(b) {
				v.p.pieces[0] = nil
			}
		case b, ok := <-v.p.pieces[1]:
			if !ok || !v.feedStderr(b) {
				v.p.pieces[1] = nil
			}
		}
	}
}

// finish reports how the process has ended.
func (v *service) finish(why reason) {
	v.stderr.flush(v.wrote)
	how := howItEnded(v.state)
	if why == died {
		v.decoder.Close()
		v.fail(Failed, fmt.Sprintf("the load sensor %s after %s, expected it to answer until it reads \"quit\"", how, count(v.reports, "report")), v.p.pid)
	}
	v.notify(Event{Kind: Gone, PID: v.p.pid, Text: "the load sensor " + how})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func stopTimer(t clock.Timer) {
	if t != nil {
		t.Stop()
	}
}

// timerC returns the channel of a timer that may not be set.
func timerC(t clock.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C()
}
