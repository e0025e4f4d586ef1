package v1alpha1

// Labels that users set.
const (
	// LabelProtect on a workload, with the value "true", makes the generator create a protector even if no policy selects the
	// workload. With the value "false", no policy applies to the workload.
	LabelProtect = "breakwater.dev/protect"
	// LabelExempt on a namespace of a worker cluster, with the value "true", excludes the namespace from Breakwater's admission
	// webhook. Use it in an emergency, when no core cluster is reachable.
	LabelExempt = "breakwater.dev/exempt"
)

// Label and annotation of namespaces that the aggregators of a cell set in its cluster.
const (
	// LabelProtected on a namespace, with the value "true", makes a webhook of scope Protected review removals in it. Aggregators set it
	// while a PodProtector of the namespace exists.
	LabelProtected = "breakwater.dev/protected"
	// AnnotationProtectedBy on such a namespace lists the core clusters that have PodProtectors for it: UIDs of their namespaces
	// kube-system, separated by commas. A UID with the suffix ":releasing" has none any more.
	AnnotationProtectedBy = "breakwater.dev/protected-by"
)

// Labels that breakwater join sets on the Secrets that it creates in the core cluster and in the cell's cluster.
const (
	// LabelJoinedCell is the name of the Cell that is joined.
	LabelJoinedCell = "breakwater.dev/joined-cell"
	// LabelJoinedCore is the name of the core cluster that it is joined to.
	LabelJoinedCore = "breakwater.dev/joined-core"
	// LabelJoinedBy is the purpose of the Secret: JoinedByToken or JoinedByKubeconfig.
	LabelJoinedBy = "breakwater.dev/joined-by"
	// JoinedByToken is a token of the Secret's own cluster. It becomes invalid when the Secret is deleted.
	JoinedByToken = "token"
	// JoinedByKubeconfig is the kubeconfig of the other cluster.
	JoinedByKubeconfig = "kubeconfig"
)

// AnnotationCriterion on a pod is the pod's own Criterion, which overrides that of its protectors. On an Eviction, the removal
// also consumes budget if the pod meets only this criterion. It can never make a removal consume less.
const AnnotationCriterion = "breakwater.dev/criterion"

// AnnotationForceDelete on a pod, with the value "true", requests a break-glass removal: the removal is admitted regardless of
// the floor, and while no core cluster is reachable. It is still charged, and is reported by an event, a metric and the audit
// log.
const AnnotationForceDelete = "breakwater.dev/force-delete"

// AnnotationForceReason on a pod with AnnotationForceDelete is the user's reason for the break-glass removal, for the event, the
// log and the audit log. It is shown on one line, cut to MostForceReason bytes.
const AnnotationForceReason = "breakwater.dev/force-delete-reason"

// MostForceReason is the maximum length of a shown reason, in bytes.
const MostForceReason = 256

// AnnotationConfirmRelease on a workload, its namespace or a PodProtector confirms that floors may decrease at once: the release
// of a protector, or a large decrease of its floor, takes effect without a quiet period and outside the limits for large
// decreases. On the namespace or the PodProtector it also releases the protector of a workload that vanished. "true" confirms until
// the annotation is removed. A date (2026-11-30) or an RFC 3339 time confirms until then.
const AnnotationConfirmRelease = "breakwater.dev/confirm-release"

// AnnotationFloorReference on a generated protector has the highest floors of the current window and the times at which they
// ended, as "FLOOR@TIME,FLOOR@TIME". Several small decreases in a row count as one large decrease from the highest floor.
const AnnotationFloorReference = "breakwater.dev/floor-reference"

// AnnotationRemoveCell on a protector, with the name of a Cell, clears the counts and reservations of a cell that no longer
// exists. The topology controller clears them, unless the cell's aggregator reports, and removes the annotation.
const AnnotationRemoveCell = "breakwater.dev/remove-cell"

// Annotations of Cells that come from an inventory of clusters.
const (
	// AnnotationCellName on an entry of an inventory is the name of its Cell, if that is not the name of the entry.
	AnnotationCellName = "breakwater.dev/cell-name"
	// AnnotationInventoryEntry on a Cell is the entry that it was created from, as KIND/NAMESPACE/NAME. Only that entry updates the
	// Cell's kubeconfig. Change it to bind the Cell to another entry.
	AnnotationInventoryEntry = "breakwater.dev/inventory-entry"
)

// FinalizerCell holds a deleted Cell until no protector has an entry for it. The topology controller sets it.
const FinalizerCell = "breakwater.dev/cell"

