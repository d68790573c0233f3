package serve

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/clock"
)

// The server logs errors of peers that it cannot answer, such as a handshake without a certificate.
// Because any peer can cause any number of these, it logs the first errorBurst lines of each kind,
// and then one line per errorPause.
const (
	errorBurst = 10
	errorPause = time.Minute
)

// errorLog passes on the log of net/http, line by line.
type errorLog struct {
	clock  clock.Clock
	notify func(error)

	mu        sync.Mutex
	handshake allowance
	other     allowance
}

// allowance limits the number of log lines.
type allowance struct {
	used    int       // logged lines; one is subtracted each errorPause
	since   time.Time // the time of the last subtraction
	skipped int       // lines that were not logged since the last one that was
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

// take reports whether one more line may be logged. skipped is the number of suppressed lines since
// the last logged one.
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
