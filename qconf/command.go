package qconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/job"
)

// The pseudo variables that the original replaces in commands. It refuses a
// command with any other word after a $, at the latest when the job starts.
var (
	methodVariables = []string{
		"host", "ja_task_id", "job_owner", "job_id", "job_name", "queue", "job_pid", "sge_cell", "sge_root",
	} // queue_conf(5), suspend_method
	ckptVariables = append(slices.Clone(methodVariables), "ckpt_dir", "ckpt_signal") // checkpoint(5), ckpt_command

	procedureVariables = []string{
		"host", "ja_task_id", "job_owner", "job_id", "job_name", "processors", "queue", "sge_cell", "sge_root",
		"stdin_path", "stdout_path", "stderr_path", "merge_stderr",
		"fs_stdin_host", "fs_stdin_path", "fs_stdin_tmp_path", "fs_stdin_file_staging",
		"fs_stdout_host", "fs_stdout_path", "fs_stdout_tmp_path", "fs_stdout_file_staging",
		"fs_stderr_host", "fs_stderr_path", "fs_stderr_tmp_path", "fs_stderr_file_staging",
	} // sge_conf(5), prolog
	peVariables = append(slices.Clone(procedureVariables), "pe_hostfile", "pe", "pe_slots") // sge_pe(5), start_proc_args
)

// path returns an absolute path.
func path[T any](field func(*T) *string) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		return s, checkAbsolute(s)
	}}
}

// optionalPath returns an absolute path or NONE, which is stored as "".
func optionalPath[T any](field func(*T) *string) kind[T] { return orNone(path(field), field) }

func checkAbsolute(s string) error {
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("%q is not an absolute path, expected one that begins with /", s)
	}
	return nil
}

// command returns the kind of an attribute that is NONE, stored as "", or an absolute path with
// arguments, which may contain the variables.
func command[T any](variables []string, field func(*T) *string) kind[T] {
	return orNone(kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		if err := checkAbsolute(s); err != nil {
			return s, err
		}
		return s, checkVariables(s, variables)
	}}, field)
}

// userCommand returns a command with an optional prefix user@, which says who runs
// it (sge_conf(5), prolog).
func userCommand[T any](variables []string, field func(*T) *string) kind[T] {
	return orNone(kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		rest := s
		if at := strings.IndexAny(s, "@/ \t"); at >= 0 && s[at] == '@' {
			if err := CheckName(s[:at]); err != nil {
				return s, fmt.Errorf("user before @: %w", err)
			}
			rest = s[at+1:]
		}
		if !strings.HasPrefix(rest, "/") {
			return s, fmt.Errorf("%q is not a command, expected NONE or [user@] and an absolute path with arguments", s)
		}
		return s, checkVariables(rest, variables)
	}}, field)
}

// method returns a command, or a signal by name or number, or NONE, stored as "",
// for the signal that is the default (queue_conf(5), suspend_method).
func method[T any](field func(*T) *string) kind[T] {
	return orNone(kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		if strings.HasPrefix(s, "/") {
			return s, checkVariables(s, methodVariables)
		}
		if _, ok := job.ParseSignal(s); !ok {
			return s, fmt.Errorf("%q is not a method, expected NONE, a signal name, a signal number from 1 to 64, or an absolute path with arguments", s)
		}
		return s, nil
	}}, field)
}

// signal returns a signal by name or number, or NONE, stored as "".
func signal[T any](field func(*T) *string) kind[T] {
	return orNone(kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		if _, ok := job.ParseSignal(s); !ok {
			return s, fmt.Errorf("%q is not a signal, expected NONE, a name of kill -l or a number from 1 to 64", s)
		}
		return s, nil
	}}, field)
}

// checkVariables refuses a $ that is not followed by one of the variables. It
// takes everything when there are none: then nothing is replaced.
func checkVariables(s string, variables []string) error {
	if variables == nil {
		return nil
	}
	for rest := s; ; {
		_, after, ok := strings.Cut(rest, "$")
		if !ok {
			return nil
		}
		n := 0
		for n < len(after) && (after[n] == '_' || after[n] >= '0' && after[n] <= '9' ||
			after[n] >= 'a' && after[n] <= 'z' || after[n] >= 'A' && after[n] <= 'Z') {
			n++
		}
		if !slices.Contains(variables, after[:n]) {
			return fmt.Errorf("%q has the unknown variable $%s, expected one of $%s", s, after[:n], strings.Join(variables, " $"))
		}
		rest = after[n:]
	}
}
