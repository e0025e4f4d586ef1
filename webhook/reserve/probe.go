package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// suspectAfter is how long a request to a core may take before the core is probed. The batches of a storm take less.
const suspectAfter = time.Second

// silentCoreError is the error of a request to a core that is known not to answer. The text is for users.
type silentCoreError struct {
	core  string
	since time.Time
	// sent reports that the request may have been sent: it began before the core was known to be silent.
	sent bool
}

func (e silentCoreError) Error() string {
	return fmt.Sprintf("core cluster %q has been unreachable since %sZ", e.core, e.since.UTC().Format(time.TimeOnly))
}

// errRejected is the error of a request whose credentials an API server does not accept. The text is for users.
var errRejected = errors.New("its API server does not accept the credentials of the webhook")

// coreProbe knows whether a core answers, and ends requests to it when it does not: they would only use up the time of their callers.
type coreProbe struct {
	core string
	// probe is nil if nothing probes the core.
	probe *clusters.Probe
}

// err returns a silentCoreError if the core is known not to answer.
func (p coreProbe) err() error {
	if since, isSilent := p.probe.SilentSince(); isSilent {
		return silentCoreError{core: p.core, since: since}
	}
	return nil
}

// knownErr returns the error that a request to the core is known to get: that of err, or that the core does not accept the credentials.
func (p coreProbe) knownErr() error {
	if err := p.err(); err != nil {
		return err
	}
	if p.probe.IsRejected() {
		return errRejected
	}
	return nil
}

// whileAnswering returns a context for requests to the core. When the core begins to be silent, it ends, with a silentCoreError as its cause. The core
// is probed if stop has not been called within suspectAfter.
func (p coreProbe) whileAnswering(ctx context.Context) (answering context.Context, stop func()) {
	answering, cancel := context.WithCancelCause(ctx)
	stopWaiting := context.AfterFunc(p.probe.Answering(), func() {
		since, _ := p.probe.SilentSince()
		cancel(silentCoreError{core: p.core, since: since, sent: true})
	})
	slow := time.AfterFunc(suspectAfter, p.probe.Suspect)
	return answering, func() {
		slow.Stop()
		stopWaiting()
		cancel(nil)
	}
}

// ask makes a request to the core while it answers. It returns a silentCoreError if the core is known not to answer, or begins to be silent.
func (p coreProbe) ask(ctx context.Context, request func(context.Context) error) error {
	if err := p.err(); err != nil {
		return err
	}
	answering, stop := p.whileAnswering(ctx)
	defer stop()
	err := request(answering)
	if cause := context.Cause(answering); err != nil && isSilent(cause) {
		return cause
	}
	return err
}

// isSilent reports whether an error is that of a core that is known not to answer.
func isSilent(err error) bool { return errors.As(err, &silentCoreError{}) }

// wasNeverSent reports whether an error means that nothing was sent to the core.
func wasNeverSent(err error) bool {
	silent := silentCoreError{}
	return errors.As(err, &silent) && !silent.sent
}
