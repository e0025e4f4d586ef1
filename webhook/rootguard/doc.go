// Package rootguard answers reviews about the deletion of objects that floors depend on, such as namespaces, workloads
// and CustomResourceDefinitions. It reads PodProtectors from the caches of the webhook; package internal/core/rootguard
// decides.
//
// It fails open: it allows a deletion when it cannot determine the answer. The reviews of pods enforce the floors
// themselves.
package rootguard
