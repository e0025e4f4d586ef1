// Package plot computes the coordinates of charts: numbers of pods over time as steps, and denials as marks. Templates draw them.
//
// It is pure: it takes values and a time, and returns values.
package plot
