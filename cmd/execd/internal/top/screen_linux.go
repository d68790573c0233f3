package top

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"github.com/gdamore/tcell/v3/tty"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/terminal"
)

// screen shows a view on the terminal, and changes it by keys. One goroutine owns the view and runs the
// method run. A second one asks the daemon, and a third one draws, so that a daemon or a terminal that
// does not answer does not delay a key.
type screen struct {
	session *qclient.Session
	view    *view
	from    *collector
	to      tcell.Screen

	wake   chan struct{} // asks the collector for a snapshot
	frames chan []line   // the newest frame for the goroutine that draws
	redraw chan struct{} // asks that goroutine to draw everything
	done   chan string   // results of actions
	cut    func()        // ends writes that the terminal does not accept
}

// leaveTime is the maximum time after a signal, or after the last key, in which the terminal has to
// accept what restores it.
const leaveTime = time.Second

// escapeTime is the time after which an escape character is a key of its own, and not the beginning of the
// sequence of another key.
const escapeTime = 200 * time.Millisecond

// newScreen takes over the terminal. Call run after it, which gives the terminal back.
func newScreen(ctx context.Context, c *Command, session *qclient.Session, v *view) (*screen, error) {
	s := &screen{
		session: session, view: v, from: &collector{ask: viewOf(session), now: time.Now},
		wake: make(chan struct{}, 1), frames: make(chan []line, 1), redraw: make(chan struct{}, 1), done: make(chan string),
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	s.cut = cut
	wire := &wire{Screen: terminal.NewScreen(late, c.Stdin, c.Stdout), out: c.Stdout}
	// The terminal is not asked about itself: over a slow line the answers would come as keys.
	settings := []tcell.TerminfoScreenOption{tcell.OptNegotiation(false), tcell.OptKeyboardProtocol(tcell.LegacyKeyboard), tcell.OptSanitizeContent(true), tcell.OptEscapeTimeout(escapeTime)}
	if c.NoColor {
		settings = append(settings, tcell.OptColors(0))
	}
	var err error
	if s.to, err = tcell.NewTerminfoScreenFromTty(wire, settings...); err != nil {
		cut()
		return nil, err
	}
	if err := s.to.Init(); err != nil {
		cut()
		return nil, err
	}
	v.width, v.height = s.to.Size()
	return s, nil
}

// run shows the view until the user or a signal ends it.
func (s *screen) run(parent context.Context) (int, error) {
	ctx, cancel := context.WithCancel(parent)
	var tasks sync.WaitGroup
	defer func() {
		cancel()
		s.leave()
		tasks.Wait()
	}()
	updates := make(chan update)
	s.from.choose(s.view.asked())
	tasks.Go(func() { s.from.follow(ctx, s.view.interval, s.wake, updates) })
	go s.draw(ctx) // which a stopped terminal may hold
	v := s.view
	s.show()
	for {
		select {
		case <-parent.Done():
			return ExitInterrupted, nil
		case u := <-updates:
			s.take(u)
		case text := <-s.done:
			v.message = text
			s.ask()
		case e, open := <-s.to.EventQ():
			if !open {
				return ExitFailed, errors.New("the terminal was closed")
			}
			switch e := e.(type) {
			case *tcell.EventResize:
				v.width, v.height = e.Size()
			case *tcell.EventError:
				if parent.Err() != nil {
					return ExitInterrupted, nil
				}
				return ExitFailed, errors.New("the terminal was closed")
			case *tcell.EventKey:
				if s.key(ctx, e) {
					return ExitGood, nil
				}
			}
		}
		s.show()
	}
}

// leave gives the terminal back. If the terminal accepts no data, it stays as it is, apart from its mode.
func (s *screen) leave() {
	late := time.AfterFunc(leaveTime, s.cut)
	defer late.Stop()
	s.to.Fini()
	s.cut()
}

// take shows an answer of the daemon. If there is none, the previous one stays on the screen.
func (s *screen) take(u update) {
	v := s.view
	if u.err == nil {
		v.shown, v.problem = u.shown, ""
		return
	}
	if v.problem == "" {
		v.since = time.Now()
	}
	v.problem = printable.String(u.err.Error())
}

// ask makes the collector ask now.
func (s *screen) ask() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// show passes a new frame to the goroutine that draws. If the terminal is slow, frames are skipped.
func (s *screen) show() {
	frame := s.view.frame()
	s.from.choose(s.view.asked())
	select {
	case <-s.frames:
	default:
	}
	s.frames <- frame
}

// draw draws frames.
func (s *screen) draw(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.redraw:
			s.to.Sync()
		case frame := <-s.frames:
			s.to.Clear()
			for y, l := range frame {
				for i := range l {
					s.put(y, &l[i])
				}
			}
			s.to.Show()
		}
	}
}

// put puts a text into the cells of a line.
func (s *screen) put(y int, at *span) {
	look := looks[at.style]
	if at.text == "" { // a bar of the style
		for x := at.x; x < at.x+at.width; x++ {
			s.to.Put(x, y, " ", look)
		}
		return
	}
	text, x := at.fit()
	for text != "" && x < at.x+at.width {
		rest, width := s.to.Put(x, y, text, look)
		if width == 0 {
			return
		}
		text = rest
		x += width
	}
}

// looks are the attributes of the styles. Without colours each style except waiting, good and plain
// still differs from the others around it.
var looks = map[style]tcell.Style{
	plain:   tcell.StyleDefault,
	strong:  tcell.StyleDefault.Bold(true),
	weak:    tcell.StyleDefault.Dim(true),
	good:    tcell.StyleDefault.Foreground(color.Green),
	waiting: tcell.StyleDefault.Foreground(color.Olive),
	bad:     tcell.StyleDefault.Foreground(color.Maroon).Bold(true),
	heading: tcell.StyleDefault.Reverse(true),
	chosen:  tcell.StyleDefault.Reverse(true).Bold(true),
}

