package v1alpha1

// Conditions of PodProtector and Cell. Ready follows kstatus: it tells whether the object was taken up, not
// whether the application is well.
const (
	// ConditionReady of a PodProtector: its pods are counted in at least one cell, by the current spec.
	// Of a Cell: an aggregator leads it and has listed its pods. Written by the aggregators.
	ConditionReady = "Ready"
	// ConditionTargetResolved of a PodProtector: the workload it was derived from, or that its targetRef names, exists.
	// Written by the generator on protectors of its own, and by the aggregators on those with a targetRef.
	ConditionTargetResolved = "TargetResolved"
	// ConditionRestored of a PodProtector: it vanished without having been released, and was made anew. Until that is
	// true of one with AnnotationRestored, its status is not whole. Written by the keeper.
	ConditionRestored = "Restored"
	// ConditionDecreasePending of a PodProtector: a large decrease of its floor, or its release, was asked for and has not taken
	// effect. The old floor stays in force. Its lastTransitionTime is when the decrease was first seen. Written by the generator.
	ConditionDecreasePending = "DecreasePending"
	// ConditionSpreadSatisfied of a PodProtector with spec.spread: its pods are shared out as that asks, and, with
	// tolerateDomainLoss, the floor outlives the loss of any domain. Written by the aggregators.
	ConditionSpreadSatisfied = "SpreadSatisfied"
	// ConditionOverlapping of a PodProtector: others of its namespace can cover the same pods. Written by the overlap
	// controller, when it is or was so.
	// Of a Cell: another Cell of the same cluster can have the same pods, which are then counted twice. Written by the
	// topology controller.
	ConditionOverlapping = "Overlapping"
	// ConditionKindsServed of a policy: the apiserver serves all kinds that it names, and we may list them.
	ConditionKindsServed = "KindsServed"
	// ConditionConnected of a Cell: the kubeconfig of its Secret leads to its cluster. Written by the topology controller.
	ConditionConnected = "Connected"
	// ConditionForceDeletable of a PodProtector: pods have the annotation breakwater.dev/force-delete, and their removal is admitted whatever
	// the floor. Written by the aggregators; absent until there is such a pod.
	ConditionForceDeletable = "ForceDeletable"
	// ConditionAggregationFresh of a Cell: its aggregator reports. Written by the topology controller.
	ConditionAggregationFresh = "AggregationFresh"
	// ConditionShardsAvailable of a ClusterRing: it has shards that objects can be assigned to. Written by the sharder.
	ConditionShardsAvailable = "ShardsAvailable"
	// ConditionBalanced of a ClusterRing: all objects are assigned to the shards that are to have them. Written by the sharder.
	ConditionBalanced = "Balanced"
	// ConditionConflicting of a PodSchedulingPolicy: a pod contradicted it lately. Written by the webhooks.
	ConditionConflicting = "Conflicting"
	// ConditionGuarded of a Cell: its cluster asks the webhook about removals of its pods. Written by the topology
	// controller.
	ConditionGuarded = "Guarded"
)

