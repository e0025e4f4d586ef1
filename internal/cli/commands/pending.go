package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// confirmationLifetime is how long a confirmation is valid. It expires so that it does not confirm a later decrease of the same protector.
const confirmationLifetime = 10 * time.Minute

type pendingDecrease struct {
	*v1alpha1.PodProtector
	brake.Decrease
}

func (d *pendingDecrease) key() client.ObjectKey { return client.ObjectKeyFromObject(d.PodProtector) }

// pendingDecreases confirms the pending decreases of protectors in one namespace or in all namespaces.
type pendingDecreases struct {
	client client.Client
	// namespace is empty for all namespaces.
	namespace string
	now       func() time.Time
}

// runPending runs the command with --pending.
func (f *releaseFlags) runPending(ctx context.Context, in io.Reader, out io.Writer, arguments []string) error {
	names, err := f.checkPending(arguments)
	if err != nil {
		return err
	}
	p := pendingDecreases{now: f.now}
	if !f.all {
		if p.namespace, err = f.core.Namespace(); err != nil {
			return err
		}
	}
	config, err := f.core.Config(ctx, "release")
	if err != nil {
		return err
	}
	if p.client, err = client.New(config, client.Options{Scheme: clusters.Scheme()}); err != nil {
		return err
	}
	found, err := p.find(ctx, names)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, strings.TrimSuffix("No decrease is pending in namespace "+p.namespace, " in namespace ")+".")
		return err
	}
	if err := p.preview(out, found); err != nil {
		return err
	}
	if confirmed, err := f.isConfirmed(in, out, len(found)); err != nil || !confirmed {
		return err
	}
	return p.confirm(ctx, out, found)
}

// checkPending checks the flags and returns the names of the protectors in the arguments.
func (f *releaseFlags) checkPending(arguments []string) (names []string, err error) {
	switch {
	case f.deleted || len(f.kinds) > 0:
		return nil, errors.New("--pending confirms decreases of floors: omit --deleted and --kind")
	case f.all && f.core.NamespaceFlag() != "":
		return nil, errors.New("set either --namespace or --all-namespaces")
	case f.all && len(arguments) > 0:
		return nil, errors.New("a protector has one namespace: set --namespace instead of --all-namespaces")
	case f.dryRun && f.yes:
		return nil, errors.New("set either --dry-run or --yes")
	}
	return cli.ProtectorResource.ParseAll(arguments)
}

// find reads the protectors with a pending decrease, only the named ones if there are names. A named protector without a pending
// decrease is an error.
func (p *pendingDecreases) find(ctx context.Context, names []string) (found []pendingDecrease, err error) {
	if len(names) == 0 {
		return p.list(ctx)
	}
	var errs []error
	for _, name := range names {
		protector := &v1alpha1.PodProtector{}
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, protector); err != nil {
			errs = append(errs, fmt.Errorf("get PodProtector %s/%s: %w", p.namespace, name, err))
		} else if decrease, pending := brake.DecreaseOf(protector); !pending {
			errs = append(errs, fmt.Errorf("PodProtector %s/%s has no pending decrease; --pending without names lists all pending decreases", p.namespace, name))
		} else {
			found = append(found, pendingDecrease{protector, decrease})
		}
	}
	return found, errors.Join(errs...)
}

func (p *pendingDecreases) list(ctx context.Context) (found []pendingDecrease, err error) {
	page := &v1alpha1.PodProtectorList{}
	for {
		if err := p.client.List(ctx, page, client.InNamespace(p.namespace), client.Limit(500), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("list PodProtectors: %w", err)
		}
		for i := range page.Items {
			if decrease, pending := brake.DecreaseOf(&page.Items[i]); pending {
				found = append(found, pendingDecrease{page.Items[i].DeepCopy(), decrease})
			}
		}
		if page.Continue == "" {
			return found, nil
		}
	}
}

// confirm confirms each decrease and prints the result. It continues after an error.
func (p *pendingDecreases) confirm(ctx context.Context, out io.Writer, found []pendingDecrease) error {
	until := p.now().Add(confirmationLifetime).UTC().Truncate(time.Second)
	var failed []error
	confirmed := 0
	for i := range found {
		result, err := p.confirmOne(ctx, &found[i], until)
		if err != nil {
			failed = append(failed, fmt.Errorf("PodProtector %s: %w", found[i].key(), err))
			continue
		}
		if result == resultConfirmed {
			confirmed++
		}
		if _, err := fmt.Fprintf(out, "%s PodProtector %s\n", result, found[i].key()); err != nil {
			return err
		}
	}
	if confirmed > 0 {
		const format = "The generator applies confirmed decreases within seconds. The confirmation expires at %s.\n"
		if _, err := fmt.Fprintf(out, format, until.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// Results of confirming one decrease.
const (
	resultConfirmed  = "confirmed"
	resultReleased   = "already released"
	resultNotPending = "no longer pending"
)

// confirmOne annotates a protector, unless it was recreated or another decrease is pending. On a conflict it reads the protector again
// and retries, because aggregators and webhooks write its status frequently.
func (p *pendingDecreases) confirmOne(ctx context.Context, d *pendingDecrease, until time.Time) (result string, err error) {
	current := d.PodProtector
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		result, err = p.annotate(ctx, current, until)
		if !apierrors.IsConflict(err) {
			return err
		}
		live := &v1alpha1.PodProtector{}
		if err := p.client.Get(ctx, d.key(), live); err != nil {
			return err
		}
		decrease, pending := brake.DecreaseOf(live)
		switch {
		case live.UID != d.UID:
			return errors.New("the PodProtector was deleted and created again; nothing was confirmed")
		case !pending:
			result = resultNotPending
			return nil
		case !decrease.IsSame(d.Decrease):
			return fmt.Errorf("another decrease is pending now, so nothing was confirmed: %s", decrease.Summary())
		}
		current = live
		return err
	})
	if apierrors.IsNotFound(err) {
		return resultReleased, nil
	}
	return result, err
}
