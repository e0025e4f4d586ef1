package scenario

import (
	"time"
)

const (
	// LeaseNamespace has the Leases by which the processes of a cell elect a leader.
	LeaseNamespace = "breakwater-system"
	// LeaseDuration is how long a leader holds its Lease without renewing it.
	LeaseDuration = 10 * time.Second
)

const (
	// WebhookTimeout is how long an API server waits for a webhook.
	WebhookTimeout = 5 * time.Second
	// RequestLimit is how long after its start a request may take effect.
	RequestLimit = 12 * time.Second
	// AdmissionDeadline is the deadline that the Cells set.
	AdmissionDeadline = 15 * time.Second
)
