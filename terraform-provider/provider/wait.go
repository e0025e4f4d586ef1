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
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// pollInterval is the polling interval while waiting for an object.
const pollInterval = 500 * time.Millisecond

// waitConditions is what an apply waits for.
type waitConditions struct {
	// Conditions maps condition types to the required status.
	Conditions map[string]string `tfsdk:"conditions"`
	// Fields maps paths of attributes to regular expressions for their values.
	Fields map[string]string `tfsdk:"fields"`
}

func waitBlock() schema.Block {
	return schema.SingleNestedBlock{
		MarkdownDescription: "After the apply, wait until the components of Breakwater have processed the object: until its conditions hold for the generation " +
			"that was applied, and its fields have the expected values. The timeout is that of `timeouts`; an error then shows the last values. If the object is " +
			"new, a timeout is a warning and not an error. After an error Terraform would replace the object, although it already protects pods. To fail the " +
			"apply nevertheless, read the object with a data source that has `depends_on` and a `postcondition`.",
		Attributes: map[string]schema.Attribute{
			"conditions": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The conditions to wait for, by their types, and the status that each must have. " +
					"Default: `{ Ready = \"True\" }`, unless `fields` is set.",
			},
			"fields": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The fields to wait for, by their paths in the attributes of the data source, such as `status.available_replicas` or " +
					"`status.cells[0].cell_id`, and a regular expression (RE2) that must match the whole value; `*` matches any value that is set.",
			},
		},
	}
}

// newWaitConditions reads the wait block; nil if there is none.
func newWaitConditions(ctx context.Context, plan *tfsdk.Plan, d *diag.Diagnostics) *waitConditions {
	var w *waitConditions
	d.Append(plan.GetAttribute(ctx, path.Root("wait"), &w)...)
	if w != nil && len(w.Conditions) == 0 && len(w.Fields) == 0 {
		w.Conditions = map[string]string{v1alpha1.ConditionReady: string(metav1.ConditionTrue)}
	}
	return w
}

// await waits until the conditions hold and the fields have their values. If the timeout expires first, the error lists what is missing.
func (t *task) await(ctx context.Context, d *diag.Diagnostics) {
	missing := "it was not read"
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		live, err := t.cluster.resourceClient(t.kind, t.want.namespace).Get(ctx, t.want.name, metav1.GetOptions{})
		if err != nil {
			if ctx.Err() == nil && !transport.IsTransient(err) {
				return false, err
			}
			return false, nil
		}
		now := strings.Join(append(t.wait.unmet(live), t.kind.unmetFields(t.wait.Fields, live)...), "; ")
		if now != missing {
			missing = now
			tflog.Info(ctx, "waiting", map[string]any{"kind": t.kind.Kind.Kind, "name": t.want.String(), "for": now})
		}
		return now == "", nil
	})
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		d.AddError(t.kind.Kind.Kind+" was deleted", fmt.Sprintf("Another client deleted %s while Terraform waited for it.", t.want))
	case wait.Interrupted(err):
		d.AddError(t.kind.Kind.Kind+" was applied, but what it waits for did not hold in time",
			fmt.Sprintf("%s: %s.", t.kind.of(t.want.String()), strings.TrimSuffix(missing, ".")))
	default:
		t.kind.explain(d, "waited for", t.want.String(), err)
	}
}

// unmet says which conditions do not hold yet.
func (w *waitConditions) unmet(live *unstructured.Unstructured) []string {
	status := struct {
		ObservedGeneration *int64             `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	}{}
	raw, _ := live.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
		return []string{"its status cannot be read: " + err.Error()}
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
	return all
}
