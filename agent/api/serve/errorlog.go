package serve

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/clock"
)

// What peers do wrong before anybody can answer them, such as a handshake without a
// certificate, is said, and each of them can have it said as often as it likes. So of each
// kind there are errorBurst lines at first, and then one for each errorPause.
const (
	errorBurst = 10
	errorPause = time.Minute
)

// errorLog passes on what net/http has to say, a line at a time.
type errorLog struct {
	clock  clock.Clock
	notify func(error)

	mu        sync.Mutex
	handshake allowance
	other     allowance
}

// allowance is how much may still be said.
type allowance struct {
	used    int
	since   time.Time // when the last of used was given back
	skipped int
}

func newErrorLog(c clock.Clock, notify func(error)) *errorLog {
	return &errorLog{clock: c, notify: notify}
}

func (l *errorLog) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	l.mu.Lock()
	a := &l.other
	if strings.HasPrefix(text, "http: TLS handshake error") {
		a = &l.handshake
	}
	ok, skipped := a.take(l.clock.Now())
	l.mu.Unlock()
	if !ok {
		return len(b), nil
	}
	if skipped > 0 {
		text += fmt.Sprintf(" (%d more errors like this one were not written down)", skipped)
	}
	l.notify(errors.New(text))
	return len(b), nil
}

// take takes a line of what is allowed. skipped is how many lines did not get one since the
// last that did.
func (a *allowance) take(now time.Time) (ok bool, skipped int) {
	if a.used == 0 || now.Before(a.since) { // the clock may have been set
		a.since = now
	}
	back := min(int(now.Sub(a.since)/errorPause), a.used)
	a.used -= back
	a.since = a.since.Add(time.Duration(back) * errorPause)
	if a.used >= errorBurst {
		a.skipped++
		return false, 0
	}
	if a.used++; a.used == 1 {
		a.since = now
	}
	skipped, a.skipped = a.skipped, 0
	return true, skipped
}
