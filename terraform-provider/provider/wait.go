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

// pollInterval is the polling interval while waiting for an object.
const pollInterval = 500 * time.Millisecond

// waitConditions is what an apply waits for.
type waitConditions struct {
	// Conditions maps condition types to the required status.
	Conditions map[string]string `tfsdk:"conditions"`
}

func waitBlock() schema.Block {
	return schema.SingleNestedBlock{
		MarkdownDescription: "After the apply, wait until the components of Breakwater have processed the object: until its conditions hold for the generation " +
			"that was applied. The timeout is that of `timeouts`.",
		Attributes: map[string]schema.Attribute{
			"conditions": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The conditions to wait for, by their types, and the status that each must have. Default: `{ Ready = \"True\" }`.",
			},
		},
	}
}

// newWaitConditions reads the wait block; nil if there is none.
func newWaitConditions(ctx context.Context, plan *tfsdk.Plan, d *diag.Diagnostics) *waitConditions {
	var w *waitConditions
	d.Append(plan.GetAttribute(ctx, path.Root("wait"), &w)...)
	if w != nil && len(w.Conditions) == 0 {
		w.Conditions = map[string]string{v1alpha1.ConditionReady: string(metav1.ConditionTrue)}
	}
	return w
}

// await waits until the conditions hold. If the timeout expires first, the error lists what is missing.
func (t *task) await(ctx context.Context, d *diag.Diagnostics) {
	missing := "it was not read"
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		live, err := t.cluster.resourceClient(t.kind, t.want.namespace).Get(ctx, t.want.name, metav1.GetOptions{})
		if err != nil {
			if ctx.Err() == nil && !isTransient(err) {
				return false, err
			}
			return false, nil
		}
		now := t.wait.unmet(live)
		if now != missing {
			missing = now
			tflog.Info(ctx, "waiting", map[string]any{"kind": t.kind.Kind.Kind, "name": t.want.String(), "for": now})
		}
		return now == "", nil
	})
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		d.AddError(fmt.Sprintf("%s %s was deleted", t.kind.Kind.Kind, t.want), "Another client deleted it while Terraform waited for its conditions.")
	case wait.Interrupted(err):
		d.AddError(fmt.Sprintf("%s %s was applied, but its conditions did not hold in time", t.kind.Kind.Kind, t.want), sentence(missing))
	default:
		t.kind.explain(d, "waited for", t.want.String(), err)
	}
}

// unmet says which conditions do not hold yet; empty if all hold.
func (w *waitConditions) unmet(live *unstructured.Unstructured) string {
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
		all = append(all, fmt.Sprintf("its components have observed generation %d, want %d", *g, live.GetGeneration()))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Conditions)) {
		c := apimeta.FindStatusCondition(status.Conditions, name)
		switch {
		case c == nil:
			all = append(all, fmt.Sprintf("it has no condition %s: no controller has processed it yet", name))
		case string(c.Status) != w.Conditions[name]:
			all = append(all, fmt.Sprintf("condition %s is %s, want %s (%s): %s", name, c.Status, w.Conditions[name], c.Reason, c.Message))
		case c.ObservedGeneration != 0 && c.ObservedGeneration < live.GetGeneration():
			all = append(all, fmt.Sprintf("condition %s is of generation %d, want %d", name, c.ObservedGeneration, live.GetGeneration()))
		}
	}
	return strings.Join(all, "; ")
}
