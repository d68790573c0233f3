package submit

import "strings"

// TakeOwn returns a command line without the options that a command has in addition to those of
// sge_submit(1). It calls take for each word that begins with two dashes and is in the place of an
// option, with all following words. take returns the number of words that belong to its option, or
// 0 if the option is not its own. An error of take ends the call.
//
// A command can call it to read its own options before Parse reads the first file.
func TakeOwn(command Commands, args []string, take func(args []string) (int, error)) ([]string, error) {
	var rest []string
	for len(args) > 0 {
		word := args[0]
		if word == "-" || word == "--" || !strings.HasPrefix(word, "-") {
			break // the following words belong to the job
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
