// Package rootguard decides what happens to the deletion of an object that floors hang on: a namespace, a workload or an
// owner of one, a CustomResourceDefinition, a PodProtector or a Cell. Pods are not its concern.
//
// It is pure: the caller passes the objects and the time.
package rootguard
