package gridengine

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
)

// recognition finds out of which series of releases sge_qmaster is. Nothing in the connection tells
// it, and to a request in the form of another series sge_qmaster does not answer. So the first
// request is sent in one form after the other, until there is an answer.
type recognition struct {
	current atomic.Pointer[message.Codec] // in which is sent
	known   bool                          // sge_qmaster has answered in it, on this connection
	round   []*message.Protocol           // not yet tried in this round
	rest    time.Duration                 // that an answer may take in this round
	until   time.Time                     // when to give up with this connection
}

// firstPatience is how long the first answer in each form may take in the first round. A sge_qmaster
// that has much to do answers later, and is asked again.
const firstPatience = 3 * time.Second

// codec is for messages with sge_qmaster.
func (r *recognition) codec() *message.Codec { return r.current.Load() }

// expect begins with the protocol that is most likely.
func (s *session) expect() {
	p := s.options.Protocol
	if p == nil {
		p = s.options.Cell.Protocol()
	}
	if p == nil {
		p = message.Protocols[0]
	}
	s.speak(p)
}

// speak has all further messages in the form of a protocol.
func (s *session) speak(p *message.Protocol) {
	s.current.Store(&message.Codec{Protocol: p, Identity: s.options.Identity})
}

// recognise asks for the configuration, and goes on with the registration in the form in which there
// is an answer.
func (s *session) recognise() {
	s.known = false
	s.rest, s.round = cmp.Or(s.options.FirstAnswer, firstPatience)/2, nil
	s.until = s.clock.Now().Add(answerPatience)
	if s.options.Protocol == nil {
		s.round = s.others()
	}
	s.tryProtocol()
}

// others are the protocols that are not spoken now.
func (s *session) others() []*message.Protocol {
	return slices.DeleteFunc(slices.Clone(message.Protocols), func(p *message.Protocol) bool { return p == s.codec().Protocol })
}

// tryProtocol asks in the form that is spoken now.
func (s *session) tryProtocol() {
	if len(s.round) == len(message.Protocols)-1 {
		s.rest *= 2
	}
	s.deadline = s.clock.Now().Add(s.rest)
	if s.options.Protocol != nil {
		s.deadline = s.until
	}
	r := s.codec().FirstRequest(s.options.Host, s.number())
	s.ask(r, s.configured(r.Condition == nil, s.register))
}

// unanswered goes on where an answer has not come in time.
func (s *session) unanswered(now time.Time) {
	s.deadline = time.Time{}
	if !s.known && s.options.Protocol == nil && now.Before(s.until) {
		if len(s.round) > 0 {
			s.speak(s.round[0])
			s.round = s.round[1:]
		} else { // the most likely one again
			s.expect()
			s.round = s.others()
		}
		s.tryProtocol()
		return
	}
	text := "sge_qmaster has not answered a request within " + answerPatience.String()
	switch {
	case !s.known && s.options.Protocol == nil:
		text += ", in the forms of Grid Engine " + strings.Join(message.ProtocolNames(), ", ") + ": it has too much to do, or is of another release"
	case !s.known:
		text += ", in the form of Grid Engine " + s.options.Protocol.Name + " (--master-version): it has too much to do, or is of another release, which its log says"
	}
	s.trouble(text)
	s.conn.Abort() // its reader says that it is gone
}

// recognised notes that sge_qmaster has answered.
func (s *session) recognised(c *message.Codec) {
	if s.known {
		return
	}
	s.known = true
	s.current.Store(c)
	// The others were asked in vain.
	for id, q := range s.pending {
		if q.codec != c {
			delete(s.pending, id)
		}
	}
	if len(s.pending) == 0 {
		s.deadline = time.Time{}
	}
	s.log.Info("sge_qmaster is recognised", "release", c.Name)
}

// readOtherwise reads an answer in the form of another release, which cannot be read in that of its
// request. Then the release is known, and the request is made again. It reports whether it could.
func (s *session) readOtherwise(c *message.Codec, payload []byte) bool {
	if s.known || s.options.Protocol != nil {
		return false
	}
	for _, p := range message.Protocols {
		other := &message.Codec{Protocol: p, Identity: c.Identity}
		if p == c.Protocol || other.OtherRelease(payload) != nil {
			continue
		}
		if _, err := other.DecodeRequest(payload); err == nil {
			s.speak(p)
			s.round = s.others()
			s.tryProtocol()
			return true
		}
	}
	return false
}

// otherRelease is for a message in the form of another release than that which is spoken.
func (s *session) otherRelease(m *commlib.Message, others []*message.Protocol) {
	if s.known {
		s.log.Error("a message of sge_qmaster cannot be read: it is in the form of another release", "tag", m.Tag, "spoken", s.codec().Name, "release", others[0].Name)
		return
	}
	// It tells what to try next.
	s.round = append(others, slices.DeleteFunc(s.round, func(p *message.Protocol) bool { return slices.Contains(others, p) })...)
}
