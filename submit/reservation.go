package submit

import (
	"errors"
	"strconv"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Reservation is a qrsub command: a request for an advance reservation (qrsub(1)).
type Reservation struct {
	Start, End DateTime      // -a, -e; zero if not given
	Duration   time.Duration // -d, whole seconds; 0 if not given
	HardError  bool          // -he y: no job starts while the reservation is in error state
	Users      []string      // -u: users and @lists; empty for the owner alone

	Name    string // -N; empty for none
	Account string // -A

	PE                   *ParallelRequest // -pe; nil for one slot
	Checkpoint           string           // -ckpt
	Resources            []ResourceRequest
	Queues, MasterQueues []string // -q, -masterq
	Immediate            bool     // -now y: interactive queues only
	Validation           Validation

	Mail        []string
	MailOptions job.MailOptions

	Help bool // -help: no other field is set
}

// ParseReservation reads the command line of qrsub. It uses Args and RequestFiles (sge_ar_request)
// of in. The error is an *Error. The caller, which has the current time, checks that start, end and
// duration are complete and consistent.
func ParseReservation(in Input) (*Reservation, error) {
	in.Master = true
	p := parser{in: &in, command: Qrsub}
	line, err := p.commandLine()
	if err != nil {
		return nil, err
	}
	if line.hasCommand {
		return nil, &Error{Where: CommandLine, Value: line.command, Problem: "expected an option; a reservation has no command"}
	}
	var settings []setting
	for _, f := range in.RequestFiles {
		more, err := p.requestFile(f, 0)
		if err != nil {
			return nil, err
		}
		settings = append(settings, more...)
	}
	r := &Reservation{}
	b := builder{in: &in, reservation: r}
	for _, s := range append(settings, line.settings...) {
		if s.option.Name == "-help" {
			return &Reservation{Help: true}, nil
		}
		if err := b.apply(s); err != nil {
			return nil, err
		}
	}
	b.collect()
	req := &b.req
	r.Start, r.Name, r.Account = req.Start, req.Name, req.Account
	r.PE, r.Checkpoint, r.Resources = req.PE, req.Checkpoint, req.Resources
	r.MasterQueues, r.Immediate, r.Validation = req.MasterQueues, req.Immediate, req.Validation
	r.Mail, r.MailOptions = req.Mail, req.MailOptions
	for _, q := range req.Queues {
		r.Queues = append(r.Queues, q.Reference)
	}
	return r, nil
}

func setEnd(b *builder, s setting) (err error) {
	b.reservation.End, err = ParseDateTime(s.value())
	return err
}

// setDuration reads -d. 0 and INFINITY mean no duration, as without -d (tested).
func setDuration(b *builder, s setting) error {
	seconds, err := quantity.Time(s.value())
	if err != nil {
		return err
	}
	switch {
	case seconds == quantity.Infinity:
		seconds = 0
	case seconds > uint64(maxTask):
		return errors.New("the duration is not a time of at most " + strconv.Itoa(maxTask) + " seconds")
	}
	b.reservation.Duration = time.Duration(seconds) * time.Second
	return nil
}

func setHardError(b *builder, s setting) (err error) {
	b.reservation.HardError, err = yesNo(s.value())
	return err
}