// key carries out a key, and reports whether it ends the command.
func (s *screen) key(ctx context.Context, e *tcell.EventKey) (quit bool) {
	v := s.view
	if e.Key() == tcell.KeyCtrlC {
		return true
	}
	if e.Key() == tcell.KeyCtrlZ {
		s.suspend()
		return false
	}
	if e.Key() == tcell.KeyCtrlL {
		select {
		case s.redraw <- struct{}{}:
		default:
		}
		return false
	}
	switch {
	case v.help:
		v.help = false
	case v.asking != nil:
		s.answer(ctx, e)
	case v.typing:
		s.edit(e)
	default:
		return s.command(e)
	}
	return false
}

// answer answers the question about an action.
func (s *screen) answer(ctx context.Context, e *tcell.EventKey) {
	a := s.view.asking
	s.view.asking = nil
	if e.Key() != tcell.KeyRune || e.Str() != "y" {
		s.view.message = "Cancelled"
		return
	}
	s.view.message = a.verb + " job: waiting for the daemon"
	go func() {
		text := a.run(ctx, s.session)
		select {
		case s.done <- text:
		case <-ctx.Done():
		}
	}()
}

// longestFilter is the maximum length of a filter in bytes.
const longestFilter = 100

// edit changes the filter.
func (s *screen) edit(e *tcell.EventKey) {
	v := s.view
	switch e.Key() {
	case tcell.KeyEnter:
		v.typing = false
	case tcell.KeyEsc:
		v.typing, v.filter = false, ""
	case tcell.KeyBackspace:
		if r := []rune(v.filter); len(r) > 0 {
			v.filter = string(r[:len(r)-1])
		}
	case tcell.KeyCtrlU:
		v.filter = ""
	case tcell.KeyRune:
		if len(v.filter)+len(e.Str()) <= longestFilter {
			v.filter += e.Str()
		}
	}
}

// command carries out a key that is a command, and reports whether it ends execd top.
func (s *screen) command(e *tcell.EventKey) (quit bool) {
	v := s.view
	v.message = ""
	page := max(v.height-minLines, 1)
	switch e.Key() {
	case tcell.KeyUp:
		v.move(-1)
	case tcell.KeyDown:
		v.move(1)
	case tcell.KeyPgUp:
		v.move(-page)
	case tcell.KeyPgDn:
		v.move(page)
	case tcell.KeyHome:
		v.move(-len(v.rows()))
	case tcell.KeyEnd:
		v.move(len(v.rows()))
	case tcell.KeyEsc:
		v.filter = ""
	case tcell.KeyRune:
		return s.letter(e.Str())
	}
	return false
}

// letter carries out a key that is a character, and reports whether it ends execd top.
func (s *screen) letter(text string) (quit bool) {
	v := s.view
	switch text {
	case "q":
		return true
	case "?":
		v.help = true
	case "k":
		v.move(-1)
	case "j":
		v.move(1)
	case "<":
		v.sort = (v.sort + placeColumn - 1) % placeColumn
	case ">":
		v.sort = (v.sort + 1) % placeColumn
	case "R":
		v.reverse = !v.reverse
	case "/":
		v.typing = true
	case "t":
		v.only = (v.only + 1) % (onlyPending + 1)
	case "u":
		v.mine = !v.mine
		s.from.choose(v.asked())
		s.ask()
	case " ":
		s.ask()
	}
	if a, ok := actions[text]; ok {
		for _, j := range v.rows() {
			if j.ID == v.selected {
				a.job, a.name, a.owner = j.ID, j.Name, j.Owner
				v.asking = &a
			}
		}
	}
	return false
}

// suspend stops the command as Ctrl-Z does, until the shell continues it.
func (s *screen) suspend() {
	_ = s.to.Suspend()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	_ = unix.Kill(0, unix.SIGTSTP) // the whole group, as the terminal would
	select {
	case <-resumed:
	case <-time.After(time.Second): // without a shell nothing has stopped it
	}
	_ = s.to.Resume()
}

// wire is the terminal as package tcell needs it.
type wire struct {
	*terminal.Screen
	out *os.File

	mu      sync.Mutex
	resized chan os.Signal
}

var _ tty.Tty = (*wire)(nil)

// Stop implements tty.Tty.
func (w *wire) Stop() error {
	w.Screen.Stop()
	return nil
}

// Drain implements tty.Tty. Stop interrupts a pending Read.
func (w *wire) Drain() error { return nil }

// Close implements tty.Tty. Standard input and output stay open.
func (w *wire) Close() error { return nil }

// WindowSize implements tty.Tty.
func (w *wire) WindowSize() (tty.WindowSize, error) {
	rows, cols, err := terminal.Size(w.out)
	if err != nil || rows == 0 || cols == 0 {
		return tty.WindowSize{Width: 80, Height: 24}, nil //nolint:nilerr // as a terminal that does not tell its size
	}
	return tty.WindowSize{Width: int(cols), Height: int(rows)}, nil
}

// NotifyResize implements tty.Tty.
func (w *wire) NotifyResize(to chan<- bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resized != nil {
		signal.Stop(w.resized)
		close(w.resized)
		w.resized = nil
	}
	if to == nil {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH)
	w.resized = signals
	go func() {
		for range signals {
			select {
			case to <- true:
			default: // one is pending
			}
		}
	}()
}
