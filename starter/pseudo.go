package starter

import (
	"maps"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// variables are the pseudo variables of a kind of procedure, by name without $.
type variables map[string]string

// commonVariables returns the pseudo variables of all procedures and methods.
func commonVariables(d *job.Description, sgeRoot, sgeCell string) variables {
	return variables{
		"host":       d.Host,
		"ja_task_id": strconv.Itoa(d.ID.Task),
		"job_owner":  d.Owner,
		"job_id":     strconv.Itoa(d.ID.Job),
		"job_name":   d.Name,
		"queue":      d.Queue,
		"processors": orWord(d.Processors, "UNDEFINED"),
		"sge_root":   sgeRoot,
		"sge_cell":   sgeCell,
	}
}

// procedureVariables returns the variables for prolog and epilog (sge_conf(5)), and with a PE also
// those for its procedures (sge_pe(5)).
func procedureVariables(d *job.Description, common variables, paths [3]string) variables {
	v := variables{}
	maps.Copy(v, common)
	for i, stream := range []string{"stdin", "stdout", "stderr"} {
		s := d.Streams[i].Staging
		v[stream+"_path"] = paths[i]
		if !s.Enabled {
			s.TmpPath = "" // always in the config file
		}
		v["fs_"+stream+"_host"] = orWord(s.Host, `""`)
		v["fs_"+stream+"_path"] = orWord(s.Path, `""`)
		v["fs_"+stream+"_tmp_path"] = orWord(s.TmpPath, `""`)
		v["fs_"+stream+"_file_staging"] = zeroOrOne(s.Enabled)
	}
	v["merge_stderr"] = zeroOrOne(d.MergeError)
	if d.PE != nil {
		v["pe"] = d.PE.Name
		v["pe_slots"] = strconv.Itoa(d.PE.Slots)
		v["pe_hostfile"] = d.PE.HostFile
	}
	return v
}

func zeroOrOne(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// expand replaces $name by its value. Names that are not pseudo variables stay unchanged. If quote
// is not nil, it is applied to each value.
func (v variables) expand(s string, quote func(string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n := 0
		for n < len(rest) && isNameByte(rest[n]) {
			n++
		}
		if value, ok := v[rest[:n]]; ok {
			if quote != nil {
				value = quote(value)
			}
			b.WriteString(value)
		} else {
			b.WriteString("$" + rest[:n])
		}
		s = rest[n:]
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// procedure is a configured procedure, ready to run.
type procedure struct {
	user string // empty for the job's owner
	argv []string
	// chosen is the variable in the path of the program whose value the user chooses; empty for
	// none.
	chosen string
}

// chosenByUsers are the variables whose values users choose when they submit a job.
var chosenByUsers = []string{"job_name", "stdin_path", "stdout_path", "stderr_path", "fs_*"}

// chosenIn returns the first of these variables in a word, or an empty string.
func chosenIn(word string) string {
	for i, part := range strings.Split(word, "$") {
		n := 0
		for n < len(part) && isNameByte(part[n]) {
			n++
		}
		if i > 0 && matchesAny(chosenByUsers, part[:n]) {
			return part[:n]
		}
	}
	return ""
}

// parseProcedure splits "[user@]path args" at blanks, without quoting (sge_conf(5)), and expands
// pseudo variables in every word. It splits first, so that a value with a blank, such as a path
// that a user chose, stays one argument.
func parseProcedure(s string, v variables) procedure {
	var p procedure
	user, words := job.Procedure(s) // an empty word fails when it is executed
	p.user = user
	p.chosen = chosenIn(words[0])
	for _, w := range words {
		p.argv = append(p.argv, v.expand(w, nil))
	}
	return p
}

// shellQuote makes a value safe in a command line of sh(1). A value of harmless characters stays
// unquoted, as administrators expect.
func shellQuote(s string) string {
	safe := s != ""
	for i := range len(s) {
		safe = safe && (isNameByte(s[i]) || strings.IndexByte("-./:=@%+,", s[i]) >= 0)
	}
	if safe {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
