package completion

import (
	"context"
	"time"
)

const (
	// patience is the longest time that a user waits after a press of the tab key, for all that a shell
	// does for it.
	patience = 200 * time.Millisecond
	// leftover is the part of it in which the shell starts the command, and reads and shows the answer.
	leftover = 50 * time.Millisecond
	// least is the time for an answer if the machine is so busy that the rest of the time has passed before
	// the command asks.
	least = 20 * time.Millisecond
)

// InTime calls a function that asks the daemon, and returns its candidates. It returns none if the function
// takes too long for a user who waits since the command was started, age ago: ask then has a context that has
// ended, and whatever it still waits for ends with the process.
func InTime(age time.Duration, ask func(context.Context) []Candidate) []Candidate {
	ctx, cancel := context.WithTimeout(context.Background(), max(patience-leftover-max(age, 0), least))
	defer cancel()
	answer := make(chan []Candidate, 1)
	go func() { answer <- ask(ctx) }()
	select {
	case all := <-answer:
		return all
	case <-ctx.Done():
		return nil
	}
}
