// Package tracing creates the spans of components and sends them to a collector by OTLP. Components never wait for the collector: spans
// that it does not accept in time are dropped and counted. docs/how-to/tracing.md lists the spans and their attributes.
package tracing
