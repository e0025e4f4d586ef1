package rootguard

import "slices"

// IsSystem reports whether a client is a component of Kubernetes itself, such as the garbage collector or the namespace
// controller. Nobody sees a warning that it gets. In mode Deny it is refused like all other clients: it deletes what an
// owner or a namespace left behind, and the floors are not released by that.
func IsSystem(user string, groups []string) bool {
	switch user {
	case "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler":
		return true
	}
	return slices.Contains(groups, "system:serviceaccounts:kube-system") || slices.Contains(groups, "system:nodes")
}
