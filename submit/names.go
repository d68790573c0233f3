package submit

import (
	"errors"
	"strconv"
	"strings"
)

// The maximum lengths of strings. The length of a name is limited by sge_types(5). The other limits
// are those of Linux: PATH_MAX, and the limit of execve for each single argument and each
// NAME=value (MAX_ARG_STRLEN), both including the final NUL.
const (
	maxName   = 512
	maxPath   = 4096 - 1
	maxString = 128*1024 - 1
)

// Characters that sge_types(5) forbids in a name and in an object_name. A pattern of object names
// (wc_pe_name) may contain the wildcards * ? [ ] in addition. The manual does not mention the
// apostrophe; 8.1.9 refuses it (tested).
const (
	notInName    = `/:@\*?`
	notInObject  = `/:'"\[]{}|()@%,`
	notInPattern = `/:'"\{}|()@%,`
)

// checkName checks a job_name or account_name of sge_types(5).
func checkName(s string) error { return checkCharacters(s, notInName) }

// checkJobName does what checkName does, and also refuses a leading digit, with which other
// commands would read the name as a job number.
func checkJobName(s string) error {
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		return errors.New("the name " + strconv.Quote(s) + " begins with a digit")
	}
	return checkName(s)
}

// checkObject checks an object_name of sge_types(5). checkPattern checks a pattern of object names.
func checkObject(s string) error { return checkCharacters(s, notInObject) }

func checkPattern(s string) error { return checkCharacters(s, notInPattern) }

func checkCharacters(s, forbidden string) error {
	if s == "" {
		return errors.New("the name is empty")
	}
	if len(s) > maxName {
		return errors.New("the name has " + strconv.Itoa(len(s)) + " characters, at most " + strconv.Itoa(maxName) + " are allowed")
	}
	for _, r := range s {
		// The original also refuses blanks (tested), which would break every list that contains the
		// name.
		if r <= ' ' || r > '~' || strings.ContainsRune(forbidden, r) {
			return errors.New("the character " + strconv.QuoteRune(r) + " is not allowed in a name")
		}
	}
	switch strings.ToUpper(s) {
	case "NONE", "ALL", "TEMPLATE": // tested
		return errors.New("the word " + strconv.Quote(s) + " is reserved and can't be a name")
	}
	return nil
}

// checkString refuses text that cannot be an argument, variable or path.
func checkString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return errors.New("it contains a NUL byte")
	}
	if len(s) > maxString {
		return errors.New("it has " + strconv.Itoa(len(s)) + " bytes, at most " + strconv.Itoa(maxString) + " are possible")
	}
	return nil
}

// hasControl reports whether s contains a control character, including line breaks.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// digits parses a decimal number that does not exceed limit.
func digits(s string, limit int) (int, error) {
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, errors.New(strconv.Quote(s) + " is not a number")
		}
	}
	if s == "" {
		return 0, errors.New("a number is missing")
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(limit) {
		return 0, errors.New(s + " is too large, at most " + strconv.Itoa(limit) + " is possible")
	}
	return int(n), nil
}

// positive parses a number from 1 to limit.
func positive(s string, limit int) (int, error) {
	n, err := digits(s, limit)
	if err == nil && n == 0 {
		err = errors.New("0 is not possible, numbers begin at 1")
	}
	return n, err
}
