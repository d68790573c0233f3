package standalone

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

// answers are those of commands of late, by user and key: who has not heard an answer asks
// again, also when the daemon was killed meanwhile. Those of commands that change something
// are in the store, in the commit that has what they changed.
type answers struct {
	of     map[string]*answer  // that are not in the store yet
	stored map[string]struct{} // the others, of which only the keys are here
	order  []given             // as they came
	old    int                 // how many of order changes has given out for removal
	read   func(key string) ([]byte, error)
}

// given is when a command came.
type given struct {
	key string
	at  int64 // in seconds
}

// over reports whether that is longer ago than answers are kept. Of the future are those that
// were given before the clock was set back, maybe by years.
func (g given) over(now time.Time) bool {
	age := now.Sub(time.Unix(g.at, 0))
	return age > keepAnswers || age < -keepAnswers
}

// answer is one of them.
type answer struct {
	key    string
	at     time.Time
	ready  chan struct{} // closed when the rest is there
	result *api.CommandAnswer
	err    *agentapi.Error
	// durable says that a record of it is in the store.
	durable bool
	// immediate is a job with -now y that was submitted, 0 once it is known what became of
	// it. What the answer is then, if that can be kept, is judged.
	immediate uint32
	judged    *api.CommandAnswer
}

const (
	// keepAnswers is how long answers are kept: longer than clients ask again.
	keepAnswers = 10 * time.Minute
	// answerPrefix begins the keys of their records.
	answerPrefix = "standalone/answer/"
)

// answerRecord is what is kept of one.
type answerRecord struct {
	At     time.Time          `json:"at"`
	Answer *api.CommandAnswer `json:"answer"`
	// Immediate is the job with -now y of which it is not known yet what became of it.
	Immediate uint32 `json:"immediate,omitempty"`
}

// enter finds the answer to a command, or makes a place for it.
func (a *answers) enter(x *answer) (found *answer, first bool) {
	if found := a.of[x.key]; found != nil {
		return found, false
	}
	if _, stored := a.stored[x.key]; stored {
		var r answerRecord
		value, err := a.read(answerPrefix + x.key)
		if err == nil {
			err = json.Unmarshal(value, &r)
		}
		if x.result = r.Answer; err != nil || x.result == nil {
			x.err = refuse(agentapi.Internal, fmt.Sprintf("the command was carried out, and what it said cannot be read: %v", err))
		}
		close(x.ready)
		return x, false
	}
	a.of[x.key] = x
	a.order = append(a.order, given{x.key, x.at.Unix()})
	return x, true
}

func newAnswer(key string, now time.Time) *answer {
	return &answer{key: key, at: now, ready: make(chan struct{})}
}

// finish gives the answer, or says why there is none.
func (x *answer) finish(err error) {
	if err != nil {
		x.err = refuse(agentapi.Unavailable, err.Error())
	}
	close(x.ready)
}

// given is one that is ready.
func (x *answer) given() (any, *agentapi.Error) {
	if x.err != nil {
		return nil, x.err
	}
	return x.result, nil
}

// mostOfAnswer bounds what is kept of a text for whoever asks again.
const mostOfAnswer = 64 << 10

// short is an answer as it is kept.
func short(a *api.CommandAnswer) *api.CommandAnswer {
	s := *a
	s.Stdout = s.Stdout[:min(len(s.Stdout), mostOfAnswer)]
	s.Stderr = s.Stderr[:min(len(s.Stderr), mostOfAnswer)]
	return &s
}

func newAnswers(read func(key string) ([]byte, error)) answers {
	return answers{of: map[string]*answer{}, stored: map[string]struct{}{}, read: read}
}

// forget takes away one that was not given: the command is carried out when it comes again.
func (a *answers) forget(x *answer) {
	if a.of[x.key] != x {
		return
	}
	delete(a.of, x.key)
	if last := len(a.order) - 1; last >= a.old && a.order[last].key == x.key {
		a.order = a.order[:last]
	}
}

// committed notes that answers are in the store, and that the old ones are not any more.
// Those that wait for a scheduling run are there as they are now.
func (a *answers) committed(answered []*answer) {
	for _, x := range a.order[:a.old] {
		delete(a.stored, x.key)
		delete(a.of, x.key)
	}
	a.order, a.old = a.order[a.old:], 0
	for _, x := range answered {
		if a.of[x.key] != x {
			continue
		}
		select {
		case <-x.ready:
			delete(a.of, x.key)
			a.stored[x.key] = struct{}{}
		default:
		}
	}
}

// changes are the records of new answers, and the removal of those that are old.
func (a *answers) changes(answered []*answer, now time.Time) (list []store.Change) {
	for _, x := range answered {
		// Texts and numbers can be encoded.
		r := answerRecord{x.at, short(x.result), x.immediate}
		if x.judged != nil {
			r.Answer, r.Immediate = short(x.judged), 0
		}
		value, _ := json.Marshal(r)
		list = append(list, store.Change{Key: answerPrefix + x.key, Value: value})
	}
	// They are forgotten when that is in the store: the commit may fail.
	for a.old = 0; a.old < len(a.order) && a.order[a.old].over(now); a.old++ {
		key := a.order[a.old].key
		if _, stored := a.stored[key]; stored || a.of[key] != nil {
			list = append(list, store.Change{Key: answerPrefix + key})
		}
	}
	return list
}

// restore takes in what a former daemon has answered.
func (a *answers) restore(key string, value []byte) error {
	var r answerRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	key = strings.TrimPrefix(key, answerPrefix)
	a.order = append(a.order, given{key, r.At.Unix()})
	if r.Immediate == 0 {
		a.stored[key] = struct{}{}
		return nil
	}
	a.of[key] = &answer{key: key, at: r.At, ready: make(chan struct{}), result: r.Answer, durable: true, immediate: r.Immediate}
	return nil
}
