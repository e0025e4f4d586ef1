package tracing

// The names of spans. They are stable, and docs/tracing.md says what each covers.
const (
	// SpanReview is one review of a removal, and SpanSchedule one of a pod or template that is to be stored.
	SpanReview   = "webhook.review"
	SpanSchedule = "scheduling.review"
	// SpanReadPod reads the pod of an eviction from its cell.
	SpanReadPod = "webhook.read_pod"
	// SpanReserve asks one protector for a reservation, and SpanGiveBack gives one back.
	SpanReserve  = "webhook.reserve"
	SpanGiveBack = "webhook.give_back"
	// SpanWait is the waiting for a flight, SpanFlight the flight, and SpanWrite one attempt of it to write.
	SpanWait   = "webhook.wait"
	SpanFlight = "webhook.flight"
	SpanWrite  = "webhook.write"
	// SpanHandOver asks another replica to reserve, and SpanTakeOver is what that makes of it.
	SpanHandOver = "webhook.hand_over"
	SpanTakeOver = "webhook.take_over"
	// SpanRound brings one protector up to date for a cell, from the first event on; SpanCount and SpanStore are its parts.
	SpanRound = "aggregator.round"
	SpanCount = "aggregator.count"
	SpanStore = "aggregator.write"
	// SpanReconcile brings the protectors of one source up to date.
	SpanReconcile = "generator.reconcile"
)

// The keys of attributes.
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
	FlightSize = "breakwater.flight.size"
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

// The names of events.
const (
	// EventDecided is when the answer to a review stood; it may wait for its turn to be sent.
	EventDecided = "decided"
	// EventConflict is a write in vain, and EventRetry when it is decided anew.
	EventConflict = "conflict"
	EventRetry    = "retry"
	// EventTakenUp is when a round began to work.
	EventTakenUp = "taken_up"
)
