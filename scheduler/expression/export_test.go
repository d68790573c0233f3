package expression

import (
	"fmt"
	"strings"
)

// CompileQueueList reads references that are separated by commas or blanks.
func CompileQueueList(hosts HostNames, text string) (QueueList, error) {
	var l QueueList
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		r, err := CompileQueueReference(hosts, item)
		if err != nil {
			return nil, err
		}
		l = append(l, r)
	}
	if len(l) == 0 {
		return nil, fmt.Errorf("cannot read the queue list %q: it is empty, expected queue, queue@host or queue@@group", text)
	}
	return l, nil
}
