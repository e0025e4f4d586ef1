package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// costless drops, inside the apiserver, what the webhook would allow without a look: deletions and updates of pods that
// are terminating, finished or not scheduled. It is what lets a node finish its work while the webhook is away.
const costless = `oldObject == null || !(` +
	`has(oldObject.metadata.deletionTimestamp) || ` +
	`!has(oldObject.spec.nodeName) || oldObject.spec.nodeName == '' || ` +
	`(has(oldObject.status) && has(oldObject.status.phase) && oldObject.status.phase in ['Succeeded', 'Failed']))`

// changesSpec drops updates of anything but the spec.
const changesSpec = `request.operation != 'UPDATE' || object.spec != oldObject.spec`

// changesCoverage keeps, besides, updates of what decides which protectors cover a pod and count it: labels, and one annotation.
const changesCoverage = changesSpec + ` || object.metadata.?labels != oldObject.metadata.?labels || ` +
	`object.metadata.?annotations[?'` + v1alpha1.AnnotationCriterion + `'] != oldObject.metadata.?annotations[?'` + v1alpha1.AnnotationCriterion + `']`

// changesName is the name of both conditions. It is older than changesCoverage: another name would be a foreign condition to the other
// version of Breakwater while one replaces the other.
const changesName = "changes-the-spec"

// aimed is a protector that names a workload, which it did not before.
const aimed = `has(object.spec.targetRef) && (oldObject == null || !has(oldObject.spec.targetRef) || ` +
	`oldObject.spec.targetRef != object.spec.targetRef)`

// RemovalConditions are the match conditions of webhooks about removals.
func RemovalConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "costs-availability", Expression: costless}, {Name: changesName, Expression: changesCoverage},
	}
}

// TemplateConditions are those of webhooks about workloads that are stored.
func TemplateConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: changesName, Expression: changesSpec}}
}

// ProtectorConditions are those of webhooks about protectors.
func ProtectorConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "names-a-workload", Expression: aimed}}
}

// Foreign are the names of conditions that are none of those that the product has: they may leave out what should be asked about.
func Foreign(conditions, own []admissionregistrationv1.MatchCondition) (names []string) {
	for _, condition := range conditions {
		if !isAmong(condition, own) {
			names = append(names, condition.Name)
		}
	}
	return names
}

// unnamed are the names of conditions that the product has none of. Of the same name they may be another version's, as while the
// webhooks of a fleet are upgraded one after the other.
func unnamed(conditions, own []admissionregistrationv1.MatchCondition) (names []string) {
	for _, condition := range conditions {
		if !slices.ContainsFunc(own, func(one admissionregistrationv1.MatchCondition) bool { return one.Name == condition.Name }) {
			names = append(names, condition.Name)
		}
	}
	return names
}

// isAmong compares expressions but for their spaces.
func isAmong(condition admissionregistrationv1.MatchCondition, all []admissionregistrationv1.MatchCondition) bool {
	for _, one := range all {
		if one.Name == condition.Name && strings.Join(strings.Fields(one.Expression), " ") == strings.Join(strings.Fields(condition.Expression), " ") {
			return true
		}
	}
	return false
}
