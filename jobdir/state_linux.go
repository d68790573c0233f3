package jobdir

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// Description reads the job's description from the directory: from config, environment and, if
// there is one, the file of arguments. If the directory was never finished, the error is
// ErrIncomplete. Once the shepherd runs, procedures of the site may have edited the environment.
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
	case errors.Is(err, fs.ErrNotExist): // created by the original's daemon
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
		desc.Environment, _ = ParseEditedEnvironment(env, desc.Daemon)
	} else if err == nil {
		desc.Environment, err = ParseEnvironment(d.file(FileEnvironment), env, desc.Daemon)
	}
	if err != nil {
		return nil, err
	}
	return desc, nil
}

// WriteNumber writes a file that contains one number: pid, job_pid, addgrpid, signal, checkpointed.
func (d *Dir) WriteNumber(name string, n int) error {
	return d.WriteFile(name, []byte(itoa(n)+"\n"))
}

// ReadNumber reads a file that contains one number. If there is no such file, errors.Is(err,
// fs.ErrNotExist) holds.
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

// AddExitStatus appends a number to exit_status. Only the first number counts: the field "failed"
// of the shepherd's report.
func (d *Dir) AddExitStatus(n int) error { return d.Append(FileExitStatus, itoa(n)+"\n") }

// ExitStatus returns the first number of exit_status. done is false while there is none, because
// the file is missing or empty.
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

// AddError appends a line to the file error, with the time, the effective user ID and the process
// ID.
func (d *Dir) AddError(now time.Time, euid, pid int, text string) error {
	return d.Append(FileError, RecordLine(now, euid, pid, text))
}

// FirstError returns the prefix ("MM/DD/YYYY HH:MM:SS [euid:pid]: ") and the text of the first line
// of the file error. Both are empty if there is no line.
func (d *Dir) FirstError() (stamp, text string, err error) {
	b, err := d.ReadFile(FileError)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	return FirstStamp(b), FirstRecord(b), err
}

// WriteUsage writes the file usage.
func (d *Dir) WriteUsage(u *Usage) error { return d.WriteFile(FileUsage, FormatUsage(u)) }

// Usage reads the file usage. It returns nil without an error if there is none: the job was not
// started.
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

// Checkpointed reports whether the job is to migrate, and whether there is a checkpoint to restart
// it from.
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
