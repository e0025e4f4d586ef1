package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Joiner joins two clusters according to its options.
type Joiner struct {
	Options
	// Out receives progress messages and Warn notes. Print receives the objects instead of the cluster; nil writes them to the cluster.
	Out, Warn, Print io.Writer
}

// issuedAccess is the result of one direction.
type issuedAccess struct {
	*link
	*credential
	objects  []client.Object
	previous []corev1.Secret
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
	all, err := j.createAll(ctx, links)
	if err != nil {
		return err
	}
	if j.Print != nil {
		return j.print(all)
	}
	for i, m := range all {
		if err := m.user.apply(ctx, m.objects); err != nil {
			for _, unused := range all[i:] {
				err = rollBack(ctx, unused.link, unused.credential, err)
			}
			return err
		}
		j.reportAccess(m)
		if m.direction == WorkerToCore {
			j.writeReference(ctx, m.link)
		}
	}
	if err := j.revokePrevious(ctx, all); err != nil {
		return err
	}
	j.reportNextSteps(links)
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
		return nil, fmt.Errorf("the core and the worker are the same cluster (%s), which needs no join: install the chart breakwater with role: single", core.uid)
	}
	if err := j.requireCell(ctx, core, worker); err != nil {
		return nil, err
	}
	return j.accessLinks(core, worker), nil
}

// prepare checks with dry runs whether all objects can be written.
func (j *Joiner) prepare(ctx context.Context, links []*link) error {
	for _, l := range links {
		if err := j.requireAccount(ctx, l); err != nil {
			return err
		}
		if l.issuer.isLoopback() {
			j.warn("%s, the address of %s, works only on this machine: if the components of %s run elsewhere, set an address that they can reach with --%s-server",
				l.issuer.server, l.issuer.title, l.user.title, l.issuer.flag)
		}
		if j.Print != nil {
			continue
		}
		if err := l.user.apply(ctx, j.userObjects(l, []byte("to see whether it could be written")), client.DryRunAll); err != nil {
			return err
		}
	}
	return nil
}

// createAll creates the tokens and tests them. After an error it deletes all of them.
func (j *Joiner) createAll(ctx context.Context, links []*link) ([]*issuedAccess, error) {
	var all []*issuedAccess
	for _, l := range links {
		m, err := j.createOne(ctx, l)
		if err != nil {
			for _, other := range all {
				err = rollBack(ctx, other.link, other.credential, err)
			}
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (j *Joiner) createOne(ctx context.Context, l *link) (*issuedAccess, error) {
	previous, err := j.tokens(ctx, l)
	if err != nil {
		return nil, err
	}
	if l.direction == WorkerToCore {
		if err := l.issuer.apply(ctx, j.accountObjects()); err != nil {
			return nil, err
		}
	}
	if err := j.grantRenewal(ctx, l); err != nil {
		return nil, err
	}
	c, err := j.issueToken(ctx, l)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := j.kubeconfig(l, c.token)
	if err == nil && !j.SkipCheck {
		err = l.testKubeconfig(ctx, kubeconfig)
	}
	if err != nil {
		return nil, rollBack(ctx, l, c, err)
	}
	return &issuedAccess{link: l, credential: c, objects: j.userObjects(l, kubeconfig), previous: previous}, nil
}

// revokePrevious deletes the replaced tokens after the grace period, in which components switch to the new ones.
func (j *Joiner) revokePrevious(ctx context.Context, all []*issuedAccess) error {
	number := 0
	for _, m := range all {
		number += len(m.previous)
	}
	switch {
	case number == 0:
		return nil
	case j.KeepOld:
		j.reportPrevious(all)
		return nil
	case j.Grace > 0:
		j.printLine("Previous tokens: %d. They are revoked in %s, when all components use the new ones (--grace).", number, j.Grace)
		select {
		case <-time.After(j.Grace):
		case <-ctx.Done():
			j.reportPrevious(all)
			return fmt.Errorf("the new tokens are in use, but the previous ones were not revoked: %w", ctx.Err())
		}
	}
	var errs []error
	for _, m := range all {
		errs = append(errs, m.deleteTokens(ctx, m.previous))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.printLine("Revoked previous tokens: %d.", number)
	return nil
}

func (j *Joiner) print(all []*issuedAccess) error {
	for _, m := range all {
		objects := m.objects
		if m.direction == WorkerToCore {
			reference, err := j.referenceObjects(m.link)
			if err != nil {
				return err
			}
			objects = append(objects, reference...)
		}
		for _, object := range objects {
			manifest, err := manifestOf(object)
			if err != nil {
				return err
			}
			raw, err := yaml.Marshal(manifest)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(j.Print, "---\n# for %s\n%s", m.user.title, raw); err != nil {
				return err
			}
		}
		j.warn("the output for %s contains a token of %s that %s: treat it as a password. To revoke the token, delete Secret %s/%s there.",
			m.user.title, m.issuer.title, m.validity(), m.credential.secret.Namespace, m.credential.secret.Name)
	}
	j.reportPrevious(all)
	return nil
}
