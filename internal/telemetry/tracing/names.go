package tracing

// Names of spans. They are stable, and docs/how-to/tracing.md describes what each covers.
const (
	// SpanReview is one review of a removal. SpanSchedule is one review of a pod or template that is to be stored.
	SpanReview   = "webhook.review"
	SpanSchedule = "scheduling.review"
	// SpanReadPod reads the pod of an eviction from its cell.
	SpanReadPod = "webhook.read_pod"
	// SpanRecordRemoval records a removal without a grace period in its cell.
	SpanRecordRemoval = "webhook.record_removal"
	// SpanReserve requests a reservation from one protector, and SpanGiveBack returns one.
	SpanReserve  = "webhook.reserve"
	SpanGiveBack = "webhook.give_back"
	// SpanWait is the wait for a batch, SpanBatch the batch, and SpanWrite one write attempt of the batch.
	SpanWait  = "webhook.wait"
	SpanBatch = "webhook.flight"
	SpanWrite = "webhook.write"
	// SpanHandOver forwards a reservation to another replica, and SpanTakeOver is the processing there.
	SpanHandOver = "webhook.hand_over"
	SpanTakeOver = "webhook.take_over"
	// SpanRound updates one protector for a cell, starting at the first event. SpanCount and SpanStore are its parts.
	SpanRound = "aggregator.round"
	SpanCount = "aggregator.count"
	SpanStore = "aggregator.write"
	// SpanReconcile updates the protectors of one source.
	SpanReconcile = "generator.reconcile"
)

// Attribute keys.
const (
	Cell       = "breakwater.cell"
	Core       = "breakwater.core"
	Protector  = "breakwater.protector"
	Protectors = "breakwater.protectors"
	Operation  = "breakwater.operation"
	Verdict    = "breakwater.verdict"
	Allowed    = "breakwater.allowed"
	DryRun     = "breakwater.dry_run"
	Reason     = "breakwater.reason"
	Result     = "breakwater.result"
	BatchSize  = "breakwater.flight.size"
	Replica    = "breakwater.replica"
	Kind       = "breakwater.kind"
	Name       = "breakwater.name"
	Version    = "breakwater.snapshot_version"
	Namespace  = "k8s.namespace.name"
	PodName    = "k8s.pod.name"
	PodUID     = "k8s.pod.uid"

	SettledGone       = "breakwater.settled.gone"
	SettledExpired    = "breakwater.settled.expired"
	SettledRelabeled  = "breakwater.settled.relabeled"
	SettledSuperseded = "breakwater.settled.superseded"
	SettledUpdated    = "breakwater.settled.updated"
	SettledOverdue    = "breakwater.settled.overdue"
)

// Names of span events.
const (
	// EventDecided is when the answer to a review was decided. The answer may still wait to be sent.
	EventDecided = "decided"
	// EventConflict is a failed write, and EventRetry the next decision after it.
	EventConflict = "conflict"
	EventRetry    = "retry"
	// EventTakenUp is when a worker started a round.
	EventTakenUp = "taken_up"
)
