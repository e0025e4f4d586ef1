package join

import (
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func (m *made) secretObject() *corev1.Secret { return &m.credential.secret }

func (c *credential) validity() string {
	if c.until.IsZero() {
		return "does not expire"
	}
	return "is valid until " + c.until.UTC().Format(time.RFC3339)
}

// say prints a message. It ignores write errors, because it could not report them.
func say(to io.Writer, format string, arguments ...any) {
	if to != nil {
		_, _ = fmt.Fprintf(to, format+"\n", arguments...)
	}
}

func (j *Joiner) say(format string, arguments ...any) { say(j.Out, format, arguments...) }

func (j *Joiner) warn(format string, arguments ...any) { say(j.Warn, "Note: "+format, arguments...) }

func (j *Joiner) tell(m *made) {
	j.say("%s: Secret %s/%s in %s leads to %s by a token that %s.",
		m.direction, j.Namespace, m.link.secret, m.holder.words, m.issuer.server, m.validity())
	if m.direction == WorkerToCore {
		j.say("  The worker is ServiceAccount %s/%s there.", j.Namespace, m.account)
	}
	if !m.until.IsZero() {
		j.say("  Run join again before then.")
	}
	for _, object := range m.objects {
		if object.GetKind() == "Cell" {
			j.say("  Cell %s in %s goes by it.", object.GetName(), m.holder.words)
		}
	}
}

func (j *Joiner) tellFormer(all []*made) {
	for _, m := range all {
		for i := range m.former {
			j.warn("Secret %s/%s in %s still keeps a former token valid: delete it when nobody uses that any more.",
				m.former[i].Namespace, m.former[i].Name, m.issuer.words)
		}
	}
}

func (j *Joiner) tellNext(links []*link) {
	for _, l := range links {
		if l.direction == CoreToWorker {
			j.say("Next, in the core: kubectl get cells.breakwater.dev %s, until it is Connected.", j.Cell)
		} else {
			j.say("Next, in the worker: install or upgrade the chart breakwater with role: worker and cores: [{name: %s}].", j.CoreName)
		}
	}
}
