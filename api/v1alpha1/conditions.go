package v1alpha1

// Conditions of PodProtector and Cell. Ready follows kstatus: it reports whether the object was processed, not whether the
// application is healthy.
const (
	// ConditionReady of a PodProtector: at least one cell has counted its pods by the current spec. Of a Cell: an aggregator leads
	// it and has listed its pods. The aggregators write it.
	ConditionReady = "Ready"
	// ConditionTargetResolved of a PodProtector: its source workload, or the workload of its targetRef, exists. The generator
	// writes it on protectors that it generated, and the aggregators write it on those with a targetRef.
	ConditionTargetResolved = "TargetResolved"
	// ConditionRestored of a PodProtector: it vanished without having been released, and was recreated. While a protector with
	// AnnotationRestored does not have this condition, its status is incomplete. The keeper writes it.
	ConditionRestored = "Restored"
	// ConditionDecreasePending of a PodProtector: a large decrease of its floor, or its release, was requested and has not taken
	// effect. The old floor stays in force. Its lastTransitionTime is the time at which the decrease was first seen. The generator
	// writes it.
	ConditionDecreasePending = "DecreasePending"
	// ConditionSpreadSatisfied of a PodProtector with spec.spread: its pods are distributed as requested, and, with
	// tolerateDomainLoss, the loss of any domain leaves at least the floor. The aggregators write it.
	ConditionSpreadSatisfied = "SpreadSatisfied"
	// ConditionOverlapping of a PodProtector: other protectors of its namespace can cover the same pods. The overlap controller
	// writes it if there is or was an overlap. Of a Cell: another Cell of the same cluster can have the same pods, which are then
	// counted twice. The topology controller writes it.
	ConditionOverlapping = "Overlapping"
	// ConditionKindsServed of a policy: the API server serves all kinds that it names, and the generator may list them.
	ConditionKindsServed = "KindsServed"
	// ConditionConnected of a Cell: the kubeconfig of its Secret leads to its cluster. The topology controller writes it.
	ConditionConnected = "Connected"
	// ConditionForceDeletable of a PodProtector: pods have the annotation breakwater.dev/force-delete, and their removal is
	// admitted regardless of the floor. The aggregators write it. It is absent until there is such a pod.
	ConditionForceDeletable = "ForceDeletable"
	// ConditionExpectationBelowPods of a PodProtector whose floor is computed from the number of expected pods: more pods are available
	// than are expected, for longer than a rollout, so that the floor may be too low. It is Unknown for the first 15 minutes. Its
	// lastTransitionTime is the time since when more pods are available. The aggregators write it. It is absent until there are more.
	ConditionExpectationBelowPods = "ExpectationBelowPods"
	// ConditionAggregationFresh of a Cell: its aggregator reports heartbeats. The topology controller writes it.
	ConditionAggregationFresh = "AggregationFresh"
	// ConditionTokenRenewed is a condition of a Cell: the token of its kubeconfig, which expires, is renewed in time. A Cell whose kubeconfig has no
	// such token lacks it.
	ConditionTokenRenewed = "TokenRenewed"
	// ConditionShardsAvailable of a ClusterRing: it has shards that objects can be assigned to. The sharder writes it.
	ConditionShardsAvailable = "ShardsAvailable"
	// ConditionBalanced of a ClusterRing: all objects are assigned to the intended shards. The sharder writes it.
	ConditionBalanced = "Balanced"
	// ConditionConflicting of a PodSchedulingPolicy: a pod recently conflicted with it. The webhooks write it.
	ConditionConflicting = "Conflicting"
	// ConditionListed of a Cell that comes from an inventory: the inventory has its entry, which provides the kubeconfig. The
	// inventory controller writes it.
	ConditionListed = "Listed"
	// ConditionGuarded of a Cell: its cluster calls the webhook for removals of its pods. The topology controller writes it. Of a
	// PodProtector: the clusters of its cells call the webhook for removals in its namespace. The aggregators write it. It is absent
	// until a cluster does not, or the aggregator of a cell cannot determine that.
	ConditionGuarded = "Guarded"
	// ConditionWebhookAvailable of a Cell: a replica of the webhook that its cluster calls is ready. The topology controller writes it. It is
	// absent until that is known: it never is for a webhook that the cluster calls by a URL.
	ConditionWebhookAvailable = "WebhookAvailable"
	// ConditionPodsMatched of a PodProtector: it is False while no cell has a pod that the protector selects, and absent otherwise. The
	// aggregators write it.
	ConditionPodsMatched = "PodsMatched"
	// ConditionJoined of a Cell in its own cluster: the shares of the cell move, because its aggregator reaches the core cluster. The
	// aggregator writes it if the cell has shares.
	ConditionJoined = "Joined"
)