// Reasons of conditions.
const (
	// ReasonAggregated, Ready: the pods are counted by the newest spec.
	ReasonAggregated = "Aggregated"
	// ReasonNotAggregated, Ready, TargetResolved: no cell has counted yet, or none by the newest spec.
	ReasonNotAggregated = "NotAggregated"
	// ReasonInvalidSelector, Ready: a selector cannot be read; the message says why.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSelectorsOverlap, Overlapping: the message names the other protectors.
	ReasonSelectorsOverlap = "SelectorsOverlap"
	// ReasonDisjoint, Overlapping is false: it was true, and is so no more.
	ReasonDisjoint = "Disjoint"
	// ReasonFloorUnknown, Ready: how many pods are expected cannot be found out, so that every removal is refused.
	ReasonFloorUnknown = "FloorUnknown"
	// ReasonVanished, Restored: the protector was gone without having been deleted, and is made anew.
	ReasonVanished = "Vanished"
	// ReasonKindDeleted, an event: the definition of PodProtectors is being deleted, and its protectors are held.
	ReasonKindDeleted = "KindDeleted"
	// ReasonTargetFound, TargetResolved: the workload of targetRef is there.
	ReasonTargetFound = "TargetFound"
	// ReasonTargetGone, TargetResolved: it was there and is not any more; its pods stay protected as they were seen last.
	ReasonTargetGone = "TargetGone"
	// ReasonTargetNotFound, TargetResolved: no cell has ever had it.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetUnknown, TargetResolved: which pods are its own cannot be found out; the message says why.
	ReasonTargetUnknown = "TargetUnknown"
	// ReasonSourceFound, TargetResolved: the workload that the protector was generated from is there.
	ReasonSourceFound = "SourceFound"
	// ReasonSourceVanished, TargetResolved: it is gone without having been deleted; the protector stays in force.
	ReasonSourceVanished = "SourceVanished"
	// ReasonSourceDeleted, TargetResolved: the workload was deleted, and the release of the protector is pending.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonPodsAnnotated, ForceDeletable: the message says how many, by cell.
	ReasonPodsAnnotated = "PodsAnnotated"
	// ReasonNoPodAnnotated, ForceDeletable is false: there were such pods, and are none now.
	ReasonNoPodAnnotated = "NoPodAnnotated"
	// ReasonAggregating, Ready of a Cell: an aggregator leads it, and has listed its pods.
	ReasonAggregating = "Aggregating"
	// ReasonAggregatorIdle, Ready of a Cell: the aggregator that led it has stopped, and no other one leads.
	ReasonAggregatorIdle = "AggregatorStopped"
	// ReasonRecreateStrategy, TargetResolved: the strategy of the workload is Recreate, which takes all pods down, so that the floor is 0.
	ReasonRecreateStrategy = "RecreateStrategy"
	// ReasonDeletionHeld, TargetResolved: the protector was deleted, and is held until its workload is.
	ReasonDeletionHeld = "DeletionHeld"
	// ReasonOnDeleteStrategy, TargetResolved: the strategy of the workload is OnDelete, so that the floor leaves one pod free at a time.
	ReasonOnDeleteStrategy = "OnDeleteStrategy"
	// ReasonPolicyVanished, TargetResolved: the policy of the protector is gone without having been deleted; what it said goes on.
	ReasonPolicyVanished = "PolicyVanished"
	// ReasonPolicyDeleted, TargetResolved: the policy was deleted, no other one selects the workload, and the protector is retained.
	ReasonPolicyDeleted = "PolicyDeleted"
	// ReasonPolicyLeft, TargetResolved: the policy selects the workload no more, and the protector is retained.
	ReasonPolicyLeft = "PolicyLeft"
	// ReasonApplied, Ready of a policy: it is in force as it is.
	ReasonApplied = "Applied"
	// ReasonApplying, Ready of a policy: some of its workloads do not have their protector yet.
	ReasonApplying = "Applying"
	// ReasonKindsServed, KindsServed: all kinds that the policy names can be listed.
	ReasonKindsServed = "KindsServed"
	// ReasonKindNotServed, KindsServed: the apiserver does not have a kind that the policy names.
	ReasonKindNotServed = "KindNotServed"
	// ReasonKindNotListed, KindsServed: the generator may not list a kind that the policy names, or could not.
	ReasonKindNotListed = "KindNotListed"
)

// Reasons of the condition DecreasePending.
const (
	// ReasonQuietPeriod, the decrease takes effect after the quiet period, unless it turns out to be one of many.
	ReasonQuietPeriod = "QuietPeriod"
	// ReasonLimitExceeded, more decreases are pending than the limit of the window allows, so that all of them are held.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonCascade, the workload or protector is deleted because its owner, its kind or its namespace is. It is held until it is confirmed.
	ReasonCascade = "Cascade"
	// ReasonNotPending, the condition is false: the decrease was withdrawn, or has taken effect.
	ReasonNotPending = "NotPending"
)

// Reasons of the condition SpreadSatisfied.
const (
	// ReasonSpread, the pods are shared out as the spread asks, or there are none.
	ReasonSpread = "Spread"
	// ReasonShareTooLarge, a domain has, or may have, more of the pods than maxSharePercent allows.
	ReasonShareTooLarge = "ShareTooLarge"
	// ReasonTooFewDomains, the pods are, or may be, in fewer domains than minDomains asks for.
	ReasonTooFewDomains = "TooFewDomains"
	// ReasonDomainLossBreaks, fewer pods than the floor would be left if a domain were lost.
	ReasonDomainLossBreaks = "DomainLossBreaksFloor"
	// ReasonDomainsUnknown, where pods are is not known of enough of them to tell.
	ReasonDomainsUnknown = "DomainsUnknown"
)

