// Package plot reckons where the lines of a plot go: numbers of pods over time as steps, and refusals as marks. Templates draw it.
//
// It is pure: values and a time in, values out.
package plot
