package audit

import "context"

type callKey struct{}

// call is the data of a call in its context.
type call struct {
	id     string
	caller Caller
}

// WithCall returns a context that holds a caller and the identity of the call, for Call.
func WithCall(ctx context.Context, id string, c Caller) context.Context {
	return context.WithValue(ctx, callKey{}, call{id, c})
}

// Call returns the caller in a context and the identity of the call, both empty without a caller.
func Call(ctx context.Context) (id string, c Caller) {
	x, _ := ctx.Value(callKey{}).(call)
	return x.id, x.caller
}
