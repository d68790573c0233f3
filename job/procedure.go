package job

import "strings"

// Procedure splits a configured command, "[user@]path arguments" (sge_conf(5), prolog). Blanks and
// tabs separate words; quotes have no special meaning. user is empty if the command runs as the
// owner of the job. There is always at least one word, which may be empty.
func Procedure(command string) (user string, words []string) {
	words = strings.FieldsFunc(command, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(words) == 0 {
		return "", []string{""}
	}
	if at := strings.IndexByte(words[0], '@'); at > 0 && !strings.Contains(words[0][:at], "/") {
		user, words[0] = words[0][:at], words[0][at+1:]
	}
	return user, words
}