// Reasons of conditions.
const (
	// ReasonAggregated, Ready: the pods are counted by the newest spec.
	ReasonAggregated = "Aggregated"
	// ReasonNotAggregated, Ready, TargetResolved: no cell has counted the pods, or none by the newest spec.
	ReasonNotAggregated = "NotAggregated"
	// ReasonInvalidSelector, Ready: a selector is invalid; the message has the error.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSelectorsOverlap, Overlapping: the message names the other protectors.
	ReasonSelectorsOverlap = "SelectorsOverlap"
	// ReasonDisjoint, Overlapping is false: the overlap has ended.
	ReasonDisjoint = "Disjoint"
	// ReasonFloorUnknown, Ready: the expected number of pods cannot be determined, so that every removal is denied.
	ReasonFloorUnknown = "FloorUnknown"
	// ReasonVanished, Restored: the protector no longer existed although it was not deleted, and was recreated.
	ReasonVanished = "Vanished"
	// ReasonKindDeleted, an event: the CustomResourceDefinition of PodProtectors is being deleted, and its protectors are held.
	ReasonKindDeleted = "KindDeleted"
	// ReasonTargetFound, TargetResolved: the workload of targetRef exists.
	ReasonTargetFound = "TargetFound"
	// ReasonTargetGone, TargetResolved: the workload of targetRef no longer exists; its pods stay protected by its last selector.
	ReasonTargetGone = "TargetGone"
	// ReasonTargetNotFound, TargetResolved: the workload of targetRef has never existed in any cell.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetUnknown, TargetResolved: the pods of the workload cannot be determined; the message has the reason.
	ReasonTargetUnknown = "TargetUnknown"
	// ReasonSourceFound, TargetResolved: the source workload of the protector exists.
	ReasonSourceFound = "SourceFound"
	// ReasonSourceVanished, TargetResolved: the source workload no longer exists, but its deletion was not observed; the protector
	// stays in force until a user confirms its release.
	ReasonSourceVanished = "SourceVanished"
	// ReasonSourceDeleted, TargetResolved: the source workload was deleted, and the release of the protector is pending.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonPodsAnnotated, ForceDeletable: the message has the number of such pods in each cell.
	ReasonPodsAnnotated = "PodsAnnotated"
	// ReasonNoPodAnnotated, ForceDeletable is false: there were such pods, and none are left.
	ReasonNoPodAnnotated = "NoPodAnnotated"
	// ReasonMorePodsThanExpected, ExpectationBelowPods: the message has the numbers, and the workloads that state how many are expected.
	ReasonMorePodsThanExpected = "MorePodsThanExpected"
	// ReasonObserving, ExpectationBelowPods is Unknown: more pods are available than are expected, for no longer than a rollout may take.
	ReasonObserving = "Observing"
	// ReasonPodsExpected, ExpectationBelowPods is false: more pods were available than were expected, and no longer are.
	ReasonPodsExpected = "PodsExpected"
	// ReasonAggregating, Ready of a Cell: an aggregator leads it, and has listed its pods.
	ReasonAggregating = "Aggregating"
	// ReasonAggregatorIdle, Ready of a Cell: the aggregator that led it has stopped, and no other aggregator leads it.
	ReasonAggregatorIdle = "AggregatorStopped"
	// ReasonJoined, Joined: the aggregator reaches the core cluster, and has compared all shares of the cell with their protectors.
	ReasonJoined = "Joined"
	// ReasonLocal, Joined: the aggregator does not reach the core cluster, so that no share moves.
	ReasonLocal = "Local"
	// ReasonReturning, Joined: the aggregator reaches the core cluster, and has not compared all shares yet.
	ReasonReturning = "Returning"
	// ReasonRecreateStrategy, TargetResolved: the strategy of the workload is Recreate, which removes all pods at once, so that
	// the floor is 0.
	ReasonRecreateStrategy = "RecreateStrategy"
	// ReasonDeletionHeld, TargetResolved: the protector was deleted, and is held until its workload is deleted.
	ReasonDeletionHeld = "DeletionHeld"
	// ReasonOnDeleteStrategy, TargetResolved: the strategy of the workload is OnDelete, so that the floor admits one removal at a
	// time.
	ReasonOnDeleteStrategy = "OnDeleteStrategy"
	// ReasonPolicyVanished, TargetResolved: the policy of the protector no longer exists, but its deletion was not observed; its
	// last rule stays in force.
	ReasonPolicyVanished = "PolicyVanished"
	// ReasonPolicyDeleted, TargetResolved: the policy was deleted, no other policy selects the workload, and the protector is
	// retained.
	ReasonPolicyDeleted = "PolicyDeleted"
	// ReasonPolicyLeft, TargetResolved: the policy no longer selects the workload, and the protector is retained.
	ReasonPolicyLeft = "PolicyLeft"
	// ReasonApplied, Ready of a policy: the current spec is in force.
	ReasonApplied = "Applied"
	// ReasonApplying, Ready of a policy: some of its workloads do not have their protector yet.
	ReasonApplying = "Applying"
	// ReasonKindsServed, KindsServed: all kinds that the policy names can be listed.
	ReasonKindsServed = "KindsServed"
	// ReasonKindNotServed, KindsServed: the API server does not serve a kind that the policy names.
	ReasonKindNotServed = "KindNotServed"
	// ReasonKindNotListed, KindsServed: the generator has no permission to list a kind that the policy names, or the list failed.
	ReasonKindNotListed = "KindNotListed"
)

