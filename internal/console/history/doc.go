// Package history records how the numbers of protectors change: per second for the last 15 minutes, and per 30 seconds for the last day.
// A number that does not change uses no space.
//
// It is pure: it takes values and a time, and returns values.
package history
