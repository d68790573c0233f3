package gridengine

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
)

// recognition finds the release of sge_qmaster. The connection does not tell it, and sge_qmaster
// does not answer requests in the form of another release. So the link sends the first request in
// one form after another, until it gets an answer. It sends no other messages before that, because
// some messages in the form of another release crash an sge_qmaster.
type recognition struct {
	current   atomic.Pointer[message.Codec] // recognised last, or at first expected
	known     bool                          // sge_qmaster has answered in the current form, on this connection
	trial     *message.Codec                // in which the first request was sent last
	round     []*message.Protocol           // not yet tried in this round
	rest      time.Duration                 // how long an answer may take in this round
	until     time.Time                     // when to give up with this connection
	held      []*commlib.Message            // messages that arrived before the answer
	abandoned map[uint32]bool               // first requests in other forms
	// remembered is the protocol that options.Release has; nil if that is unknown.
	remembered *message.Protocol
	// identified is closed when sge_qmaster has answered for the first time since the start.
	identified     chan struct{}
	identifiedOnce sync.Once
}

// firstPatience is the time limit for the first answer in each form in the first round. A busy
// sge_qmaster may answer later, so it is asked again.
const firstPatience = 3 * time.Second

// mostHeld is the maximum number of stored messages before the first answer. sge_qmaster repeats
// lost ones.
const mostHeld = 256

// codec returns the codec for all messages except the first request. It may be called from any
// goroutine.
func (r *recognition) codec() *message.Codec { return r.current.Load() }

// expected returns the protocol that is most likely: that which the administrator names, which
// sge_qmaster had when the link last recognised it, or which the cell names. It is only the one to try first.
func (o *Options) expected() *message.Protocol {
	return cmp.Or(o.Protocol, o.remembered(), o.Cell.Protocol(), message.Protocols[0])
}

// remembered returns the protocol that the link recognised last; nil if that is unknown.
func (o *Options) remembered() *message.Protocol {
	if o.Release == nil {
		return nil
	}
	release, err := o.Release.Read()
	if err != nil {
		return nil
	}
	return message.ProtocolNamed(strings.TrimSpace(release))
}

// remember keeps the recognised release for the next start.
func (s *session) remember(p *message.Protocol) {
	if s.options.Release == nil || s.remembered == p {
		return
	}
	s.remembered = p
	if err := s.options.Release.Write(p.Name + "\n"); err != nil {
		s.log.Warn("the release of sge_qmaster was not saved; after a restart the agent recognises it again", "error", err)
	}
}

// in returns a codec of a protocol.
func (s *session) in(p *message.Protocol) *message.Codec {
	return &message.Codec{Protocol: p, Identity: s.options.Identity}
}

// recognise asks for the configuration, and continues with the registration in the form that was
// answered.
func (s *session) recognise() {
	s.known, s.held, s.abandoned = false, nil, map[uint32]bool{}
	s.rest = cmp.Or(s.options.FirstAnswer, firstPatience)
	s.until = s.clock.Now().Add(answerPatience)
	s.newRound()
}

// newRound begins with the form that was recognised last.
func (s *session) newRound() {
	s.round = nil
	if s.options.Protocol == nil {
		s.round = without(message.Protocols, s.codec().Protocol)
	}
	s.try(s.codec().Protocol)
}

// without returns a list without one protocol.
func without(list []*message.Protocol, p *message.Protocol) []*message.Protocol {
	return slices.DeleteFunc(slices.Clone(list), func(other *message.Protocol) bool { return other == p })
}

// try sends the first request in the form of a protocol.
func (s *session) try(p *message.Protocol) {
	s.trial = s.in(p)
	s.deadline = s.until
	if at := s.clock.Now().Add(s.rest); s.options.Protocol == nil && at.Before(s.until) {
		s.deadline = at
	}
	r := s.trial.FirstRequest(s.options.Host, s.number())
	s.askIn(s.trial, r, s.configured(r.Condition == nil, s.register))
}

// unanswered tries the next form if there was no answer in time.
func (s *session) unanswered(now time.Time) {
	s.deadline = time.Time{}
	if !s.known && now.Before(s.until) {
		if len(s.round) > 0 {
			next := s.round[0]
			s.round = s.round[1:]
			s.try(next)
			return
		}
		s.rest *= 2
		s.newRound()
		return
	}
	text := "sge_qmaster has not answered a request within " + answerPatience.String()
	switch {
	case s.known:
	case s.options.Protocol != nil:
		text += ", in the form of Grid Engine " + s.options.Protocol.Name + " (--master-version): it has too much to do, or has another version, which its own log names"
	default:
		text += ", in the forms of Grid Engine " + strings.Join(message.ProtocolNames(), ", ") + ": it has too much to do, or has another version, which its own log names"
	}
	s.trouble(text)
	s.conn.Abort() // its reader reports the end
}

// recognised notes that sge_qmaster has answered in a form.
func (s *session) recognised(c *message.Codec) {
	if s.known {
		return
	}
	s.known = true
	s.current.Store(c)
	s.identifiedOnce.Do(func() { close(s.identified) })
	for id, q := range s.pending { // the same in other forms, and earlier
		delete(s.pending, id)
		if q.codec != c {
			s.abandoned[id] = true
		}
	}
	s.deadline = time.Time{}
	s.log.Info("sge_qmaster is recognised", "release", c.Name)
	s.remember(c.Protocol)
}

// release handles the messages that arrived before the first answer.
func (s *session) release() {
	held := s.held
	s.held = nil
	for _, m := range held {
		s.receive(m)
	}
}

// hold stores a message until the release is known.
func (s *session) hold(m *commlib.Message) {
	if len(s.held) < mostHeld {
		s.held = append(s.held, m)
	}
	// Its header may tell which form to try next.
	if s.options.Protocol == nil {
		if others := s.trial.OtherRelease(m.Payload); others != nil {
			rest := slices.DeleteFunc(s.round, func(p *message.Protocol) bool { return slices.Contains(others, p) })
			s.round = append(others, rest...)
		}
	}
}

// readOtherwise reads a first answer in the form of another release, which cannot be read in that of its
// request. Then the request is made again in this form. It reports whether it could.
func (s *session) readOtherwise(c *message.Codec, payload []byte) bool {
	if s.known {
		return false
	}
	for _, p := range without(message.Protocols, c.Protocol) {
		other := s.in(p)
		if other.OtherRelease(payload) != nil {
			continue
		}
		if _, err := other.DecodeRequest(payload); err != nil {
			continue
		}
		if s.options.Protocol != nil {
			s.trouble("sge_qmaster answers in the form of Grid Engine " + p.Name + ", and --master-version says " + s.options.Protocol.Name)
			return true
		}
		s.round = without(message.Protocols, p)
		s.try(p)
		return true
	}
	return false
}
