package reviews

import "context"

type unprovenCaller struct{}

// FromUnprovenCaller marks the review of a caller that has not proved that it is the API server of the cell. The
// webhook compares the pod in such a review with the cell before it charges the removal.
func FromUnprovenCaller(ctx context.Context) context.Context {
	return context.WithValue(ctx, unprovenCaller{}, true)
}

// IsFromUnprovenCaller reports whether FromUnprovenCaller marked the review of ctx.
func IsFromUnprovenCaller(ctx context.Context) bool { return ctx.Value(unprovenCaller{}) != nil }
