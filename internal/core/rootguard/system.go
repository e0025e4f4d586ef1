package rootguard

import "slices"

// IsSystem reports whether a client is a component of Kubernetes itself, such as the garbage collector or the namespace controller.
// Such a client discards warnings. In mode Deny it is denied like all other clients: its deletions continue a cascade whose start was
// not reviewed, and a cascade releases no floor.
func IsSystem(user string, groups []string) bool {
	switch user {
	case "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler":
		return true
	}
	return slices.Contains(groups, "system:serviceaccounts:kube-system") || slices.Contains(groups, "system:nodes")
}
