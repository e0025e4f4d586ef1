// Package workloads determines how many pods the workloads of a cell request (rules 13 and 16): those that own the pods of a
// protector, and the one that its targetRef names.
package workloads
