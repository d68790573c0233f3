package jobdir

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// Description reads what the directory says about its job: config, environment
// and, if there is one, the file of arguments. ErrIncomplete tells that the
// directory was never finished. When its shepherd has begun, procedures of the
// site may have edited the environment.
func (d *Dir) Description() (*job.Description, error) {
	config, err := d.ReadFile(FileConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{"use directory", d.path, ErrIncomplete}
	}
	if err != nil {
		return nil, err
	}
	desc, err := ParseConfig(d.file(FileConfig), config)
	if err != nil {
		return nil, err
	}
	args, err := d.ReadFile(FileArguments)
	switch {
	case err == nil:
		err = ParseArguments(d.file(FileArguments), args, desc)
	case errors.Is(err, fs.ErrNotExist): // made by the original's daemon
		err = nil
	}
	if err != nil {
		return nil, err
	}
	env, err := d.ReadFile(FileEnvironment)
	if err != nil {
		return nil, err
	}
	begun, err := d.Exists(FilePID)
	if err == nil && begun {
		desc.Environment, _ = ParseEditedEnvironment(env)
	} else if err == nil {
		desc.Environment, err = ParseEnvironment(d.file(FileEnvironment), env)
	}
	if err != nil {
		return nil, err
	}
	return desc, nil
}

// WriteNumber writes a file of one number: pid, job_pid, addgrpid, signal,
// checkpointed.
func (d *Dir) WriteNumber(name string, n int) error {
	return d.WriteFile(name, []byte(itoa(n)+"\n"))
}

// ReadNumber reads a file of one number. errors.Is(err, fs.ErrNotExist) tells
// that there is none.
func (d *Dir) ReadNumber(name string) (int, error) {
	b, err := d.ReadFile(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
	if err != nil {
		return 0, &SyntaxError{File: d.file(name), Line: 1, Problem: quote(string(b)) + " is not a number"}
	}
	return n, nil
}

// AddExitStatus adds a number to exit_status. The first one counts: it is what
// the shepherd reports as "failed".
func (d *Dir) AddExitStatus(n int) error { return d.Append(FileExitStatus, itoa(n)+"\n") }

// ExitStatus returns the first number of exit_status. done is false while there is
// none, be it that the file is missing or that it is empty.
func (d *Dir) ExitStatus() (n int, done bool, err error) {
	b, err := d.ReadFile(FileExitStatus)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(b) == 0) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, ok := FirstNumber(b)
	if !ok {
		return 0, false, &SyntaxError{File: d.file(FileExitStatus), Line: 1, Problem: quote(string(b)) + " does not begin with a number"}
	}
	return n, true, nil
}

// AddError adds a line to the file error, with the time and the process that it is of.
func (d *Dir) AddError(now time.Time, euid, pid int, text string) error {
	return d.Append(FileError, RecordLine(now, euid, pid, text))
}

// FirstError returns the first line of the file error: its stamp, "MM/DD/YYYY HH:MM:SS [euid:pid]: ",
// and its text. Both are empty without such a line.
func (d *Dir) FirstError() (stamp, text string, err error) {
	b, err := d.ReadFile(FileError)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	return FirstStamp(b), FirstRecord(b), err
}

// WriteUsage writes the file usage.
func (d *Dir) WriteUsage(u *Usage) error { return d.WriteFile(FileUsage, FormatUsage(u)) }

// Usage reads the file usage; nil without an error tells that there is none:
// the job was not started.
func (d *Dir) Usage() (*Usage, error) {
	b, err := d.ReadFile(FileUsage)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseUsage(d.file(FileUsage), b)
}

// Checkpointed reports whether the job is to migrate, and whether a checkpoint
// of it is there to be restarted from.
func (d *Dir) Checkpointed() (migrate, inArena bool, err error) {
	b, err := d.ReadFile(FileCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	n, ok := FirstNumber(b)
	return true, ok && n != 0, nil
}

// PEHosts reads the pe_hostfile.
func (d *Dir) PEHosts() ([]PEHost, error) {
	b, err := d.ReadFile(FilePEHosts)
	if err != nil {
		return nil, err
	}
	return ParsePEHosts(d.file(FilePEHosts), b)
}

func itoa(n int) string { return strconv.Itoa(n) }

func octal(mode uint32) string { return "0" + strconv.FormatUint(uint64(mode), 8) }
