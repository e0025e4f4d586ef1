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
	ReasonAggregated       = "Aggregated"
	ReasonNotAggregated    = "NotAggregated"
	ReasonInvalidSelector  = "InvalidSelector"
	ReasonSelectorsOverlap = "SelectorsOverlap"
	ReasonDisjoint         = "Disjoint"
	ReasonFloorUnknown     = "FloorUnknown"
	ReasonVanished         = "Vanished"
	ReasonKindDeleted      = "KindDeleted"
	ReasonTargetFound      = "TargetFound"
	ReasonTargetGone       = "TargetGone"
	ReasonTargetNotFound   = "TargetNotFound"
	ReasonTargetUnknown    = "TargetUnknown"
	ReasonSourceFound      = "SourceFound"
	ReasonSourceVanished   = "SourceVanished"
	ReasonAggregating      = "Aggregating"
	ReasonAggregatorIdle   = "AggregatorStopped"
	ReasonRecreateStrategy = "RecreateStrategy"
	ReasonDeletionHeld     = "DeletionHeld"
	ReasonOnDeleteStrategy = "OnDeleteStrategy"
	ReasonPolicyVanished   = "PolicyVanished"
	ReasonPolicyDeleted    = "PolicyDeleted"
	ReasonPolicyLeft       = "PolicyLeft"
	ReasonApplied          = "Applied"
	ReasonApplying         = "Applying"
	ReasonKindsServed      = "KindsServed"
	ReasonKindNotServed    = "KindNotServed"
	ReasonKindNotListed    = "KindNotListed"
)

// Reasons of the condition SpreadSatisfied.
const (
	ReasonSpread           = "Spread"
	ReasonShareTooLarge    = "ShareTooLarge"
	ReasonTooFewDomains    = "TooFewDomains"
	ReasonDomainLossBreaks = "DomainLossBreaksFloor"
	ReasonDomainsUnknown   = "DomainsUnknown"
)

// Reasons of the conditions of PodSchedulingPolicies, besides ReasonApplied and ReasonInvalidSelector.
const (
	ReasonContradicted   = "Contradicted"
	ReasonUncontradicted = "Uncontradicted"
)

// Reasons of the conditions of Cells.
const (
	ReasonConnected           = "Connected"
	ReasonNoKubeconfig        = "NoKubeconfig"
	ReasonSecretMissing       = "SecretMissing"
	ReasonSecretUnreadable    = "SecretUnreadable"
	ReasonKubeconfigInvalid   = "KubeconfigInvalid"
	ReasonWrongCA             = "WrongCA"
	ReasonUnauthorized        = "Unauthorized"
	ReasonTokenExpired        = "TokenExpired"
	ReasonForbidden           = "Forbidden"
	ReasonUnreachable         = "Unreachable"
	ReasonAnotherCluster      = "AnotherCluster"
	ReasonHeartbeatSeen       = "HeartbeatSeen"
	ReasonNoHeartbeat         = "NoHeartbeat"
	ReasonCellsOverlap        = "CellsOverlap"
	ReasonWebhookConfigured   = "WebhookConfigured"
	ReasonWebhookMissing      = "WebhookMissing"
	ReasonWebhookWeakened     = "WebhookWeakened"
	ReasonLabelsNotFixed      = "LabelsNotFixed"
	ReasonConfigurationUnread = "ConfigurationUnread"
)

// Reasons of the conditions of ClusterRings.
const (
	ReasonConfigured        = "Configured"
	ReasonNotConfigured     = "NotConfigured"
	ReasonResourceNotServed = "ResourceNotServed"
	ReasonResourceForbidden = "ResourceForbidden"
	ReasonShardsReady       = "ShardsReady"
	ReasonNoShards          = "NoShards"
	ReasonBalanced          = "Balanced"
	ReasonMoving            = "Moving"
	ReasonResyncFailed      = "ResyncFailed"
)
