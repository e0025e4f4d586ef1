// Package measure runs Breakwater's real program for benchmarks and measures its cost from outside: memory and CPU time as the
// kernel reports them, its metrics, and its profiles. It needs Linux.
package measure
