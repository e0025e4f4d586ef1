package v1alpha1

// Labels that users set.
const (
	// LabelProtect on a workload, with the value "true", asks the generator for a protector, also where no policy
	// selects the workload; with the value "false" it keeps all policies away.
	LabelProtect = "breakwater.dev/protect"
	// LabelExempt on a namespace of a worker cluster, with the value "true", keeps Breakwater's admission
	// webhook out of it: the way out when no core cluster can be reached.
	LabelExempt = "breakwater.dev/exempt"
)

// Labels that breakwater join puts on the Secrets that it makes in the core cluster and in that of the cell.
const (
	// LabelJoinedCell is the name of the Cell that is joined.
	LabelJoinedCell = "breakwater.dev/joined-cell"
	// LabelJoinedCore is the name of the core cluster that it is joined to.
	LabelJoinedCore = "breakwater.dev/joined-core"
	// LabelJoinedBy is what the Secret is for: JoinedByToken or JoinedByKubeconfig.
	LabelJoinedBy = "breakwater.dev/joined-by"
	// JoinedByToken is a token of the cluster that the Secret is in, which is worth nothing once the Secret is deleted.
	JoinedByToken = "token"
	// JoinedByKubeconfig is the way into the other cluster.
	JoinedByKubeconfig = "kubeconfig"
)

// AnnotationCriterion on a pod is its own Criterion, in place of its protectors'. On an Eviction it makes the removal cost
// budget also if the pod meets no more than this one; it can never make it cost less.
const AnnotationCriterion = "breakwater.dev/criterion"

// AnnotationForceDelete on a pod, with the value "true", breaks the glass: its removal is admitted whatever the floor, and
// also when no core cluster can be asked. It is reserved all the same, and told of by an event, a metric and the audit log.
const AnnotationForceDelete = "breakwater.dev/force-delete"

// AnnotationForceReason on a pod with AnnotationForceDelete is why the glass was broken, for the event, the log and the audit log: one line,
// of which MostForceReason bytes are told at most.
const AnnotationForceReason = "breakwater.dev/force-delete-reason"

// MostForceReason is how many bytes of a reason are told.
const MostForceReason = 256

// AnnotationConfirmRelease on a workload, its namespace or a PodProtector confirms that floors may go down at once: the release of a
// protector, or a large decrease of its floor, takes effect without a quiet period and outside the limits for large decreases.
// "true" confirms until it is removed; a date (2026-11-30) or an RFC 3339 time confirms until then.
const AnnotationConfirmRelease = "breakwater.dev/confirm-release"

// AnnotationFloorReference on a generated protector has the highest floors of the current window and when each was left, as
// "FLOOR@TIME,FLOOR@TIME". Several small decreases in a row count as one large decrease from this floor.
const AnnotationFloorReference = "breakwater.dev/floor-reference"

// AnnotationRemoveCell on a protector, with the name of a Cell, clears what its status has of a cell that is dead: counts
// and reservations. The topology controller does so, unless the cell's aggregator reports, and takes the annotation off.
const AnnotationRemoveCell = "breakwater.dev/remove-cell"

// FinalizerCell holds a Cell that is deleted until no protector has anything of it; the topology controller sets it.
const FinalizerCell = "breakwater.dev/cell"

// AnnotationNudgedAt on the controller of pods is when Breakwater has woken it, since a removal of its pods that was refused has
// budget now. Nothing reads it: it is written for the event of the write.
const AnnotationNudgedAt = "breakwater.dev/nudged-at"

// Labels, annotations and finalizers that the generator sets.
const (
	// LabelSourceKind on a protector is the kind of the workload that it was derived from.
	LabelSourceKind = "breakwater.dev/source-kind"
	// AnnotationSourceName on a protector is the name of that workload, in the same namespace. An annotation,
	// because names of workloads can be longer than a label's value.
	AnnotationSourceName = "breakwater.dev/source-name"
	// AnnotationSourceAPIVersion on a protector is the API version of that workload.
	AnnotationSourceAPIVersion = "breakwater.dev/source-api-version"
	// AnnotationSourceUID on a protector is the UID of that workload when it was last seen.
	AnnotationSourceUID = "breakwater.dev/source-uid"
	// AnnotationSourcePart on a protector tells it from others of the same workload, where there are several.
	AnnotationSourcePart = "breakwater.dev/source-part"

	// AnnotationPolicy on a protector names the policy that it was made by, as ProtectionPolicy/web. There is none on
	// one that only the label of its workload asked for. To remove it is to say that the policy is gone on purpose.
	AnnotationPolicy = "breakwater.dev/policy"
	// AnnotationPolicyRule on a protector is what that policy asked for. It goes on counting without the policy.
	AnnotationPolicyRule = "breakwater.dev/policy-rule"

	// AnnotationRestored on a protector is the UID of the one that had its name and vanished without having been released:
	// it was made anew in its place. It is empty when nothing was known of that one any more. What may still be under way
	// then is waited for before anything is counted.
	AnnotationRestored = "breakwater.dev/restored"
	// AnnotationRestoredDecrease on a protector that was recreated has the conditions of the pending decrease of the one that vanished, as JSON.
	// The keeper removes it when they are in the status.
	AnnotationRestoredDecrease = "breakwater.dev/restored-decrease"

	// FinalizerProtector holds a protector until its source is explicitly deleted; the protector stays
	// effective while it is there.
	FinalizerProtector = "breakwater.dev/protector"
	// FinalizerHold holds a protector that nobody generated until its own deletion was seen. It is taken off at once then:
	// what it is for is that a protector which is gone without having been deleted is known to have vanished.
	FinalizerHold = "breakwater.dev/hold"
	// FinalizerSource holds a source workload until the generator has seen its deletionTimestamp: without it
	// a deletion could not be told from a loss.
	FinalizerSource = "breakwater.dev/generator"
	// FinalizerPolicy holds a policy until the generator has dealt with its deletion, for the same reason.
	FinalizerPolicy = "breakwater.dev/policy"
)

// Labels and annotations of rings.
const (
	// LabelRing on a Lease is the ClusterRing that its holder is a shard of.
	LabelRing = "breakwater.dev/ring"
	// AnnotationShardingKey on an object is what it is assigned by, in place of its name: objects of a ring that have the same
	// one are assigned to the same shard. Objects that are made by generateName get one of their own.
	AnnotationShardingKey = "breakwater.dev/sharding-key"
)

// The values of LabelDrain.
const (
	DrainAsked    = "true"
	DrainAnswered = "done"
)

// LabelShard on an object is the shard of a ring that works on it.
func LabelShard(ring string) string { return "breakwater.dev/shard-" + ring }

// LabelDrain on an object asks its shard to let go of it, with the value DrainAsked. The shard answers in one patch that takes
// LabelShard off and makes this one DrainAnswered: who just writes the object without labels has not answered.
func LabelDrain(ring string) string { return "breakwater.dev/drain-" + ring }

// Audit annotations of an admission review; the apiserver puts the webhook's name before them.
const (
	// AuditProtectors lists the protectors that were asked, as core/namespace/name.
	AuditProtectors = "protectors"
	// AuditCell is the cell that was asked about.
	AuditCell = "cell"
	// AuditVerdict is the reason of the answer, in one word.
	AuditVerdict = "verdict"
	// AuditForcedOver is the verdict that a removal would have had without AnnotationForceDelete.
	AuditForcedOver = "forced-over"
	// AuditForcedReason is AnnotationForceReason, in one line and not longer than MostForceReason.
	AuditForcedReason = "forced-reason"
)
