// Package tracing makes the spans of components and sends them to a collector by OTLP. Nobody waits for the collector: spans that it
// does not take in time are dropped, and counted. docs/tracing.md lists the spans and their attributes.
package tracing
