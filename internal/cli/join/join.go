package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Joiner joins two clusters according to its options.
type Joiner struct {
	Options
	// Out receives progress messages and Warn notes. Print receives the objects instead of the cluster; nil writes them to the cluster.
	Out, Warn, Print io.Writer
}

// made is the result of one direction.
type made struct {
	*link
	*credential
	objects []*unstructured.Unstructured
	former  []corev1.Secret
}

// Run joins the two clusters. It checks everything that can fail before it writes the first kubeconfig, and deletes former tokens last.
func (j *Joiner) Run(ctx context.Context) error {
	links, err := j.connect(ctx)
	if err != nil {
		return err
	}
	if err := j.prepare(ctx, links); err != nil {
		return err
	}
	all, err := j.makeAll(ctx, links)
	if err != nil {
		return err
	}
	if j.Print != nil {
		return j.print(all)
	}
	for i, m := range all {
		if err := m.holder.apply(ctx, m.objects); err != nil {
			for _, unused := range all[i:] {
				err = takenBack(ctx, unused.link, unused.credential, err)
			}
			return err
		}
		j.tell(m)
	}
	if err := j.endFormer(ctx, all); err != nil {
		return err
	}
	j.tellNext(links)
	return nil
}

func (j *Joiner) connect(ctx context.Context) ([]*link, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	core, err := connect(ctx, &j.Core, "the core", "core")
	if err != nil {
		return nil, err
	}
	worker, err := connect(ctx, &j.Worker, "the worker", "worker")
	if err != nil {
		return nil, err
	}
	if core.uid == worker.uid {
		return nil, fmt.Errorf("the core and the worker are one cluster (%s), which needs no join: install the chart breakwater with role: single", core.uid)
	}
	if err := j.requireCell(ctx, core, worker); err != nil {
		return nil, err
	}
	return j.links(core, worker), nil
}

// prepare checks with dry runs whether all objects can be written.
func (j *Joiner) prepare(ctx context.Context, links []*link) error {
	for _, l := range links {
		if err := j.requireAccount(ctx, l); err != nil {
			return err
		}
		if l.issuer.isLoopback() {
			j.warn("%s, the address of %s, is good on this machine alone: if the components of %s run elsewhere, name one that they reach by --%s-server",
				l.issuer.server, l.issuer.words, l.holder.words, l.issuer.flag)
		}
		if j.Print != nil {
			continue
		}
		if err := l.holder.apply(ctx, j.objectsOf(l, []byte("to see whether it could be written")), client.DryRunAll); err != nil {
			return err
		}
	}
	return nil
}

// makeAll creates the tokens and tests them. After an error it deletes all of them.
func (j *Joiner) makeAll(ctx context.Context, links []*link) ([]*made, error) {
	var all []*made
	for _, l := range links {
		m, err := j.makeOne(ctx, l)
		if err != nil {
			for _, other := range all {
				err = takenBack(ctx, other.link, other.credential, err)
			}
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (j *Joiner) makeOne(ctx context.Context, l *link) (*made, error) {
	former, err := j.tokens(ctx, l)
	if err != nil {
		return nil, err
	}
	if l.direction == WorkerToCore {
		if err := l.issuer.apply(ctx, j.accountOf()); err != nil {
			return nil, err
		}
	}
	c, err := j.issue(ctx, l)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := j.kubeconfig(l, c.token)
	if err == nil && !j.SkipCheck {
		err = l.try(ctx, kubeconfig)
	}
	if err != nil {
		return nil, takenBack(ctx, l, c, err)
	}
	return &made{link: l, credential: c, objects: j.objectsOf(l, kubeconfig), former: former}, nil
}

// endFormer deletes the replaced tokens after the grace period, in which components switch to the new ones.
func (j *Joiner) endFormer(ctx context.Context, all []*made) error {
	number := 0
	for _, m := range all {
		number += len(m.former)
	}
	switch {
	case number == 0:
		return nil
	case j.KeepOld:
		j.tellFormer(all)
		return nil
	case j.Grace > 0:
		j.say("Former tokens: %d. They end in %s, when all have taken up the new ones (--grace).", number, j.Grace)
		select {
		case <-time.After(j.Grace):
		case <-ctx.Done():
			j.tellFormer(all)
			return fmt.Errorf("the new tokens are in use, and the former ones were left: %w", ctx.Err())
		}
	}
	var errs []error
	for _, m := range all {
		errs = append(errs, m.withdraw(ctx, m.former))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.say("Former tokens that were ended: %d.", number)
	return nil
}

func (j *Joiner) print(all []*made) error {
	for _, m := range all {
		for _, object := range m.objects {
			raw, err := yaml.Marshal(object)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(j.Print, "---\n# into %s\n%s", m.holder.words, raw); err != nil {
				return err
			}
		}
		j.warn("what is printed for %s holds a token of %s that %s: treat it as a password. It is revoked by deleting Secret %s/%s there.",
			m.holder.words, m.issuer.words, m.validity(), m.secretObject().Namespace, m.secretObject().Name)
	}
	j.tellFormer(all)
	return nil
}
