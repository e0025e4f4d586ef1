// Package rootguard decides on the deletion of an object that floors depend on: a namespace, a workload or an owner of one, a
// CustomResourceDefinition, a PodProtector or a Cell. It does not handle pods.
//
// It is pure: the caller passes the objects and the time.
package rootguard
