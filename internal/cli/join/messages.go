package join

import (
	"fmt"
	"time"
)

func (c *credential) validity() string {
	if c.expires.IsZero() {
		return "does not expire"
	}
	return "is valid until " + c.expires.UTC().Format(time.RFC3339)
}

// printLine prints a message. It ignores write errors, because it could not report them.
func (j *Joiner) printLine(format string, arguments ...any) {
	if j.Out != nil {
		_, _ = fmt.Fprintf(j.Out, format+"\n", arguments...)
	}
}

func (j *Joiner) warn(format string, arguments ...any) {
	if j.Warn != nil {
		_, _ = fmt.Fprintf(j.Warn, "Note: "+format+"\n", arguments...)
	}
}

func (j *Joiner) reportAccess(m *issuedAccess) {
	j.printLine("%s: Secret %s/%s in %s has a kubeconfig for %s with a token that %s.",
		m.direction, j.Namespace, m.link.secret, m.user.title, m.issuer.server, m.validity())
	if m.direction == WorkerToCore {
		j.printLine("  The worker is ServiceAccount %s/%s there.", j.Namespace, m.account)
	}
	if !m.expires.IsZero() {
		j.printLine("  The components of %s renew it before then.", m.user.title)
	}
	if m.direction == CoreToWorker && !j.NoCell {
		j.printLine("  Cell %s in %s uses it.", j.Cell, m.user.title)
	}
}

func (j *Joiner) reportPrevious(all []*issuedAccess) {
	for _, m := range all {
		for i := range m.previous {
			j.warn("Secret %s/%s in %s keeps a previous token valid: delete it when no component uses the token any more.",
				m.previous[i].Namespace, m.previous[i].Name, m.issuer.title)
		}
	}
}

func (j *Joiner) reportNextSteps(links []*link) {
	for _, l := range links {
		if l.direction == CoreToWorker {
			j.printLine("Next, in the core: kubectl get cells.breakwater.dev %s, until it is Connected.", j.Cell)
		} else {
			j.printLine("Next, in the worker: install or upgrade the chart breakwater with role: worker and cores: [{name: %s}].", j.CoreName)
		}
	}
}
