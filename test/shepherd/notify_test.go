package shepherd

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

func TestNotify(t *testing.T) {
	const long = time.Hour
	const short = 2 * time.Second // for any process to have answered, on any machine
	for name, c := range map[string]struct {
		notify time.Duration
		edit   func(d *job.Description)
		test   func(j *counted)
		signal int // that ends the job; 0 for none
	}{
		"KILL is announced by USR2": {short, nil, func(j *counted) {
			begin := time.Now()
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if d := time.Since(begin); d < short {
				j.t.Errorf("it ended after %v", d)
			}
		}, 9},
		"STOP is announced by USR1": {short, nil, func(j *counted) {
			begin := time.Now()
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.awaitStopped(true)
			if d := time.Since(begin); d < short {
				j.t.Errorf("it was stopped after %v", d)
			}
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.quit()
		}, 0},
		"repeated requests are announced once": {long, nil, func(j *counted) {
			for range 3 {
				j.signal(unix.SIGTSTP)
			}
			j.hears(unix.SIGUSR2)
			for range 3 {
				j.order(unix.SIGSTOP) // nor is a stop that would come too late
			}
			j.order(42)
			j.hears(42)
			j.order(unix.SIGQUIT)
			j.wait()
		}, 0},
		"a stop is announced once": {long, nil, func(j *counted) {
			for range 3 {
				j.signal(unix.SIGWINCH)
			}
			j.hears(unix.SIGUSR1)
			j.order(42)
			j.hears(42)
			j.quit()
		}, 0},
		"CONT takes a stop back": {long, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.order(unix.SIGSTOP) // is a new one
			j.hears(unix.SIGUSR1)
			j.quit()
		}, 0},
		"a stop that was taken back does not come": {short, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.traced("asked to resume")
			// A whole period later, as told by a request that takes one.
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if strings.Contains(j.file("trace"), "signal SIGSTOP") {
				j.t.Error("it was stopped")
			}
		}, 9},
		"KILL while a stop is pending": {short, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2)
			j.wait()
			if strings.Contains(j.file("trace"), "signal SIGSTOP") {
				j.t.Error("it was stopped")
			}
		}, 9},
		"other signals are not announced": {long, nil, func(j *counted) {
			j.signal(unix.SIGUSR1)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.order(unix.SIGTERM)
			j.hears(unix.SIGTERM)
			j.quit()
		}, 0},
		"NOTIFY_KILL names a signal": {short, func(d *job.Description) {
			d.NotifyKill = job.Notification{Kind: job.NotifySignal, Signal: "TERM"}
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGTERM)
			j.wait()
		}, 9},
		"NOTIFY_SUSP names a signal": {short, func(d *job.Description) {
			d.NotifySusp = job.Notification{Kind: job.NotifySignal, Signal: "SIGHUP"}
		}, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.hears(unix.SIGHUP)
			j.awaitStopped(true)
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
		"NOTIFY_KILL is none": {long, func(d *job.Description) {
			d.NotifyKill = job.Notification{Kind: job.NotifyNone}
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
		"NOTIFY_SUSP is none": {long, func(d *job.Description) {
			d.NotifySusp = job.Notification{Kind: job.NotifyNone}
		}, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGCONT)
			j.hears(unix.SIGCONT)
			j.quit()
		}, 0},
		"the method comes after the notification": {short, func(d *job.Description) {
			d.TerminateMethod = "SIGQUIT"
		}, func(j *counted) {
			j.signal(unix.SIGTSTP)
			j.hears(unix.SIGUSR2, unix.SIGQUIT)
			j.wait()
		}, 0},
		"without -notify there is none": {0, nil, func(j *counted) {
			j.order(unix.SIGSTOP)
			j.awaitStopped(true)
			j.signal(unix.SIGTSTP)
			j.wait()
		}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := count(t, best())
			j.d.Notify = c.notify
			if c.edit != nil {
				c.edit(j.d)
			}
			j.begin()
			c.test(j)
			if c.signal == 0 {
				j.expectUsage(0, 0)
			} else {
				j.expectUsage(128+c.signal, c.signal)
			}
			j.expect(0)
			for len(j.told.f.Name()) != 0 && j.moreLines() {
				// What came last and was not asked for above.
			}
		})
	}
}

// moreLines fails if there is a signal that the test has not waited for.
func (c *counted) moreLines() bool {
	_ = c.told.f.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	s, err := c.told.r.ReadString('\n')
	if err != nil {
		return false
	}
	if !strings.HasSuffix(s, " 3\n") { // SIGQUIT, which ends the counter
		c.t.Errorf("also told of: %q", s)
	}
	return true
}
