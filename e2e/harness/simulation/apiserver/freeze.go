package apiserver

import (
	"net/http"
	"strings"
)

// Freeze holds the connection of a process that is stopped as by SIGSTOP, until Heal. Unlike Hold, it also holds the ends of watches: the
// process sees an end when it runs again. It answers renewals of Leases itself, without a request to the API server. The goroutines of a
// bubble share one clock, so the timers of a leader election fire during the stop, and the election must see no error. At the next renewal
// after the stop the API server decides.
func (l *Link) Freeze() {
	l.frozen.Store(true)
	l.Hold()
}

// renewsLease reports whether a call is a renewal of a Lease.
func (c *call) renewsLease() bool {
	return c.method == http.MethodPut && strings.Contains(c.path, "/leases/")
}

// renewalReply answers a renewal with the object in the request. Its version stays, so that the next renewal conflicts if another client has
// written meanwhile.
func renewalReply(c *call) *reply { return &reply{code: http.StatusOK, body: c.body} }
