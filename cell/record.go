package cell

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// recordVersion is the version of the records that the cell writes. Records of a newer version
// cannot be read. In records of older versions fields may be missing. Unknown fields are ignored.
const recordVersion = 1

// record is the stored value of a key.
type record interface{ header() *recordHeader }

// recordHeader is the common beginning of all records.
type recordHeader struct {
	Version int `json:"v"`
	// Bytes is set if the texts of the record are not valid UTF-8: each character then stands for
	// one byte.
	Bytes bool `json:"bytes,omitempty"`
}

func (h *recordHeader) header() *recordHeader { return h }

// The keys of records.
const (
	counterKey = "counter"
	decayKey   = "decay"
)

// The prefixes of keys of records that exist several times.
const (
	jobPrefix         = "job/"
	requestPrefix     = "request/"
	scriptPrefix      = "script/"
	taskPrefix        = "task/"
	usagePrefix       = "usage/" // of finished tasks, until the next scheduling run
	userPrefix        = "user/"
	projectPrefix     = "project/"
	hostPrefix        = "host/"
	instancePrefix    = "queue/"
	orphanPrefix      = "orphan/"
	reservationPrefix = "reservation/"
)

func jobKey(prefix string, id uint32) string { return fmt.Sprintf("%s%010d", prefix, id) }

func taskKey(prefix string, id, task uint32) string {
	return fmt.Sprintf("%s%010d/%010d", prefix, id, task)
}

func reservationKey(id uint32) string    { return jobKey(reservationPrefix, id) }
func userKey(name string) string         { return userPrefix + name }
func projectKey(name string) string      { return projectPrefix + name }
func hostKey(name string) string         { return hostPrefix + name }
func instanceKey(instance string) string { return instancePrefix + instance }
func orphanKey(instance string) string   { return orphanPrefix + instance }

// splitInstance returns the queue and the host of a queue instance.
func splitInstance(name string) (queue, host string) {
	queue, host, _ = strings.Cut(name, "@")
	return queue, host
}

// counterRecord holds the numbers that were assigned last.
type counterRecord struct {
	recordHeader
	Job         uint32 `json:"job"`
	Reservation uint32 `json:"reservation"`
	Changes     int64  `json:"changes"` // of jobs
	Starts      int64  `json:"starts"`  // of tasks
}

// decayRecord holds the half-lives with which the stored usage decays. After a change of the
// configuration, the usage until the change decays with the previous half-lives one last time.
type decayRecord struct {
	recordHeader
	Hours      number           `json:"hours"`
	Exceptions []halfLifeRecord `json:"exceptions,omitempty"`
}

type halfLifeRecord struct {
	Usage   string `json:"usage"`
	Minutes number `json:"minutes"`
}

// jobRecord holds a job without its request.
type jobRecord struct {
	recordHeader
	Owner      string `json:"owner"`
	Group      string `json:"group,omitempty"`
	Host       string `json:"host,omitempty"`
	Submission string `json:"submission,omitempty"`
	Project    string `json:"project,omitempty"`
	Submitted  int64  `json:"submitted"`
	Start      int64  `json:"start,omitempty"`
	Deadline   int64  `json:"deadline,omitempty"`
	Holds      string `json:"holds,omitempty"`   // letters of qsub(1), -h
	Waiting    string `json:"waiting,omitempty"` // a list of ranges
	Alteration int    `json:"alteration,omitempty"`
	Override   number `json:"override,omitempty"`  // tickets
	Changed    int64  `json:"changed"`             // time of the last change, counted in changes of jobs
	Started    int64  `json:"started,omitempty"`   // time of the last start of a task, counted in starts
	Immediate  bool   `json:"immediate,omitempty"` // the job has -now y, and no scheduling run has decided about it
	Ran        bool   `json:"ran,omitempty"`       // one of its tasks has finished

	Ending           *endingRecord `json:"ending,omitempty"`
	Predecessors     []uint32      `json:"predecessors,omitempty"`
	TaskPredecessors []uint32      `json:"task_predecessors,omitempty"`
}

// endingRecord holds the reason why a task has ended.
type endingRecord struct {
	At   int64  `json:"at"`
	Task uint32 `json:"task"`
	Text string `json:"text"`
}

