package message

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/agent/gridengine/cull"
)

// Protocol is the form of the messages of a series of releases. This type and its cull.Format hold
// all differences between the releases; the packages that use this one do not depend on them.
type Protocol struct {
	// Name is the series, a value of --master-version of execd agent: "8.1.9".
	Name string

	format *cull.Format
	// gdi is the version of the Grid Engine database interface, of requests and reports.
	gdi uint32
	// tags are the numbers of messages that differ from 8.1; nil for none.
	tags map[Tag]uint32
	// operators is how much lower the numbers of comparisons are than in 8.1.
	operators uint32
	// features says that the number of a feature set precedes a job.
	features bool
	// envelope says that the sender precedes each message, and that requests contain neither a
	// sender nor numbers.
	envelope bool
	// scrambled says that the sender is written in the letters of 9.0 and later.
	scrambled bool
	// micros says that times in usage are microseconds.
	micros bool
	// limitIsSignal says that a job that its daemon has ended for a limit has failed as one that a
	// signal has ended.
	limitIsSignal bool
	// missingFailsQueue says that an epilog or stop procedure that could not be started is a failure of the
	// queue instance: it gets into error state, and the job, which has run, runs again.
	missingFailsQueue bool
	// keepsTaskID says that $TASK_ID in the paths of a job that is not an array job stays as it is.
	keepsTaskID bool
	// binds says that the scheduler chooses the processors of jobs, and wants to know the parts of hosts
	// for that.
	binds bool
	// ticketsAlone says that configurations have no parameter reprioritize (sge_conf(5)).
	ticketsAlone bool
	// running and ended are the names of usage values in their order. Only values that are given are sent.
	running, ended []string
}

// The protocols, of Grid Engine 8.1.9 and of Open Cluster Scheduler 9.0 and 9.1.
var (
	GridEngine81 = &Protocol{
		Name: "8.1.9", format: cull.GridEngine81, gdi: 0x10003001, features: true,
		running: []string{"cpu", "mem", "io", "iow", "vmem", "maxvmem"},
		ended: slices.Concat([]string{"io", "iow", "mem", "cpu", "vmem", "maxvmem"}, resourceUsage,
			[]string{"acct_cpu", "acct_mem", "acct_io", "acct_iow", "acct_maxvmem"}),
	}
	OCS90 = &Protocol{
		Name: "9.0", format: cull.OCS90, gdi: 0x10009000, operators: 1, features: true, scrambled: true, micros: true, limitIsSignal: true, ticketsAlone: true,
		missingFailsQueue: true, keepsTaskID: true,
		running: []string{"wallclock", "cpu", "mem", "io", "iow", "vmem", "maxvmem", "rss", "maxrss"},
		ended: slices.Concat([]string{"io", "iow", "mem", "cpu", "vmem", "maxvmem", "rss", "maxrss"}, resourceUsage,
			[]string{"wallclock", "acct_cpu", "acct_mem", "acct_io", "acct_iow", "acct_maxvmem", "acct_maxrss"}),
	}
	OCS91 = &Protocol{
		Name: "9.1", format: cull.OCS91, gdi: 0x10009100, operators: 1, envelope: true, scrambled: true, micros: true, limitIsSignal: true, ticketsAlone: true, binds: true,
		missingFailsQueue: true, keepsTaskID: true,
		tags: map[Tag]uint32{
			TagGDIRequest: 1, TagAcknowledge: 2, TagReport: 3, TagJobExecution: 4, TagSlaveAllow: 5, TagChangeTicket: 6,
			TagSignalJob: 7, TagSignalQueue: 8, TagKillExecd: 9, TagGetNewConf: 10, TagFullLoadReport: 13,
		},
		running: []string{"wallclock", "cpu", "mem", "io", "ioops", "iow", "vmem", "maxvmem", "rss", "maxrss", "pss", "maxpss"},
		ended: slices.Concat([]string{"wallclock", "io", "ioops", "iow", "mem", "cpu", "vmem", "maxvmem", "rss", "maxrss", "pss", "maxpss"}, resourceUsage,
			[]string{"acct_cpu", "acct_mem", "acct_io", "acct_ioops", "acct_iow", "acct_maxvmem", "acct_maxrss", "acct_maxpss"}),
	}
)

// Protocols are all known protocols, the most common one first.
var Protocols = []*Protocol{GridEngine81, OCS91, OCS90}

// ProtocolNames are the names of Protocols.
func ProtocolNames() []string {
	var names []string
	for _, p := range Protocols {
		names = append(names, p.Name)
	}
	return names
}

// ProtocolNamed returns the protocol of a release: "9.1", or "9.1.4"; nil for an unknown one.
func ProtocolNamed(release string) *Protocol {
	for _, p := range Protocols {
		if release == p.Name || strings.HasPrefix(release, p.Name+".") {
			return p
		}
	}
	return nil
}

// TicketsAlone reports whether execution daemons adjust the priorities of jobs as soon as they get tickets,
// because configurations have no parameter reprioritize (sge_conf(5)).
func (p *Protocol) TicketsAlone() bool { return p.ticketsAlone }

// SchedulerBinds reports whether the scheduler chooses the processors of jobs. Then hosts report the load
// value m_topology in the form of topology.Topology.Tree, and no m_topology_inuse.
func (p *Protocol) SchedulerBinds() bool { return p.binds }

// resourceUsage are the names of usage values of a job that has ended which are in all protocols.
var resourceUsage = []string{
	"submission_time", "priority", "exit_status", "signal", "start_time", "end_time", "ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss",
	"ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd",
	"ru_msgrcv", "ru_nsignals", "ru_nvcsw", "ru_nivcsw",
}

