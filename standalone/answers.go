package standalone

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

// answers holds the answers of recent commands, by user and key. A client that has not received its
// answer repeats the request, also after a restart of the daemon. The answers of commands that
// change something are in the store, in the same commit as the change.
type answers struct {
	of     map[string]*answer  // that are not in the store yet
	stored map[string]struct{} // stored answers, of which only the keys are in memory
	users  map[string]*ofUser
	read   func(key string) ([]byte, error)
}

// ofUser are the answers to one user.
type ofUser struct {
	order []given // in the order of arrival
	size  int     // of all of them, in bytes
	old   int     // how many of order changes has given out for removal
}

// given records the arrival of a command.
type given struct {
	key  string
	at   int64 // in seconds
	size int   // of its record and of the entry in memory
}

// user returns the answers to the user of a key, and makes an empty set if there are none.
func (a *answers) user(key string) *ofUser {
	uid, _, _ := strings.Cut(key, " ")
	u := a.users[uid]
	if u == nil {
		u = &ofUser{}
		a.users[uid] = u
	}
	return u
}

func (u *ofUser) add(key string, at int64, size int) {
	u.order = append(u.order, given{key, at, size})
	u.size += size
}

// over reports whether the answer has expired. A time in the future, from before the clock was set
// back, counts as expired, too.
func (g given) over(now time.Time) bool {
	age := now.Sub(time.Unix(g.at, 0))
	return age > keepAnswers || age < -keepAnswers
}

// answer is one of them.
type answer struct {
	key    string
	at     time.Time
	ready  chan struct{} // closed when the other fields are set
	result *api.CommandAnswer
	err    *agentapi.Error
	// durable says that a record of it is in the store.
	durable bool
	// immediate is a submitted job with -now y, or 0 once the scheduler has decided about it.
	// judged is then the final answer, if it could be stored.
	immediate uint32
	judged    *api.CommandAnswer
}

const (
	// keepAnswers is the time for which answers are stored. Clients repeat requests for a shorter
	// time.
	keepAnswers = 10 * time.Minute
	// mostOfUser is the maximum size of all answers to one user, in bytes. The oldest are removed
	// first: a user with so many commands no longer waits for them.
	mostOfUser = 4 << 20
	// answerRoom is the size of an answer in memory, without its record.
	answerRoom = 256
	// answerPrefix begins the keys of their records.
	answerPrefix = "standalone/answer/"
)

// answerRecord is the stored form of an answer.
type answerRecord struct {
	At     time.Time          `json:"at"`
	Answer *api.CommandAnswer `json:"answer"`
	// Immediate is the job with -now y about which the scheduler has not decided yet.
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
	a.user(x.key).add(x.key, x.at.Unix(), answerRoom)
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

// given returns an answer that is ready.
func (x *answer) given() (any, *agentapi.Error) {
	if x.err != nil {
		return nil, x.err
	}
	return x.result, nil
}

// mostOfAnswer is the maximum size of a stored text, in bytes.
const mostOfAnswer = 64 << 10

// short returns an answer with its texts cut for the store.
func short(a *api.CommandAnswer) *api.CommandAnswer {
	s := *a
	s.Stdout = s.Stdout[:min(len(s.Stdout), mostOfAnswer)]
	s.Stderr = s.Stderr[:min(len(s.Stderr), mostOfAnswer)]
	return &s
}

func newAnswers(read func(key string) ([]byte, error)) answers {
	return answers{of: map[string]*answer{}, stored: map[string]struct{}{}, users: map[string]*ofUser{}, read: read}
}

// forget removes an answer that was not given: if the request is repeated, the command runs again.
func (a *answers) forget(x *answer) {
	if a.of[x.key] != x {
		return
	}
	delete(a.of, x.key)
	uid, _, _ := strings.Cut(x.key, " ")
	u := a.users[uid]
	for i := len(u.order) - 1; i >= u.old; i-- {
		if u.order[i].key == x.key {
			u.size -= u.order[i].size
			u.order = slices.Delete(u.order, i, i+1)
			break
		}
	}
	if len(u.order) == 0 {
		delete(a.users, uid)
	}
}

// committed records that new answers are in the store, and that expired ones have been removed.
// Answers that wait for a scheduling run are stored in their current form.
func (a *answers) committed(answered []*answer) {
	for uid, u := range a.users {
		for _, x := range u.order[:u.old] {
			delete(a.stored, x.key)
			delete(a.of, x.key)
			u.size -= x.size
		}
		u.order, u.old = u.order[u.old:], 0
		if len(u.order) == 0 {
			delete(a.users, uid)
		}
	}
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

// changes returns the records of new answers and the removals of expired ones.
func (a *answers) changes(answered []*answer, now time.Time) (list []store.Change) {
	for _, x := range answered {
		// Texts and numbers can be encoded.
		r := answerRecord{x.at, short(x.result), x.immediate}
		if x.judged != nil {
			r.Answer, r.Immediate = short(x.judged), 0
		}
		value, _ := json.Marshal(r)
		list = append(list, store.Change{Key: answerPrefix + x.key, Value: value})
		a.user(x.key).resize(x.key, len(value)+answerRoom)
	}
	// They are forgotten when that is in the store: the commit may fail.
	for _, u := range a.users {
		left := u.size
		for u.old = 0; u.old < len(u.order); u.old++ {
			x := u.order[u.old]
			_, stored := a.stored[x.key]
			under := a.of[x.key] // not in the store, or not known yet
			if !x.over(now) && (left <= mostOfUser || under != nil) {
				break
			}
			if stored || under != nil {
				list = append(list, store.Change{Key: answerPrefix + x.key})
			}
			left -= x.size
		}
	}
	return list
}

// resize notes how large the record of an answer is: most often that of the last command.
func (u *ofUser) resize(key string, size int) {
	for i := len(u.order) - 1; i >= 0; i-- {
		if x := &u.order[i]; x.key == key {
			u.size += size - x.size
			x.size = size
			return
		}
	}
}

// restore loads an answer of a previous daemon.
func (a *answers) restore(key string, value []byte) error {
	var r answerRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	key = strings.TrimPrefix(key, answerPrefix)
	a.user(key).add(key, r.At.Unix(), len(value)+answerRoom)
	if r.Immediate == 0 {
		a.stored[key] = struct{}{}
		return nil
	}
	a.of[key] = &answer{key: key, at: r.At, ready: make(chan struct{}), result: r.Answer, durable: true, immediate: r.Immediate}
	return nil
}
