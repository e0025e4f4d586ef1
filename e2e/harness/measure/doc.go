// Package measure runs Breakwater's real program for benchmarks and reads from outside what it costs: its memory and
// processor time as the kernel tells them, its metrics, its profiles. It needs Linux.
package measure
