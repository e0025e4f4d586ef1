//go:build tools

// Package tools pins the API server of the oldest Kubernetes that Breakwater supports, for make test-oldest.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
