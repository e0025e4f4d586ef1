//go:build tools

// Package tools pins the etcd that the local federation runs, and the tool that restores its backups: the release
// line that the pinned Kubernetes is built and tested with.
package tools

import (
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