// Reasons of conditions about pods and workloads that look protected and are not.
const (
	// ReasonNamespaceExempt, Ready and Guarded of a PodProtector: the clusters of some cells do not call the webhook for removals in the
	// namespace; the message names the cells and the causes.
	ReasonNamespaceExempt = "NamespaceExempt"
	// ReasonNamespaceGuarded, Guarded of a PodProtector: the clusters of all counted cells call the webhook again.
	ReasonNamespaceGuarded = "NamespaceGuarded"
	// ReasonNoPodMatches, PodsMatched: no cell has a pod that the protector selects. The selector may have a mistake.
	ReasonNoPodMatches = "NoPodMatches"
	// ReasonScaledToZero, PodsMatched, TargetResolved: the workload of the protector is scaled to 0, so that nothing is protected
	// until it is scaled up. In TargetResolved the status is True: the workload exists.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonUnknownKey, TargetResolved, and an event on a workload: it has a label or annotation with the prefix breakwater.dev/ whose
	// key or value has no effect; the message has the right spelling. In TargetResolved the status is True: the workload exists.
	ReasonUnknownKey = "UnknownKey"
	// ReasonIgnoredLabel, an event on a workload: it has the label breakwater.dev/protect in the cluster of a cell, where generators do
	// not read it, and no core has a protector for it.
	ReasonIgnoredLabel = "IgnoredLabel"
)

