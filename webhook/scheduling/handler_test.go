package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// fakeCells implements Cells with values that a test sets.
type fakeCells struct {
	cores      []string
	unread     error
	protectors []scheduling.Protector
}

func (a *fakeCells) HasCell(cell string) bool { return cell == "worker-1" }

func (a *fakeCells) CoresOf(string, string, map[string]string) ([]string, error) {
	return a.cores, a.unread
}

func (a *fakeCells) ProtectorsOf([]string, string, string, map[string]string) []scheduling.Protector {
	return a.protectors
}

func (a *fakeCells) CellConfig(string) (*rest.Config, error) { return nil, errors.New("no such cell") }

// handlerFixture is a handler without a server.
type handlerFixture struct {
	*testing.T
	*Handler
	fakeCells *fakeCells
	registry  *prometheus.Registry
}

// counted returns the number of counted reviews of a cell, by reason.
func counted(t *testing.T, registry *prometheus.Registry, cell string) map[Reason]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[Reason]float64{}
	for _, family := range families {
		if family.GetName() != "breakwater_scheduling_reviews_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range m.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["cell"] == cell {
				found[Reason(labels["reason"])] = m.GetCounter().GetValue()
			}
		}
	}
	return found
}

// newHandlerFixture returns a fixture with policies of core "core".
func newHandlerFixture(t *testing.T, policies ...metav1.Object) *handlerFixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	d := &handlerFixture{T: t, fakeCells: &fakeCells{cores: []string{"core"}}, registry: registry}
	d.Handler = &Handler{cells: d.fakeCells, policies: newPolicies(logr.Discard()), counts: newPolicyCounts(time.Now), metrics: m, log: logr.Discard()}
	d.labelsOf = func(context.Context, string, string) (map[string]string, error) {
		return map[string]string{"team": "a"}, nil
	}
	for _, p := range policies {
		d.policies.put("core", p)
	}
	d.policies.markSynced("core")
	d.policies.rebuild()
	return d
}

// policy adds a nodeSelector to all pods of the namespace.
func policy(change ...func(*v1alpha1.PodSchedulingPolicySpec)) *v1alpha1.PodSchedulingPolicy {
	p := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ssd"}}
	p.Spec.PodSelector = &v1alpha1.PodSelector{}
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func rejecting(s *v1alpha1.PodSchedulingPolicySpec) { s.ConflictPolicy = v1alpha1.ConflictReject }

// creation returns the review of an object that is created in the namespace.
func creation(kind metav1.GroupVersionKind, object string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "review", Kind: kind, Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
	}
}

