package audit

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/submit"
)

// WithoutValues returns the words of a command line of qsub(1) or the like, without the values of
// variables (-v).
func WithoutValues(args []string) []string {
	args = slices.Clone(args)
	for i := 1; i < len(args); i++ {
		if args[i-1] == "-v" {
			args[i] = namesOnly(args[i])
		}
	}
	return args
}

func namesOnly(list string) string {
	variables, err := submit.ParseVariables(list, nil)
	if err != nil {
		name, _, _ := strings.Cut(list, "=")
		return name + "=..."
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name
	}
	return strings.Join(names, ",")
}

// TextWithoutValues returns the output of a command without the values of variables: messages about
// -v repeat its argument.
func TextWithoutValues(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if before, _, found := strings.Cut(l, "-v "); found {
			lines[i] = before + "-v ..."
		}
	}
	return strings.Join(lines, "\n")
}