// requestRecord holds a request without the script.
type requestRecord struct {
	recordHeader
	Request *requestFields `json:"request"`
	Origin  *originRecord  `json:"origin,omitempty"`
}

// originRecord describes the place of a submission.
type originRecord struct {
	UID         int      `json:"uid"`
	GID         int      `json:"gid"`
	Directory   string   `json:"directory"`
	Environment []string `json:"environment,omitempty"`
}

// scriptRecord holds the script of a job: its text, or the name and size of the text.
type scriptRecord struct {
	recordHeader
	Text string `json:"text,omitempty"`
	Sum  string `json:"sum,omitempty"`
	Size int64  `json:"size,omitempty"`
}

// taskRecord holds a task with a state of its own.
type taskRecord struct {
	recordHeader
	Holds      string          `json:"holds,omitempty"`
	Error      string          `json:"error,omitempty"`
	Message    string          `json:"message,omitempty"`
	Deleted    bool            `json:"deleted,omitempty"`
	DeletedBy  string          `json:"deleted_by,omitempty"`
	Restarts   int             `json:"restarts,omitempty"`
	Refusals   int             `json:"refusals,omitempty"`
	Priority   number          `json:"priority,omitempty"`
	Normalized number          `json:"normalized,omitempty"`
	Tickets    *ticketsRecord  `json:"tickets,omitempty"`
	Used       *amountsRecord  `json:"used,omitempty"`
	Booked     *amountsRecord  `json:"booked,omitempty"`
	Reported   bool            `json:"reported,omitempty"` // some of its usage has not been booked
	Unclean    []uncleanRecord `json:"unclean,omitempty"`
	Refused    *refusedRecord  `json:"refused,omitempty"`
	Back       *backoffRecord  `json:"back,omitempty"`
	Run        *runRecord      `json:"run,omitempty"`
}

// backoffRecord holds the delay of a task, and the number of events in a row.
type backoffRecord struct {
	Count int   `json:"count"`
	Until int64 `json:"until,omitempty"`
}

type refusedRecord struct {
	backoffRecord
	Host   string `json:"host"`
	Reason string `json:"reason,omitempty"`
}

type ticketsRecord struct {
	Share      number `json:"share,omitempty"`
	Functional number `json:"functional,omitempty"`
	Override   number `json:"override,omitempty"`
	Total      number `json:"total,omitempty"`
	Portion    number `json:"portion,omitempty"`
}

type amountsRecord struct {
	CPU      number `json:"cpu,omitempty"`
	Mem      number `json:"mem,omitempty"`
	IO       number `json:"io,omitempty"`
	Finished number `json:"finished_jobs,omitempty"`
}

type uncleanRecord struct {
	Attempt int    `json:"attempt"`
	Host    string `json:"host"`
}

// runRecord holds the run of a task.
type runRecord struct {
	Transferring bool          `json:"transferring,omitempty"`
	Started      int64         `json:"started"`
	PE           string        `json:"pe,omitempty"`
	Grants       []grantRecord `json:"grants"`
	Limit        int64         `json:"limit,omitempty"`
	Urgency      number        `json:"urgency,omitempty"`
	// Suspended lists the reasons that do not follow from the states of queues: user, threshold,
	// slotwise.
	Suspended []string `json:"suspended,omitempty"`
	// Frozen holds the values with which the task was started, if the job was altered since.
	Frozen *frozenRecord `json:"frozen,omitempty"`
}

type grantRecord struct {
	Queue    string           `json:"queue"`
	Host     string           `json:"host"`
	Slots    int              `json:"slots"`
	Elements []elementsRecord `json:"things,omitempty"`
	Cores    [][2]int         `json:"cores,omitempty"` // socket and core
}

type elementsRecord struct {
	Complex string   `json:"complex"`
	Layer   string   `json:"layer"` // global, host or queue
	IDs     []string `json:"ids"`
}

// frozenRecord holds the values of a scheduler.Job at its start.
type frozenRecord struct {
	Requests  *requestsRecord `json:"requests"`
	Deadline  int64           `json:"deadline,omitempty"`
	Changed   int64           `json:"changed"`
	Started   int64           `json:"started"`
	Priority  int             `json:"priority,omitempty"`
	Reserve   bool            `json:"reserve,omitempty"`
	TaskLimit int             `json:"task_limit,omitempty"`
	Shares    number          `json:"shares,omitempty"`
	Override  number          `json:"override,omitempty"`
}

