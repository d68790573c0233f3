package audit

import "context"

type callKey struct{}

// call is what a context knows of a call.
type call struct {
	id     string
	caller Caller
}

// WithCall is a context for what is done for a caller: Call finds it there.
func WithCall(ctx context.Context, id string, c Caller) context.Context {
	return context.WithValue(ctx, callKey{}, call{id, c})
}

// Call is who has called, and the identity of the call; empty where nobody has.
func Call(ctx context.Context) (id string, c Caller) {
	x, _ := ctx.Value(callKey{}).(call)
	return x.id, x.caller
}
