package submit

import "strings"

// TakeOwn returns a command line without the options that a command has beside those of
// sge_submit(1). It offers take each word that begins with two dashes and stands where an
// option can, with all words that follow; take returns the number of words that are its own,
// or 0. An error of take ends it.
//
// So a command knows its own options before Parse reads the first file.
func TakeOwn(command Commands, args []string, take func(args []string) (int, error)) ([]string, error) {
	var rest []string
	for len(args) > 0 {
		word := args[0]
		if word == "-" || word == "--" || !strings.HasPrefix(word, "-") {
			break // what follows is the job's
		}
		if strings.HasPrefix(word, "--") {
			n, err := take(args)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				args = args[min(n, len(args)):]
				continue
			}
		}
		o := lookup(command, word)
		if o == nil {
			break // an error, which Parse reports
		}
		n := min(o.words(args), len(args))
		rest = append(rest, args[:n]...)
		args = args[n:]
	}
	return append(rest, args...), nil
}