// usageRecord is the usage of a finished task that has not been booked yet.
type usageRecord struct {
	recordHeader
	User    string         `json:"user"`
	Project string         `json:"project,omitempty"`
	Used    *amountsRecord `json:"used,omitempty"`
	Booked  *amountsRecord `json:"booked,omitempty"`
}

// userRecord holds a user with an object, or with a previous automatic object.
type userRecord struct {
	recordHeader
	Number    int32                `json:"number"`
	Automatic bool                 `json:"automatic,omitempty"` // the object was created for a job; then also:
	Shares    number               `json:"fshare,omitempty"`
	Override  number               `json:"oticket,omitempty"`
	Expires   int64                `json:"expires,omitempty"`
	Due       int64                `json:"due,omitempty"` // time of the next check
	Stamp     int64                `json:"stamp,omitempty"`
	Usage     ledgerRecord         `json:"usage"`
	ByProject []projectUsageRecord `json:"by_project,omitempty"`
}

type projectUsageRecord struct {
	Project string `json:"project"`
	ledgerRecord
}

type ledgerRecord struct {
	Decayed  *amountsRecord `json:"decayed,omitempty"`
	LongTerm *amountsRecord `json:"long_term,omitempty"`
}

type projectRecord struct {
	recordHeader
	Number int32        `json:"number"`
	Stamp  int64        `json:"stamp,omitempty"`
	Usage  ledgerRecord `json:"usage"`
}

// hostRecord holds a host that has reported, or one whose reports are missing.
type hostRecord struct {
	recordHeader
	Up      bool  `json:"up,omitempty"`
	GivenUp int64 `json:"given_up,omitempty"` // time at which its tasks are rescheduled
}

// instanceRecord holds the part of a queue instance's state that does not follow from other data.
type instanceRecord struct {
	recordHeader
	Disabled  bool     `json:"disabled,omitempty"`
	Suspended bool     `json:"suspended,omitempty"`
	Failed    bool     `json:"failed,omitempty"`
	Errors    []string `json:"errors,omitempty"`
	Checked   int64    `json:"checked,omitempty"` // time of the last action of suspend thresholds
}

// orphanRecord holds a queue that was removed while an instance was in use.
type orphanRecord struct {
	recordHeader
	Text string `json:"text"` // in the format of queue_conf(5)
}

type reservationRecord struct {
	recordHeader
	Owner     string             `json:"owner"`
	Group     string             `json:"group,omitempty"`
	Submitted int64              `json:"submitted"`
	Start     int64              `json:"start"`
	End       int64              `json:"end"`
	Deleted   bool               `json:"deleted,omitempty"`
	PE        string             `json:"pe,omitempty"`
	Grants    []grantRecord      `json:"grants"`
	Request   *reservationFields `json:"request"`
}

func amountsOf(a tickets.Amounts) *amountsRecord {
	if a == (tickets.Amounts{}) {
		return nil
	}
	return &amountsRecord{
		CPU: number(a[tickets.CPU]), Mem: number(a[tickets.Mem]), IO: number(a[tickets.IO]), Finished: number(a[tickets.FinishedJobs]),
	}
}

func (a *amountsRecord) amounts() tickets.Amounts {
	if a == nil {
		return tickets.Amounts{}
	}
	return tickets.Amounts{
		tickets.CPU: float64(a.CPU), tickets.Mem: float64(a.Mem), tickets.IO: float64(a.IO), tickets.FinishedJobs: float64(a.Finished),
	}
}

func ledgerOf(u *tickets.Usage) ledgerRecord {
	return ledgerRecord{Decayed: amountsOf(u.Decayed), LongTerm: amountsOf(u.LongTerm)}
}

func (r *ledgerRecord) usage() tickets.Usage {
	return tickets.Usage{Decayed: r.Decayed.amounts(), LongTerm: r.LongTerm.amounts()}
}

// holdLetters returns the letters of holds for a record.
func holdLetters(h submit.Holds) string {
	if h == 0 {
		return ""
	}
	return h.String()
}

func holdsOf(letters string) (h submit.Holds, err error) {
	if letters == "" {
		return 0, nil
	}
	change, err := submit.ParseHolds(letters)
	return change.Set, err
}
