// Package rootguard answers reviews about the deletion of objects that floors depend on, such as namespaces, workloads and
// CustomResourceDefinitions. It reads PodProtectors from the caches of the webhook; package internal/core/rootguard decides.
//
// It fails open: what it cannot answer it allows. The floors themselves are kept by the reviews of pods.
package rootguard
