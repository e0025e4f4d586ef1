package provider

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/apply"
)

// takeover describes what an apply may take over from other field managers.
type takeover struct {
	// force is the value of force_conflicts.
	force bool
	// former is the field manager of this provider before its field_manager changed; empty if it did not. No client applies as this manager
	// any more.
	former string
}

// newTakeover returns what an apply may take over: force from force_conflicts, former from the private state. Without a cluster, which a plan may lack, no
// field manager is a former one.
func (c *cluster) newTakeover(ctx context.Context, force bool, private privateState) (takeover, diag.Diagnostics) {
	t := takeover{force: force}
	last, d := lastManager(ctx, private)
	if c.absence() == nil && last != c.manager {
		t.former = last
	}
	return t, d
}

// apply writes the object by server-side apply, and also returns the HTTP status of the answer: only that says whether it has created the object. A
// dry run writes nothing.
func (c *cluster) apply(ctx context.Context, k *kind, w *desired, t takeover, dryRun bool) (live *unstructured.Unstructured, status int, err error) {
	live, status, err = c.sendApply(ctx, k, w, t.force, dryRun)
	if apierrors.IsConflict(err) && !t.force && t.allows(conflictsOf(err)) {
		live, status, err = c.sendApply(ctx, k, w, true, dryRun)
	}
	if err != nil || dryRun || t.former == "" {
		return live, status, err
	}
	live, err = c.inheritFields(ctx, k, w, t)
	return live, status, err
}

// sendApply sends an apply.
func (c *cluster) sendApply(ctx context.Context, k *kind, w *desired, force, dryRun bool) (live *unstructured.Unstructured, status int, err error) {
	request, err := apply.NewRequest(c.rest, w.object.Object)
	if err != nil {
		return nil, 0, err
	}
	request = k.key(w.namespace).In(request).Name(w.name).Param("fieldManager", c.manager).Param("force", strconv.FormatBool(force))
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	live = &unstructured.Unstructured{}
	err = request.Do(ctx).StatusCode(&status).Into(live)
	return live, status, err
}

// allows reports whether all conflicts are with the former manager.
func (t takeover) allows(conflicts []metav1.StatusCause) bool {
	return len(conflicts) > 0 && !slices.ContainsFunc(conflicts, func(c metav1.StatusCause) bool {
		return managerOf(c) != t.former
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
