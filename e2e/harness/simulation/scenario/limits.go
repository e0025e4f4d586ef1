package scenario

import (
	"time"
)

const (
	LeaseNamespace = "breakwater-system"
	LeaseDuration  = 10 * time.Second
)

const (
	// WebhookTimeout is how long an API server waits for a webhook.
	WebhookTimeout = 5 * time.Second
	// RequestLimit is how long after its start a request may take effect. admissionDeadline is the deadline that the Cells set.
	RequestLimit      = 12 * time.Second
	AdmissionDeadline = 15 * time.Second
)
