// Package rootguard answers reviews about the deletion of objects that floors depend on, such as namespaces, workloads
// and CustomResourceDefinitions. It reads PodProtectors from the caches of the webhook; package internal/core/rootguard
// decides.
//
// It allows a deletion when it cannot determine which floors depend on the object: the reviews of pods enforce the floors themselves. A denial
// stands if the namespace cannot be read, because its annotations could only have confirmed the deletion.
package rootguard