// AnnotationNudgedAt on the controller of pods, or on their ResourceClaims, is the time at which Breakwater woke the client that removes
// them, because there is now budget for a denied removal. No component reads it. Its only purpose is the event that the write causes.
const AnnotationNudgedAt = "breakwater.dev/nudged-at"

// Labels, annotations and finalizers that the generator sets.
const (
	// LabelSourceKind on a protector is the kind of the workload that it was derived from.
	LabelSourceKind = "breakwater.dev/source-kind"
	// AnnotationSourceName on a protector is the name of that workload, in the same namespace. It is an annotation because names
	// of workloads can be longer than a label value.
	AnnotationSourceName = "breakwater.dev/source-name"
	// AnnotationSourceAPIVersion on a protector is the API version of that workload.
	AnnotationSourceAPIVersion = "breakwater.dev/source-api-version"
	// AnnotationSourceUID on a protector is the UID of that workload when it was last observed.
	AnnotationSourceUID = "breakwater.dev/source-uid"
	// AnnotationSourcePart on a protector distinguishes it from other protectors of the same workload, if there are several.
	AnnotationSourcePart = "breakwater.dev/source-part"

	// AnnotationPolicy on a protector names the policy that it results from, for example ProtectionPolicy/web. A protector that
	// results from the label of its workload has none. Remove the annotation to confirm that a policy that no longer exists was
	// removed on purpose.
	AnnotationPolicy = "breakwater.dev/policy"
	// AnnotationPolicyRule on a protector is the rule of that policy. It stays in force when the policy no longer exists.
	AnnotationPolicyRule = "breakwater.dev/policy-rule"

	// AnnotationRestored on a protector is the UID of an earlier protector of the same name that vanished without having been
	// released, and that it replaces. It is empty if the earlier one is unknown. The aggregators wait for removals that may be in
	// progress before they count its pods.
	AnnotationRestored = "breakwater.dev/restored"
	// AnnotationRestoredDecrease on a recreated protector has the conditions of the pending decrease of the protector that
	// vanished, as JSON. The keeper removes it once they are in the status.
	AnnotationRestoredDecrease = "breakwater.dev/restored-decrease"
	// AnnotationRestoredOwners on a recreated protector has the field managers of the protector that vanished, as JSON, in the form
	// of metadata.managedFields. The keeper removes it once they own the fields again.
	AnnotationRestoredOwners = "breakwater.dev/restored-owners"

	// FinalizerProtector holds a protector until its source is explicitly deleted. The protector stays in force while it has the
	// finalizer.
	FinalizerProtector = "breakwater.dev/protector"
	// FinalizerHold holds a manually created protector until its deletion has been observed, and is then removed at once. A
	// protector that no longer exists without an observed deletion is thus known to have vanished.
	FinalizerHold = "breakwater.dev/hold"
	// FinalizerSource holds a source workload until the generator has observed its deletionTimestamp. Otherwise a deletion could
	// not be distinguished from a loss.
	FinalizerSource = "breakwater.dev/generator"
	// FinalizerPolicy holds a policy until the generator has processed its deletion, for the same reason.
	FinalizerPolicy = "breakwater.dev/policy"
)

// Labels and annotations of rings.
const (
	// LabelRing on a Lease is the ClusterRing that its shard belongs to.
	LabelRing = "breakwater.dev/ring"
	// AnnotationShardingKey on an object replaces its name as the key of its assignment: objects of a ring with the same value are
	// assigned to the same shard. Objects that are created with generateName get a value of their own.
	AnnotationShardingKey = "breakwater.dev/sharding-key"
)

// The values of LabelDrain.
const (
	DrainAsked    = "true"
	DrainAnswered = "done"
)

// LabelShard on an object is the shard of a ring that works on it.
func LabelShard(ring string) string { return "breakwater.dev/shard-" + ring }

// LabelDrain on an object, with the value DrainAsked, requests that its shard release it. The shard answers with one patch that
// removes LabelShard and sets this label to DrainAnswered. A client that merely writes the object without labels thus does not
// answer.
func LabelDrain(ring string) string { return "breakwater.dev/drain-" + ring }

// Audit annotations of an admission review. The API server prefixes them with the webhook's name.
const (
	// AuditProtectors lists the protectors that were checked, as core/namespace/name.
	AuditProtectors = "protectors"
	// AuditCell is the cell of the review.
	AuditCell = "cell"
	// AuditVerdict is the reason of the answer, as one word.
	AuditVerdict = "verdict"
	// AuditForcedOver is the verdict that a removal would have had without AnnotationForceDelete.
	AuditForcedOver = "forced-over"
	// AuditForcedReason is AnnotationForceReason, in one line and not longer than MostForceReason bytes.
	AuditForcedReason = "forced-reason"
)