// Reasons of the conditions of PodSchedulingPolicies, besides ReasonApplied and ReasonInvalidSelector.
const (
	// ReasonContradicted, Conflicting: a pod contradicted the policy lately; the message has one.
	ReasonContradicted = "Contradicted"
	// ReasonUncontradicted, Conflicting is false: no pod has for a while.
	ReasonUncontradicted = "Uncontradicted"
)

// Reasons of the conditions of Cells.
const (
	// ReasonConnected, Connected: the kubeconfig leads to the cluster of the Cell.
	ReasonConnected = "Connected"
	// ReasonNoKubeconfig, Connected, Guarded: the Cell names no Secret, so that nobody looks.
	ReasonNoKubeconfig = "NoKubeconfig"
	// ReasonSecretMissing, Connected: the Secret does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonSecretUnreadable, Connected: the Secret may not be read, or could not be.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonKubeconfigInvalid, Connected: the Secret has no kubeconfig that could be used.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonWrongCA, Connected: the certificate of the apiserver is of another authority than the kubeconfig says.
	ReasonWrongCA = "WrongCA"
	// ReasonUnauthorized, Connected: the apiserver does not know the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonTokenExpired, Connected: the token of the kubeconfig has expired.
	ReasonTokenExpired = "TokenExpired"
	// ReasonForbidden, Connected: the credentials may not do what is needed.
	ReasonForbidden = "Forbidden"
	// ReasonUnreachable, Connected, Guarded: the apiserver does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonAnotherCluster, Connected: the kubeconfig leads to another cluster than that of the Cell.
	ReasonAnotherCluster = "AnotherCluster"
	// ReasonHeartbeatSeen, AggregationFresh: the aggregator of the cell reports.
	ReasonHeartbeatSeen = "HeartbeatSeen"
	// ReasonNoHeartbeat, AggregationFresh: it has not for staleAfter.
	ReasonNoHeartbeat = "NoHeartbeat"
	// ReasonCellsOverlap, Overlapping: the message names the other Cells.
	ReasonCellsOverlap = "CellsOverlap"
	// ReasonWebhookConfigured, Guarded: the cluster asks the webhook about all removals of the pods of the cell.
	ReasonWebhookConfigured = "WebhookConfigured"
	// ReasonWebhookMissing, Guarded: no webhook configuration of the cluster leads to the cell.
	ReasonWebhookMissing = "WebhookMissing"
	// ReasonWebhookWeakened, Guarded: one does, and leaves removals out, or lets them pass while the webhook is away.
	ReasonWebhookWeakened = "WebhookWeakened"
	// ReasonLabelsNotFixed, Guarded: nothing keeps the labels of pods as they are by which they belong to the cell.
	ReasonLabelsNotFixed = "LabelsNotFixed"
	// ReasonConfigurationUnread, Guarded: the webhook configurations of the cluster could not be read.
	ReasonConfigurationUnread = "ConfigurationUnread"
)

// Reasons of the conditions of ClusterRings.
const (
	// ReasonConfigured, Ready: the webhook configuration of the ring is written, and all resources are served.
	ReasonConfigured = "Configured"
	// ReasonNotConfigured, Ready: the webhook configuration of the ring cannot be written.
	ReasonNotConfigured = "NotConfigured"
	// ReasonResourceNotServed, Ready: the apiserver does not have a resource of the ring.
	ReasonResourceNotServed = "ResourceNotServed"
	// ReasonResourceForbidden, Ready: the sharder may not get, list or patch a resource of the ring.
	ReasonResourceForbidden = "ResourceForbidden"
	// ReasonShardsReady, ShardsAvailable: there are shards that objects can be assigned to.
	ReasonShardsReady = "ShardsReady"
	// ReasonNoShards, ShardsAvailable, Balanced: there is no such shard.
	ReasonNoShards = "NoShards"
	// ReasonBalanced, Balanced: all objects are with the shards that are to have them.
	ReasonBalanced = "Balanced"
	// ReasonMoving, Balanced: objects are to go to other shards.
	ReasonMoving = "Moving"
	// ReasonResyncFailed, Balanced: objects could not be listed or patched.
	ReasonResyncFailed = "ResyncFailed"
)
