package provider

import (
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// takeover describes what an apply may take over from other field managers.
type takeover struct {
	// force is the value of force_conflicts.
	force bool
	// former is the field manager of this provider before its field_manager changed; empty if it did not. No client applies as this manager
	// any more.
	former string
}

// newTakeover reads over from the force_conflicts attribute and from the private state of a resource. Without a cluster, which a plan may lack, no field
// manager is a former one.
func (c *cluster) newTakeover(ctx context.Context, force bool, private privateState) (takeover, diag.Diagnostics) {
	o := takeover{force: force}
	last, d := lastManager(ctx, private)
	if c.absence() == nil && last != c.manager {
		o.former = last
	}
	return o, d
}

// apply writes the object by server-side apply. A dry run writes nothing.
func (c *cluster) apply(ctx context.Context, k *kind, w *desired, o takeover, dryRun bool) (*unstructured.Unstructured, error) {
	options := metav1.ApplyOptions{FieldManager: c.manager, Force: o.force}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	live, err := c.resourceClient(k, w.namespace).Apply(ctx, w.name, w.object, options)
	if apierrors.IsConflict(err) && !o.force && o.allows(conflictsOf(err)) {
		options.Force = true
		live, err = c.resourceClient(k, w.namespace).Apply(ctx, w.name, w.object, options)
	}
	if err != nil || dryRun || o.former == "" {
		return live, err
	}
	return c.inheritFields(ctx, k, w, o)
}

func (o takeover) allows(conflicts []metav1.StatusCause) bool {
	return len(conflicts) > 0 && !slices.ContainsFunc(conflicts, func(c metav1.StatusCause) bool {
		return managerOf(c) != o.former
	})
}

// conflictsOf returns the conflicting fields of an apply, with the field managers that own them.
func conflictsOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldManagerConflict
	})
}

// managerOf returns the field manager of a conflict. The API server names it only in the message.
func managerOf(conflict metav1.StatusCause) string {
	if found := conflictPattern.FindStringSubmatch(conflict.Message); found != nil {
		return found[1]
	}
	return conflict.Message
}

var conflictPattern = regexp.MustCompile(`^conflict with "([^"]+)"`)
