package findings

import (
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// ComponentPermissions returns permissions that a component needs in the core or in the cluster of a cell. The list is not complete: it omits
// permissions whose absence another check reports.
func ComponentPermissions(component string, inCore bool) []Permission {
	own := v1alpha1.GroupVersion.Group
	of := func(verbs []string, group string, resources ...string) (all []Permission) {
		for _, resource := range resources {
			for _, verb := range verbs {
				all = append(all, Permission{Verb: verb, Group: group, Resource: resource})
			}
		}
		return all
	}
	watch := []string{"get", "list", "watch"}
	update, patch, create := []string{"update"}, []string{"patch"}, []string{"create"}
	switch {
	case component == "webhook" && inCore:
		return slices.Concat(of(watch, own, "cells", "podprotectors"), of(update, own, "podprotectors/status"), of(create, "events.k8s.io", "events"))
	case component == "webhook":
		return of([]string{"get"}, "", "pods", "nodes")
	case component == "aggregator" && inCore:
		return slices.Concat(of(watch, own, "cells", "podprotectors"), of(update, own, "cells/status", "podprotectors/status"))
	case component == "aggregator":
		return slices.Concat(of(watch, "", "pods", "nodes"), of(watch, "apps", "replicasets", "deployments", "statefulsets"))
	case component == "generator" && inCore:
		return slices.Concat(of(append(watch, "create", "patch", "delete"), own, "podprotectors"), of([]string{"update", "patch"}, own, "podprotectors/status"),
			of(append(watch, "patch"), "apps", "deployments", "statefulsets", "replicasets"))
	case component == "topology" && inCore:
		return slices.Concat(of(append(watch, "patch"), own, "cells", "podprotectors"), of(patch, own, "cells/status"), of(update, own, "podprotectors/status"))
	}
	return nil
}

// UserPermissions returns the permissions that an on-call engineer needs to diagnose an installation, and no more.
func UserPermissions(inCore bool) []Permission {
	own := v1alpha1.GroupVersion.Group
	if inCore {
		return []Permission{{"", "list", own, "podprotectors", false}, {"", "list", own, "cells", false}, {"", "list", "events.k8s.io", "events", false}}
	}
	return []Permission{
		{"", "list", "", "pods", false}, {"", "list", "admissionregistration.k8s.io", "validatingwebhookconfigurations", false},
		{"", "create", "", "pods/eviction", false},
	}
}

// checkPermissions judges the permissions of accounts.
func checkPermissions(where string, read Result[[]Permission]) []Finding {
	f := reporter{where, "rights"}
	if read.Err != nil {
		return f.unreadable("Permissions", read.Err, "Ask for permission to create subjectaccessreviews, or use --as.")
	}
	lacks := map[string][]string{}
	var accounts []string
	for _, right := range read.Value {
		if !slices.Contains(accounts, right.Account) {
			accounts = append(accounts, right.Account)
		}
		if !right.Allowed {
			lacks[right.Account] = append(lacks[right.Account], right.text())
		}
	}
	var found []Finding
	for _, account := range accounts {
		switch missing := lacks[account]; {
		case len(missing) == 0:
		case account == "":
			found = append(found, f.finding(Warning, "You lack permission to "+joinNames(missing)+".", "Ask for these permissions: docs/concepts/security.md.", ""))
		default:
			found = append(found, f.finding(Problem, account+" lacks permission to "+joinNames(missing)+".", "Sync the chart breakwater, which contains the roles.", ""))
		}
	}
	return f.orOK(found, "You and %s of components have the required permissions.",
		printable.Count(len(slices.DeleteFunc(accounts, func(a string) bool { return a == "" })), "service account"))
}

func (r *Permission) text() string {
	if r.Group == "" {
		return r.Verb + " " + r.Resource
	}
	return fmt.Sprintf("%s %s.%s", r.Verb, r.Resource, r.Group)
}
