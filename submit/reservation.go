package submit

import (
	"errors"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// Reservation is what a qrsub command asks for: an advance reservation (qrsub(1)).
type Reservation struct {
	Start, End DateTime      // -a, -e; zero for not given
	Duration   time.Duration // -d, whole seconds; 0 for not given
	HardError  bool          // -he y: in error state no job is started
	Users      []string      // -u: users and @lists; none for the owner alone

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

	Help bool // -help: nothing else is filled in
}

// ParseReservation reads the command line of qrsub. Of in it takes Args,
// RequestFiles (sge_ar_request). The error is an *Error. That an end or a duration is
// missing, or that they contradict each other, is found by who knows the time.
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

func setDuration(b *builder, s setting) error {
	seconds, err := quantity.Time(s.value())
	if err != nil {
		return err
	}
	if seconds == 0 || seconds > uint64(maxTask) {
		return errors.New("the duration is not a finite time above 0")
	}
	b.reservation.Duration = time.Duration(seconds) * time.Second
	return nil
}

func setHardError(b *builder, s setting) (err error) {
	b.reservation.HardError, err = yesNo(s.value())
	return err
}
