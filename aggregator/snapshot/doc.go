// Package snapshot keeps the pods of a cell at one resourceVersion of their watch, and counts them for protectors. The stream
// (stream.go, stream_filter.go) passes each pod event to the snapshot (snapshot.go), which keeps the parts of the pod that are
// counted (pod_set.go, pod.go, labels.go), or its end (removed_pods.go), finds the protectors of the pod (covered_pods.go) and
// enqueues them (notifier.go). A count (counting.go) takes the pods of a protector at one version. Pods that became available
// by time alone count when a live read has shown them alive (alive_reads.go). The domains of pods come from the cell's nodes (nodes.go).
package snapshot
