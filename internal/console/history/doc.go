// Package history remembers how the numbers of protectors have changed: each second for the last 15 minutes, each half minute for the
// last day. A number that does not change takes no room.
//
// It is pure: values and a time in, values out.
package history