// Identity is the sender of messages. For a daemon it is root or admin_user of bootstrap(5).
type Identity struct {
	UID, GID    int
	User, Group string
}

// Codec writes and reads the messages of a protocol in the name of a user.
type Codec struct {
	*Protocol
	Identity Identity
}

// begin begins a payload.
func (c *Codec) begin() *cull.Encoder {
	e := c.format.NewEncoder()
	e.Ulong(0)
	e.Ulong(c.format.Version)
	if c.envelope {
		e.String(c.auth())
	}
	return e
}

// open reads the beginning of a payload.
func (c *Codec) open(payload []byte) *cull.Decoder {
	d := c.format.NewDecoder(payload, cull.Limits{})
	d.Ulong()
	if v := d.Ulong(); d.Err() == nil && v != c.format.Version {
		d.Fail("the version of the packed lists is 0x%x, expected 0x%x: the other side is no Grid Engine %s", v, c.format.Version, c.Name)
	}
	if c.envelope {
		_ = d.String() // the sender, which the connection names, too
	}
	return d
}

// OtherRelease returns the protocols that a message in another form may have; nil for none.
func (c *Codec) OtherRelease(payload []byte) []*Protocol {
	if len(payload) < headLength {
		return nil
	}
	version := binary.BigEndian.Uint32(payload[4:])
	if version == c.format.Version {
		return nil
	}
	var others []*Protocol
	for _, p := range Protocols {
		if p.format.Version == version {
			others = append(others, p)
		}
	}
	return others
}

// auth returns the encoded sender of a message.
func (c *Codec) auth() string {
	if i := c.Identity; !c.scrambled {
		return fmt.Sprintf("none:%d %d %s %s", i.UID, i.GID, i.User, i.Group)
	}
	return scramble(c.Identity.text())
}

// text returns the identity in the form of 9.0 and later.
func (i *Identity) text() string {
	const noGroups = 0 // supplementary ones; they count for users of qrsh alone
	return fmt.Sprintf("%d\xff%d\xff%s\xff%s\xff%d", i.UID, i.GID, i.User, i.Group, noGroups)
}

// NamesSender reports whether each message begins with its sender, so that a credential can take its
// place (security_mode munge).
func (p *Protocol) NamesSender() bool { return p.envelope }

// headLength is the length of the beginning of a payload, before its sender.
const headLength = 8

// SenderText returns the text that a credential of this sender has to contain.
func (c *Codec) SenderText() []byte { return append([]byte(c.Identity.text()), 0) }

// WithCredential returns the payload with a credential instead of the sender's name. The protocol must
// have NamesSender.
func (c *Codec) WithCredential(payload []byte, credential string) []byte {
	name := len(c.auth()) + 1
	with := make([]byte, 0, len(payload)-name+len(credential)+1)
	with = append(with, payload[:headLength]...)
	with = append(append(with, credential...), 0)
	return append(with, payload[headLength+name:]...)
}

// Credential returns the text at the sender's place; an error if the payload has none.
func Credential(payload []byte) (string, error) {
	if len(payload) > headLength {
		if end := bytes.IndexByte(payload[headLength:], 0); end > 0 {
			return string(payload[headLength : headLength+end]), nil
		}
	}
	return "", fmt.Errorf("a message of %d bytes has no credential of its sender", len(payload))
}

// SenderUID reads the text of a credential, and returns the user id in it.
func SenderUID(text []byte) (uint32, error) {
	id, _, _ := strings.Cut(string(text), "\xff")
	uid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the text of a credential begins with %.40q, expected a user ID", id)
	}
	return uint32(uid), nil
}

// letters stand for half a byte each.
const letters = "*b~de,gh&jklrn=p"

// scramble writes a text as letters, the upper half of each byte first.
func scramble(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(letters[text[i]>>4])
		b.WriteByte(letters[text[i]&15])
	}
	return b.String()
}

// Number returns the number of a tag in this protocol.
func (p *Protocol) Number(t Tag) uint32 {
	if p.tags == nil {
		return uint32(t)
	}
	return p.tags[t]
}

// Tag returns the tag of a number in this protocol; false for a number that is not known.
func (p *Protocol) Tag(number uint32) (Tag, bool) {
	if p.tags == nil {
		return Tag(number), true
	}
	for t, n := range p.tags {
		if n == number {
			return t, true
		}
	}
	return 0, false
}

// firstOperator is the first comparison of 8.1; those before it are the same in all protocols.
const firstOperator = 19

func (p *Protocol) operatorNumber(operator uint32) uint32 {
	if operator >= firstOperator {
		return operator - p.operators
	}
	return operator
}

func (p *Protocol) operatorOf(number uint32) uint32 {
	if number+p.operators >= firstOperator {
		return number + p.operators
	}
	return number
}

// Usage selects the usage values of the protocol for a running or a finished job, in the protocol's
// order. Times are given in seconds since 1970.
func (p *Protocol) Usage(values []Usage, ended bool) []Usage {
	if values == nil {
		return nil
	}
	names := p.running
	if ended {
		names = p.ended
	}
	list := make([]Usage, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(values, func(u Usage) bool { return u.Name == name })
		if i < 0 {
			continue
		}
		u := values[i]
		switch name {
		case "submission_time", "start_time", "end_time":
			if p.micros {
				u.Value = math.Round(u.Value * 1e6)
			} else {
				u.Value = math.Trunc(u.Value)
			}
		}
		list = append(list, u)
	}
	return list
}