// Reasons of the condition DecreasePending.
const (
	// ReasonQuietPeriod, the decrease takes effect after the quiet period, unless too many decreases are pending then.
	ReasonQuietPeriod = "QuietPeriod"
	// ReasonLimitExceeded, more decreases are pending than the limit of the window allows, so that all of them are held.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonCascade, the workload or protector is deleted because its owner, its kind or its namespace is deleted. The decrease is
	// held until a user confirms it.
	ReasonCascade = "Cascade"
	// ReasonNotPending, the condition is false: the decrease was withdrawn, or has taken effect.
	ReasonNotPending = "NotPending"
)

// Reasons of the condition SpreadSatisfied.
const (
	// ReasonSpread, the pods are distributed as requested, or there are none.
	ReasonSpread = "Spread"
	// ReasonShareTooLarge, a domain has, or may have, more of the pods than maxSharePercent allows.
	ReasonShareTooLarge = "ShareTooLarge"
	// ReasonTooFewDomains, the pods are, or may be, in fewer domains than minDomains requires.
	ReasonTooFewDomains = "TooFewDomains"
	// ReasonDomainLossBreaks, the loss of a domain would leave fewer pods than the floor.
	ReasonDomainLossBreaks = "DomainLossBreaksFloor"
	// ReasonDomainsUnknown, the domains of too many pods are unknown to determine the distribution.
	ReasonDomainsUnknown = "DomainsUnknown"
)

// Reasons of the conditions of PodSchedulingPolicies, besides ReasonApplied and ReasonInvalidSelector.
const (
	// ReasonContradicted, Conflicting: a pod recently conflicted with the policy; the message has an example.
	ReasonContradicted = "Contradicted"
	// ReasonUncontradicted, Conflicting is false: no pod has conflicted with the policy for a while.
	ReasonUncontradicted = "Uncontradicted"
)

// Reasons of the condition Listed of Cells, and of events on entries of inventories that are rejected.
const (
	// ReasonEntryFound, Listed: the entry provides the kubeconfig of the Cell.
	ReasonEntryFound = "EntryFound"
	// ReasonEntryMissing, Listed: no inventory has the entry. The Cell and its kubeconfig are kept.
	ReasonEntryMissing = "EntryMissing"
	// ReasonEntryConflict, Listed, an event: several entries have the name of the Cell.
	ReasonEntryConflict = "EntryConflict"
	// ReasonEntryUnusable, Listed, an event: the entry has no kubeconfig that Breakwater can use.
	ReasonEntryUnusable = "EntryUnusable"
	// ReasonEntryNameInvalid, an event: the entry has no valid name of a Cell.
	ReasonEntryNameInvalid = "EntryNameInvalid"
	// ReasonCellDeleted, an event: the Cell of the entry was deleted, and is not created again while its kubeconfig Secret exists.
	ReasonCellDeleted = "CellDeleted"
	// ReasonManagedElsewhere, Listed, an event: another client created the Cell or the kubeconfig Secret of the entry.
	ReasonManagedElsewhere = "ManagedElsewhere"
)

