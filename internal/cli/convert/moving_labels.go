package convert

import (
	"maps"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// movingLabelKeys are the last segments of label keys, without dashes, whose values controllers change while a pod lives, whatever the
// value is.
//
//nolint:gochecknoglobals // effectively a constant
var movingLabelKeys = []string{
	"spilorole", "instancerole", "replicationrole", "clusterrole", "redisfailoversrole", "rolloutspodtemplatehash",
	"master", "ismaster", "primary", "isprimary", "leader", "isleader", "active", "isactive", "canary", "preview", "color", "color",
}

// movingLabelValues are values that move from pod to pod under any key that names no application.
//
//nolint:gochecknoglobals // effectively a constant
var movingLabelValues = []string{
	"primary", "master", "main", "leader", "replica", "slave", "follower", "secondary", "standby", "standbyleader", "syncstandby",
	"active", "passive", "canary", "stable", "preview",
}

// movingFlags end the keys of labels with the values true and false, such as vault-active.
//
//nolint:gochecknoglobals // effectively a constant
var movingFlags = []string{"active", "leader", "master", "primary", "standby"}

// fixedLabelKeys are the last segments of keys that a template sets, and that nothing changes later: a value such as primary is then the
// name of a component.
//
//nolint:gochecknoglobals // effectively a constant
var fixedLabelKeys = []string{
	"app", "k8sapp", "name", "component", "tier", "partof", "instance", "managedby", "version", "release", "chart", "podname", "podindex",
	"podtemplatehash", "controllerrevisionhash",
}

// movingLabels returns the sorted keys of a selector whose labels controllers usually move between living pods: roles of database
// instances, leaders, colors.
func movingLabels(selector *v1alpha1.PodSelector) []string {
	if selector == nil {
		return nil
	}
	keys := map[string]bool{}
	for key, value := range selector.MatchLabels {
		keys[key] = isMovingLabel(key, value)
	}
	for _, expression := range selector.MatchExpressions {
		keys[expression.Key] = keys[expression.Key] || isMovingLabel(expression.Key, expression.Values...)
	}
	maps.DeleteFunc(keys, func(_ string, moves bool) bool { return !moves })
	return slices.Sorted(maps.Keys(keys))
}

// isMovingLabel reports whether controllers usually change a label with one of the values while its pod lives. Without values, as for the
// operator Exists, the key decides.
func isMovingLabel(key string, values ...string) bool {
	plain := func(text string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(text))
	}
	last := plain(key[strings.LastIndex(key, "/")+1:])
	switch {
	case slices.Contains(fixedLabelKeys, last):
		return false
	case slices.Contains(movingLabelKeys, last), last == "role" && len(values) == 0:
		return true
	}
	return slices.ContainsFunc(values, func(value string) bool {
		isFlag := value == "true" || value == "false"
		return slices.Contains(movingLabelValues, plain(value)) ||
			isFlag && slices.ContainsFunc(movingFlags, func(flag string) bool { return strings.HasSuffix(last, flag) })
	})
}
