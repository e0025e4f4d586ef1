package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// pace is the polling interval while waiting for an object.
const pace = 500 * time.Millisecond

// waiting is what an apply waits for.
type waiting struct {
	// Conditions maps condition types to the required status.
	Conditions map[string]string `tfsdk:"conditions"`
}

func waitBlock() schema.Block {
	return schema.SingleNestedBlock{
		MarkdownDescription: "Wait, after the object was applied, until its components have taken it up: until its conditions hold, of the generation " +
			"that was applied. The time for it is that of `timeouts`.",
		Attributes: map[string]schema.Attribute{
			"conditions": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The conditions to wait for, by their types, and the status that each must have. Default: `{ Ready = \"True\" }`.",
			},
		},
	}
}

// waitingOf reads the wait block; nil if there is none.
func waitingOf(ctx context.Context, plan *tfsdk.Plan, d *diag.Diagnostics) *waiting {
	var w *waiting
	d.Append(plan.GetAttribute(ctx, path.Root("wait"), &w)...)
	if w != nil && len(w.Conditions) == 0 {
		w.Conditions = map[string]string{v1alpha1.ConditionReady: string(metav1.ConditionTrue)}
	}
	return w
}

// await waits until the conditions hold. If the timeout expires first, the error lists what is missing.
func (t *task) await(ctx context.Context, d *diag.Diagnostics) {
	missing := "it was not read"
	err := wait.PollUntilContextCancel(ctx, pace, true, func(ctx context.Context) (bool, error) {
		live, err := t.cluster.of(t.kind, t.want.namespace).Get(ctx, t.want.name, metav1.GetOptions{})
		if err != nil {
			if ctx.Err() == nil && !isPassing(err) {
				return false, err
			}
			return false, nil
		}
		now := t.wait.missing(live)
		if now != missing {
			missing = now
			tflog.Info(ctx, "waiting", map[string]any{"kind": t.kind.Kind.Kind, "name": t.want.String(), "for": now})
		}
		return now == "", nil
	})
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		d.AddError(fmt.Sprintf("%s %s is gone", t.kind.Kind.Kind, t.want), "Somebody deleted it while Terraform waited for its conditions.")
	case wait.Interrupted(err):
		d.AddError(fmt.Sprintf("%s %s was applied, and is not as it should be in time", t.kind.Kind.Kind, t.want), sentence(missing))
	default:
		t.kind.explain(d, "waited for", t.want.String(), err)
	}
}

// missing says which conditions do not hold yet; empty if all hold.
func (w *waiting) missing(live *unstructured.Unstructured) string {
	status := struct {
		ObservedGeneration *int64             `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	}{}
	raw, _ := live.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
		return "its status cannot be read: " + err.Error()
	}
	var all []string
	if g := status.ObservedGeneration; g != nil && *g < live.GetGeneration() {
		all = append(all, fmt.Sprintf("its components have seen generation %d of it and not %d", *g, live.GetGeneration()))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Conditions)) {
		c := apimeta.FindStatusCondition(status.Conditions, name)
		switch {
		case c == nil:
			all = append(all, fmt.Sprintf("it has no condition %s: nobody has looked at it yet", name))
		case string(c.Status) != w.Conditions[name]:
			all = append(all, fmt.Sprintf("condition %s is %s and not %s (%s): %s", name, c.Status, w.Conditions[name], c.Reason, c.Message))
		case c.ObservedGeneration != 0 && c.ObservedGeneration < live.GetGeneration():
			all = append(all, fmt.Sprintf("condition %s is of generation %d and not %d", name, c.ObservedGeneration, live.GetGeneration()))
		}
	}
	return strings.Join(all, "; ")
}
