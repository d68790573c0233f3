package qstat

import (
	"slices"
	"strings"
	"unicode"
)

// withheldTitles are the lines of qstat -j by the names of their fields in JSON.
var withheldTitles = map[string]label{
	"path": "sge_o_path", "mail": "sge_o_mail", "environment": "values of env_list", "arguments": "job_args", "script": "the rest of script_file",
	"context": "values of context",
}

// Withhold removes the values that only the owner of the job and managers may see: the values of
// variables and of the context (their names stay), the arguments, and the words of a command after
// the first one. It lists the changed fields in Withheld.
func (j *JobDetail) Withhold() {
	withheld := func(field string, is bool) {
		if is {
			j.Withheld = append(j.Withheld, field)
		}
	}
	withheld("path", j.Path != "")
	withheld("mail", j.Mail != "")
	j.Path, j.Mail = "", ""
	withheld("environment", len(j.Environment) > 0)
	j.Environment = names(j.Environment)
	withheld("arguments", len(j.Arguments) > 0)
	j.Arguments = nil
	// With -b y a command is often a line for a shell, which may begin with an assignment.
	if i := strings.IndexFunc(j.Script, inNoPath); i >= 0 && slices.Contains(strings.Split(j.Type, ","), "binary") {
		withheld("script", true)
		j.Script = j.Script[:i]
	}
	withheld("context", len(j.Context) > 0)
	j.Context = names(j.Context)
}

// inNoPath reports whether a character ends the path of a program in a line for a shell.
func inNoPath(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+~@%,:", r)
}

// names returns the names of variables of the form NAME=VALUE.
func names(variables []string) []string {
	list := slices.Clone(variables)
	for i, v := range list {
		list[i], _, _ = strings.Cut(v, "=")
	}
	return list
}