// Reasons of the conditions of Cells.
const (
	// ReasonConnected, Connected: the kubeconfig leads to the cluster of the Cell.
	ReasonConnected = "Connected"
	// ReasonNoKubeconfig, Connected, Guarded, WebhookAvailable: the Cell names no Secret, so that the connection is not checked.
	ReasonNoKubeconfig = "NoKubeconfig"
	// ReasonSecretMissing, Connected: the Secret does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonSecretUnreadable, Connected: the component has no permission to read the Secret, or the read failed.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonKubeconfigInvalid, Connected: the Secret has no valid kubeconfig.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonWrongCA, Connected: the certificate of the API server was issued by another authority than the kubeconfig has.
	ReasonWrongCA = "WrongCA"
	// ReasonUnauthorized, Connected: the API server rejects the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonTokenExpired, Connected: the token of the kubeconfig has expired.
	ReasonTokenExpired = "TokenExpired"
	// ReasonRenewalPossible, TokenRenewed: the topology controller renews the token when two thirds of its lifetime have passed.
	ReasonRenewalPossible = "RenewalPossible"
	// ReasonRenewalFailed, TokenRenewed: the topology controller cannot renew the token, or could not when it was due.
	ReasonRenewalFailed = "RenewalFailed"
	// ReasonNoExpiry, TokenRenewed: the kubeconfig has no token that expires any more.
	ReasonNoExpiry = "NoExpiry"
	// ReasonForbidden, Connected: the credentials lack permissions that are needed.
	ReasonForbidden = "Forbidden"
	// ReasonUnreachable, Connected, Guarded: the API server is unreachable.
	ReasonUnreachable = "Unreachable"
	// ReasonAnotherCluster, Connected: the kubeconfig leads to another cluster than that of the Cell.
	ReasonAnotherCluster = "AnotherCluster"
	// ReasonHeartbeatSeen, AggregationFresh: the aggregator of the cell reports heartbeats.
	ReasonHeartbeatSeen = "HeartbeatSeen"
	// ReasonNoHeartbeat, AggregationFresh: the aggregator has not reported for staleAfter.
	ReasonNoHeartbeat = "NoHeartbeat"
	// ReasonCellsOverlap, Overlapping: the message names the other Cells.
	ReasonCellsOverlap = "CellsOverlap"
	// ReasonWebhookConfigured, Guarded: the cluster calls the webhook for all removals of the pods of the cell.
	ReasonWebhookConfigured = "WebhookConfigured"
	// ReasonWebhookMissing, Guarded: the cluster has no webhook configuration for the cell.
	ReasonWebhookMissing = "WebhookMissing"
	// ReasonWebhookWeakened, Guarded: the webhook configuration excludes removals, or admits them while the webhook is
	// unreachable.
	ReasonWebhookWeakened = "WebhookWeakened"
	// ReasonLabelsNotFixed, Guarded: no admission policy prevents changes of the pod labels that define the cell, or of the label of
	// namespaces with PodProtectors.
	ReasonLabelsNotFixed = "LabelsNotFixed"
	// ReasonConfigurationUnread, Guarded: the webhook configurations of the cluster could not be read.
	ReasonConfigurationUnread = "ConfigurationUnread"
	// ReasonReplicasReady, WebhookAvailable: each Service that the cluster calls for removals has a ready endpoint.
	ReasonReplicasReady = "ReplicasReady"
	// ReasonNoReplicaReady, WebhookAvailable: a Service has no ready endpoint, so that the API servers deny removals; the message names it.
	ReasonNoReplicaReady = "NoReplicaReady"
	// ReasonNoService, WebhookAvailable: the cluster calls the webhook by a URL, or by a Service without an EndpointSlice.
	ReasonNoService = "NoService"
	// ReasonEndpointsUnread, WebhookAvailable: the EndpointSlices of the webhook could not be read.
	ReasonEndpointsUnread = "EndpointsUnread"
)

// Reasons of the conditions of ClusterRings.
const (
	// ReasonConfigured, Ready: the webhook configuration of the ring is written, and all resources are served.
	ReasonConfigured = "Configured"
	// ReasonNotConfigured, Ready: the webhook configuration of the ring cannot be written.
	ReasonNotConfigured = "NotConfigured"
	// ReasonResourceNotServed, Ready: the API server does not serve a resource of the ring.
	ReasonResourceNotServed = "ResourceNotServed"
	// ReasonResourceForbidden, Ready: the sharder has no permission to get, list or patch a resource of the ring.
	ReasonResourceForbidden = "ResourceForbidden"
	// ReasonShardsReady, ShardsAvailable: there are shards that objects can be assigned to.
	ReasonShardsReady = "ShardsReady"
	// ReasonNoShards, ShardsAvailable, Balanced: no shard is available.
	ReasonNoShards = "NoShards"
	// ReasonBalanced, Balanced: all objects are assigned to the intended shards.
	ReasonBalanced = "Balanced"
	// ReasonMoving, Balanced: some objects have not moved to their intended shards.
	ReasonMoving = "Moving"
	// ReasonResyncFailed, Balanced: objects could not be listed or patched.
	ReasonResyncFailed = "ResyncFailed"
)