var (
	podKind        = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
	deploymentKind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

// podWithUnknownFields is a pod that has fields unknown to Breakwater's types, beside the fields that policies add to.
const podWithUnknownFields = `{"metadata":{"generateName":"web-","labels":{"app":"web"},"future":1},
	"spec":{"quantum":{"spin":0.50},"nodeSelector":{"zone":"a"},"affinity":{"moonAffinity":{"x":12345678901234567890}},"containers":[{"name":"web","warp":9}]}}`

func TestPatchChangesOnlyAddedFields(t *testing.T) {
	d := newHandlerFixture(t, policy())
	response := d.Review(t.Context(), "worker-1", creation(podKind, podWithUnknownFields))
	want := &admissionv1.AdmissionResponse{
		Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		Patch:            []byte(`[{"op":"add","path":"/spec/nodeSelector/disk","value":"ssd"}]`),
		AuditAnnotations: map[string]string{"reason": "Injected", "policies": "core/PodSchedulingPolicy shop/ssd"},
	}
	if diff := cmp.Diff(want, response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestReviewReasons(t *testing.T) {
	const pod, own = `{"metadata":{},"spec":{}}`, `{"metadata":{},"spec":{"nodeSelector":{"disk":"hdd"}}}`
	everywhere := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	everywhere.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "a"}}
	everywhere.Spec.PodSchedulingPolicySpec = policy().Spec
	templates := policy(func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.Targets = []v1alpha1.SchedulingTarget{v1alpha1.TargetPodTemplates}
	})
	const deployment = `{"metadata":{},"spec":{"template":{"metadata":{},"spec":{}}}}`
	for claim, c := range map[string]struct {
		policy metav1.Object
		kind   metav1.GroupVersionKind
		object string
		cell   string
		change func(*handlerFixture, *admissionv1.AdmissionRequest)
		want   Reason
	}{
		"adds fields of a policy of the namespace":             {policy(), podKind, pod, "worker-1", nil, Injected},
		"adds fields of a cluster policy":                      {everywhere, podKind, pod, "worker-1", nil, Injected},
		"adds to the template of a Deployment that is created": {templates, deploymentKind, deployment, "worker-1", nil, Injected},
		"leaves the template of one that is updated": {templates, deploymentKind, deployment, "worker-1", func(_ *handlerFixture, r *admissionv1.AdmissionRequest) {
			r.Operation = admissionv1.Update
		}, NoPolicy},
		"leaves a pod that has it":                       {policy(), podKind, `{"spec":{"nodeSelector":{"disk":"ssd"}}}`, "worker-1", nil, Unchanged},
		"leaves what the pod has":                        {policy(), podKind, own, "worker-1", nil, Unchanged},
		"rejects what contradicts a policy that rejects": {policy(rejecting), podKind, own, "worker-1", nil, Rejected},
		"uses the namespace of the request":              {policy(), podKind, pod, "worker-1", func(_ *handlerFixture, r *admissionv1.AdmissionRequest) { r.Namespace = "other" }, NoPolicy},
		"leaves pods of an unknown cell":                 {policy(), podKind, pod, "worker-2", nil, UnknownCell},
		"leaves pods of no cell":                         {policy(), podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.fakeCells.cores = nil }, OtherCell},
		"leaves pods of cells of other cores": {policy(), podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.policies.markSynced("b")
			d.policies.rebuild()
			d.fakeCells.cores = []string{"b"}
		}, NoPolicy},
		"leaves pods while a core's policies are unread": {policy(), podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.fakeCells.cores = []string{"core", "b"} }, NotReady},
		"leaves pods while protectors are unread":        {policy(), podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.fakeCells.unread = errors.New("not yet") }, NotReady},
		"leaves pods of namespaces that cannot be read": {everywhere, podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.labelsOf = func(context.Context, string, string) (map[string]string, error) { return nil, context.DeadlineExceeded }
		}, NamespaceUnread},
		"reads no namespace labels without need": {policy(), podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.labelsOf = nil }, Injected},
		"leaves pods when it panics":             {everywhere, podKind, pod, "worker-1", func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.labelsOf = nil }, Failed},
		"leaves what is no pod":                  {policy(), podKind, `{"spec":7}`, "worker-1", nil, Invalid},
		"leaves a review without an object":      {policy(), podKind, ``, "worker-1", nil, Invalid},
		"leaves other kinds unchanged":           {policy(), metav1.GroupVersionKind{Version: "v1", Kind: "Secret"}, pod, "worker-1", nil, Ignored},
		"leaves subresources":                    {policy(), podKind, pod, "worker-1", func(_ *handlerFixture, r *admissionv1.AdmissionRequest) { r.SubResource = "status" }, Ignored},
		"leaves deletions":                       {policy(), podKind, pod, "worker-1", func(_ *handlerFixture, r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete }, Ignored},
	} {
		t.Run(claim, func(t *testing.T) {
			d, request := newHandlerFixture(t, c.policy), creation(c.kind, c.object)
			if c.change != nil {
				c.change(d, request)
			}
			response := d.Review(t.Context(), c.cell, request)
			if got := Reason(response.AuditAnnotations["reason"]); got != c.want {
				t.Errorf("reason %s, want %s", got, c.want)
			}
			isFault := slices.Contains([]Reason{UnknownCell, NotReady, NamespaceUnread, Invalid, Failed}, c.want)
			if why := response.AuditAnnotations["why"]; (why != "") != isFault || len(why) > maxWarning {
				t.Errorf("reason %s with error %q", c.want, why)
			}
			if response.Allowed != (c.want != Rejected) || (response.Patch != nil) != (c.want == Injected) {
				t.Errorf("allowed %v with patch %s for reason %s", response.Allowed, response.Patch, c.want)
			}
			label := "worker-1"
			if c.want == UnknownCell {
				label = "unknown"
			}
			if diff := cmp.Diff(map[Reason]float64{c.want: 1}, counted(t, d.registry, label)); diff != "" {
				t.Errorf("counted reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDenialNamesRemedy(t *testing.T) {
	d := newHandlerFixture(t, policy(rejecting))
	response := d.Review(t.Context(), "worker-1", creation(podKind, `{"spec":{"nodeSelector":{"disk":"hdd"}}}`))
	if response.Result == nil || response.Result.Code != 403 || response.Result.Reason != metav1.StatusReasonForbidden {
		t.Fatalf("result %+v, want 403 Forbidden", response.Result)
	}
	for _, part := range []string{"Breakwater refuses", "PodSchedulingPolicy shop/ssd", "hdd", "ssd", "conflictPolicy"} {
		if !strings.Contains(response.Result.Message, part) {
			t.Errorf("message %q, want it to say %q", response.Result.Message, part)
		}
	}
}

func TestDryRunIsNotCounted(t *testing.T) {
	d, request := newHandlerFixture(t, policy()), creation(podKind, podWithUnknownFields)
	real := d.Review(t.Context(), "worker-1", request)
	request.DryRun = ptr.To(true)
	dry := d.Review(t.Context(), "worker-1", request)
	if want := []string{"PodSchedulingPolicy shop/ssd adds nodeSelector[disk]"}; !slices.Equal(dry.Warnings, want) {
		t.Errorf("warnings %q of a dry run, want %q", dry.Warnings, want)
	}
	dry.Warnings = nil
	if diff := cmp.Diff(real, dry); diff != "" {
		t.Errorf("response to a dry run (-real +dry):\n%s", diff)
	}
	if diff := cmp.Diff(map[Reason]float64{Injected: 1}, counted(t, d.registry, "worker-1")); diff != "" {
		t.Errorf("counted reviews (-want +got):\n%s", diff)
	}
}

// A dry run also says what does not apply to the object, and why the object would be stored without its policies.
func TestDryRunExplainsWhatIsMissing(t *testing.T) {
	d := newHandlerFixture(t, policy(func(s *v1alpha1.PodSchedulingPolicySpec) { s.NodeName = "node-1" }))
	request := creation(podKind, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"d","uid":"u","controller":true}]},"spec":{}}`)
	request.DryRun = ptr.To(true)
	got := d.Review(t.Context(), "worker-1", request).Warnings
	if !slices.ContainsFunc(got, func(w string) bool {
		return strings.HasPrefix(w, "PodSchedulingPolicy shop/ssd was not applied to nodeName")
	}) {
		t.Errorf("warnings %q, want one about the field that a DaemonSet chooses", got)
	}
	d.fakeCells.unread = errors.New("core is not read yet")
	got = d.Review(t.Context(), "worker-1", request).Warnings
	if len(got) != 1 || !strings.Contains(got[0], "stored without scheduling policies: ") {
		t.Errorf("warnings %q, want one that no policies were applied", got)
	}
}

func TestWarningsAreLimited(t *testing.T) {
	wants, has := map[string]string{}, map[string]string{}
	for i := range 40 {
		key := fmt.Sprintf("ü-key-%d", i)
		wants[key], has[key] = strings.Repeat("ä", 60), strings.Repeat("é", 60)
	}
	d := newHandlerFixture(t, policy(func(s *v1alpha1.PodSchedulingPolicySpec) { s.NodeSelector = wants }))
	pod, err := json.Marshal(map[string]any{"spec": map[string]any{"nodeSelector": has}})
	if err != nil {
		t.Fatal(err)
	}
	warnings := d.Review(t.Context(), "worker-1", creation(podKind, string(pod))).Warnings
	if len(warnings) != maxWarnings+1 || !strings.Contains(warnings[maxWarnings], "35 more") {
		t.Errorf("warnings %q, want %d and the number of further ones", warnings, maxWarnings)
	}
	for _, warning := range warnings {
		if len(warning) > maxWarning || !utf8.ValidString(warning) {
			t.Errorf("warning %q has %d bytes, want at most %d, all of whole characters", warning, len(warning), maxWarning)
		}
	}
}

func TestPolicyChangesTakeEffect(t *testing.T) {
	d := newHandlerFixture(t, policy())
	review := func() Reason {
		return Reason(d.Review(t.Context(), "worker-1", creation(podKind, `{"spec":{}}`)).AuditAnnotations["reason"])
	}
	d.policies.drop("core", "shop", "ssd")
	d.policies.rebuild()
	if got := review(); got != NoPolicy {
		t.Errorf("reason %s after the policy was deleted, want %s", got, NoPolicy)
	}
	d.policies.put("core", policy())
	d.policies.rebuild()
	if got := review(); got != Injected {
		t.Errorf("reason %s after the policy was recreated, want %s", got, Injected)
	}
	d.policies.put("core", policy(func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.PodSelector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "Odd"}}
	}))
	d.policies.rebuild()
	if got := review(); got != NoPolicy {
		t.Errorf("reason %s after the policy became malformed, want %s: its former state no longer applies", got, NoPolicy)
	}
}
