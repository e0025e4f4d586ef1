package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// rootGuardPrefix precedes the cluster description in RootGuardPath.
const rootGuardPrefix = "/roots/"

// RootGuardPath returns the webhook path for deletions of objects that floors depend on. It describes the cluster: its name as a core, or
// "" if it is none, and its cells.
func RootGuardPath(core string, cells ...string) string {
	path := ""
	if core != "" {
		path += "cores/" + core + "/"
	}
	if len(cells) > 0 {
		path += "cells/" + strings.Join(cells, "/")
	}
	return rootGuardPrefix + strings.TrimSuffix(path, "/")
}

// ParseRootGuardPath parses the result of RootGuardPath without its prefix. ok is false for a path that names neither a core nor a cell.
func ParseRootGuardPath(path string) (core string, cells []string, ok bool) {
	if rest, is := strings.CutPrefix(path, "cores/"); is {
		core, path, _ = strings.Cut(rest, "/")
	}
	if rest, is := strings.CutPrefix(path, "cells/"); is {
		cells, path = strings.Split(rest, "/"), ""
	}
	return core, cells, path == "" && core+strings.Join(cells, "") != "" && !slices.Contains(cells, "")
}

// These conditions filter out, inside the API server, requests that the webhook would always allow.
const (
	// notTerminating filters out objects that are being deleted: finalizers, and the final deletion of a namespace, repeat the request.
	notTerminating = `oldObject == null || !has(oldObject.metadata.deletionTimestamp)`
	// notControlledByDeployment filters out ReplicaSets of Deployments, which rollouts delete all the time.
	notControlledByDeployment = `request.resource.resource != 'replicasets' || oldObject == null || !has(oldObject.metadata.ownerReferences) || ` +
		`!oldObject.metadata.ownerReferences.exists(r, r.kind == 'Deployment' && has(r.controller) && r.controller)`
)

// RootConditions returns the match conditions of webhooks for deletions of objects that floors depend on. They exclude the service
// accounts of Breakwater's own namespace: its components delete PodProtectors that are released.
func RootConditions(namespace string) []admissionregistrationv1.MatchCondition {
	group := "'system:serviceaccounts:" + namespace + "'"
	return []admissionregistrationv1.MatchCondition{
		{Name: "is-not-terminating", Expression: notTerminating},
		{Name: "is-not-of-a-deployment", Expression: notControlledByDeployment},
		{Name: "is-not-breakwater", Expression: `!has(request.userInfo.groups) || !(` + group + ` in request.userInfo.groups)`},
	}
}
