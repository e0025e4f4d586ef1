package apiserver

import (
	"net/http"
	"strings"
)

// Freeze holds the connection of a process that is stopped as by SIGSTOP, until Heal. Unlike Hold, it also holds the ends of watches: the
// process learns of an end when it runs again. And it answers renewals of Leases in the process's name, without a word to the API server:
// goroutines of a bubble share one clock, so that the timers of a leader election fire during the stop, and must find nothing to complain of.
// At the next renewal after the stop the API server decides.
func (l *Link) Freeze() {
	l.frozen.Store(true)
	l.Hold()
}

// renewsLease reports whether a call is a renewal of a Lease.
func (c *call) renewsLease() bool {
	return c.method == http.MethodPut && strings.Contains(c.path, "/leases/")
}

// renewed answers a renewal with what it wrote: its version stays, so that the next one conflicts if another client has written meanwhile.
func renewed(c *call) *reply { return &reply{code: http.StatusOK, body: c.body} }
