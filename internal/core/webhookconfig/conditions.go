package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// mayConsumeBudget filters out, inside the API server, requests that the webhook would always allow: deletions and updates of pods that are
// terminating, finished or not scheduled. It lets a node finish its work while the webhook is unreachable.
const mayConsumeBudget = `oldObject == null || !(` +
	`has(oldObject.metadata.deletionTimestamp) || ` +
	`!has(oldObject.spec.nodeName) || oldObject.spec.nodeName == '' || ` +
	`(has(oldObject.status) && has(oldObject.status.phase) && oldObject.status.phase in ['Succeeded', 'Failed']))`

// changesSpec filters out updates that do not change the spec.
const changesSpec = `request.operation != 'UPDATE' || object.spec != oldObject.spec`

// changesCoverage additionally keeps updates of the fields that determine which protectors cover and count a pod: labels, and one
// annotation. A kubelet writes the status of its pods often, and such a request never changes the spec: the API server compares only
// these fields, and does not call the webhook.
const changesCoverage = `request.operation != 'UPDATE' || ` +
	`!(has(request.subResource) && request.subResource == 'status') && object.spec != oldObject.spec || ` +
	`object.metadata.?labels != oldObject.metadata.?labels || ` +
	`object.metadata.?annotations[?'` + v1alpha1.AnnotationCriterion + `'] != oldObject.metadata.?annotations[?'` + v1alpha1.AnnotationCriterion + `']`

// changesName is the name of both conditions. It is older than changesCoverage. During an upgrade, the other version of Breakwater
// would report a new name as a foreign condition.
const changesName = "changes-the-spec"

// changesTarget matches a protector that names a workload which it did not name before.
const changesTarget = `has(object.spec.targetRef) && (oldObject == null || !has(oldObject.spec.targetRef) || ` +
	`oldObject.spec.targetRef != object.spec.targetRef)`

// RemovalConditions returns the match conditions of webhooks for removals.
func RemovalConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "costs-availability", Expression: mayConsumeBudget}, {Name: changesName, Expression: changesCoverage},
	}
}

// TemplateConditions returns the match conditions of webhooks for workloads that are stored.
func TemplateConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: changesName, Expression: changesSpec}}
}

// ProtectorConditions returns the match conditions of webhooks for protectors.
func ProtectorConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "names-a-workload", Expression: changesTarget}}
}

// ForeignConditions returns the names of conditions that are not Breakwater's own. They may exclude requests that the webhook must review.
func ForeignConditions(conditions, own []admissionregistrationv1.MatchCondition) (names []string) {
	for _, condition := range conditions {
		if !isAmong(condition, own) {
			names = append(names, condition.Name)
		}
	}
	return names
}

// unknownConditions returns the names of conditions whose name is not one of Breakwater's own. A condition of the same name may be that of
// another version, as while the webhooks of several clusters are upgraded one after the other.
func unknownConditions(conditions, own []admissionregistrationv1.MatchCondition) (names []string) {
	for _, condition := range conditions {
		if !slices.ContainsFunc(own, func(one admissionregistrationv1.MatchCondition) bool { return one.Name == condition.Name }) {
			names = append(names, condition.Name)
		}
	}
	return names
}

// isAmong compares expressions ignoring white space.
func isAmong(condition admissionregistrationv1.MatchCondition, all []admissionregistrationv1.MatchCondition) bool {
	for _, one := range all {
		if one.Name == condition.Name && strings.Join(strings.Fields(one.Expression), " ") == strings.Join(strings.Fields(condition.Expression), " ") {
			return true
		}
	}
	return false
}
