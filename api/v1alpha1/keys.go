package v1alpha1

// KeyPrefix is the prefix of all labels and annotations of Breakwater.
const KeyPrefix = "breakwater.dev/"

// KeyTarget is a kind of object that users set labels and annotations of Breakwater on.
type KeyTarget string

// The kinds of objects.
const (
	KeyOnWorkload  KeyTarget = "workload"
	KeyOnPod       KeyTarget = "pod"
	KeyOnNamespace KeyTarget = "namespace"
	KeyOnProtector KeyTarget = "PodProtector"
)

// Key is a label or an annotation of Breakwater.
//
// +kubebuilder:object:generate=false
type Key struct {
	// Name is the key. If IsPrefix is set, it is the beginning of keys that end with the name of a ring.
	Name     string
	IsPrefix bool
	// IsLabel and IsAnnotation report what the key can be.
	IsLabel, IsAnnotation bool
	// On are the kinds of objects on which users set the key; empty for a key that Breakwater sets, or that users set on other objects.
	On []KeyTarget
	// Values are the values that have a meaning; empty if others can have one.
	Values []string
}

// Keys returns all labels and annotations of Breakwater, those that users set on workloads, pods, namespaces and PodProtectors first. A test
// compares it with all constants.
func Keys() []Key {
	criteria := []string{string(CriterionAvailable), string(CriterionReady), string(CriterionRunning), string(CriterionScheduled)}
	isTrue := []string{"true", "false"}
	keys := []Key{
		{Name: LabelProtect, IsLabel: true, On: []KeyTarget{KeyOnWorkload}, Values: isTrue},
		{Name: LabelExempt, IsLabel: true, On: []KeyTarget{KeyOnNamespace}, Values: isTrue},
		{Name: AnnotationConfirmRelease, IsAnnotation: true, On: []KeyTarget{KeyOnWorkload, KeyOnNamespace, KeyOnProtector}},
		{Name: AnnotationForceDelete, IsAnnotation: true, On: []KeyTarget{KeyOnPod}, Values: isTrue},
		{Name: AnnotationForceReason, IsAnnotation: true, On: []KeyTarget{KeyOnPod}},
		{Name: AnnotationCriterion, IsAnnotation: true, On: []KeyTarget{KeyOnPod}, Values: criteria},
		{Name: AnnotationRemoveCell, IsAnnotation: true, On: []KeyTarget{KeyOnProtector}},
		{Name: LabelShard(""), IsPrefix: true, IsLabel: true},
		{Name: LabelDrain(""), IsPrefix: true, IsLabel: true},
	}
	for _, name := range []string{
		LabelProtected, LabelJoinedCell, LabelJoinedCore, LabelJoinedBy, LabelSourceKind, LabelRing,
		"breakwater.dev/inventory", "breakwater.dev/node-guard-asks", "breakwater.dev/node-guard-answers",
	} {
		keys = append(keys, Key{Name: name, IsLabel: true})
	}
	for _, name := range []string{
		AnnotationFloorReference, AnnotationCellName, AnnotationInventoryEntry, AnnotationNudgedAt, AnnotationSourceName, AnnotationSourceAPIVersion,
		AnnotationSourceUID, AnnotationSourcePart, AnnotationPolicy, AnnotationPolicyRule, AnnotationRestored, AnnotationRestoredDecrease,
		AnnotationRestoredOwners, AnnotationShardingKey,
		"breakwater.dev/about", "breakwater.dev/caller-path", "breakwater.dev/caller-tokens", "breakwater.dev/left-out",
		"breakwater.dev/node-guard-release", "breakwater.dev/node-guard-version", "breakwater.dev/registered-for",
		"breakwater.dev/rotate-caller-key", "breakwater.dev/rotated-caller-key",
	} {
		keys = append(keys, Key{Name: name, IsAnnotation: true})
	}
	return append(keys, Key{Name: "breakwater.dev/node-guard", IsLabel: true, IsAnnotation: true})
}
