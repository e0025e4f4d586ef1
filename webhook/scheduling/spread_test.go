package scheduling

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// byZone returns a protector of all pods of namespace shop that spreads them.
func byZone(core, name string) scheduling.Protector {
	return scheduling.Protector{
		Core: core, Namespace: "shop", Name: name, Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"of": core}},
		Spread: &scheduling.Spread{TopologyKey: "zone"},
	}
}

// newSpreadFixture returns a fixture with protectors of two core clusters. It has no policies unless given.
func newSpreadFixture(t *testing.T, policies ...metav1.Object) *handlerFixture {
	t.Helper()
	d := newHandlerFixture(t, policies...)
	d.policies.markSynced("east")
	d.policies.rebuild()
	d.fakeCells.cores, d.fakeCells.protectors = []string{"core", "east"}, []scheduling.Protector{byZone("east", "a"), byZone("core", "z")}
	return d
}

const zoned = `{"labelSelector":{"matchLabels":{"of":"core"}},"maxSkew":1,"nodeTaintsPolicy":"Honor","topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}`

func TestSpreadWithoutPolicy(t *testing.T) {
	d := newSpreadFixture(t)
	d.labelsOf = nil // no code asks for them
	got := d.Review(t.Context(), "worker-1", creation(podKind, `{"spec":{}}`))
	want := &admissionv1.AdmissionResponse{
		Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		Patch:            []byte(`[{"op":"add","path":"/spec/topologySpreadConstraints","value":[` + zoned + `]}]`),
		AuditAnnotations: map[string]string{"reason": "Injected", "spreads": "core/PodProtector shop/z"},
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "PodProtector shop/a was not applied to topologySpreadConstraints[zone,DoNotSchedule]") ||
		!strings.Contains(got.Warnings[0], ", want ") {
		t.Errorf("warnings %q, want one of the protector whose constraint came second", got.Warnings)
	}
	got.Warnings = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestSpreadAppliesOnlyToReviewedPods(t *testing.T) {
	const pod, deployment = `{"spec":{}}`, `{"metadata":{},"spec":{"template":{"metadata":{},"spec":{}}}}`
	own := strings.Replace(pod, "{}", `{"topologySpreadConstraints":[`+zoned+`]}`, 1)
	everywhere := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	everywhere.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "b"}}
	everywhere.Spec.PodSchedulingPolicySpec = policy().Spec
	for claim, c := range map[string]struct {
		kind   metav1.GroupVersionKind
		object string
		change func(*handlerFixture, *admissionv1.AdmissionRequest)
		want   Reason
		spread float64
	}{
		"a pod that is created":             {podKind, pod, nil, Injected, 1},
		"a pod that has it":                 {podKind, own, nil, Unchanged, 0},
		"a pod in a dry run":                {podKind, pod, func(_ *handlerFixture, r *admissionv1.AdmissionRequest) { r.DryRun = ptr.To(true) }, Injected, 0},
		"a pod that is updated":             {podKind, pod, func(_ *handlerFixture, r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, NoPolicy, 0},
		"a Deployment":                      {deploymentKind, deployment, nil, NoPolicy, 0},
		"a pod of no cell":                  {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.fakeCells.cores = nil }, OtherCell, 0},
		"a pod while protectors are unread": {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) { d.fakeCells.unread = errors.New("not yet") }, NotReady, 0},
		"a pod while policies of a core are not read": {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.fakeCells.cores = append(d.fakeCells.cores, "west")
		}, NotReady, 0},
		"a pod that no existing policy selects": {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.policies.put("core", everywhere)
			d.policies.rebuild()
		}, Injected, 1},
		"a pod that is given a label too": {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.policies.put("core", policy())
			d.policies.rebuild()
		}, Injected, 1},
		"a pod that a policy rejects": {podKind, `{"spec":{"nodeSelector":{"disk":"hdd"}}}`, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.policies.put("core", policy(rejecting))
			d.policies.rebuild()
		}, Rejected, 0},
		"a pod of protectors without spread": {podKind, pod, func(d *handlerFixture, _ *admissionv1.AdmissionRequest) {
			d.fakeCells.protectors = []scheduling.Protector{{Core: "core", Name: "a"}}
		}, NoPolicy, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			d, request := newSpreadFixture(t), creation(c.kind, c.object)
			if c.change != nil {
				c.change(d, request)
			}
			response := d.Review(t.Context(), "worker-1", request)
			if got := Reason(response.AuditAnnotations["reason"]); got != c.want {
				t.Errorf("reason %s, want %s", got, c.want)
			}
			if added := strings.Contains(string(response.Patch), `"topologyKey":"zone"`); added != (c.want == Injected) || response.Allowed != (c.want != Rejected) {
				t.Errorf("allowed %v with patch %s for reason %s", response.Allowed, response.Patch, c.want)
			}
			if got := spreadReviews(t, d.registry); got != c.spread {
				t.Errorf("%v reviews counted as spread injections, want %v", got, c.spread)
			}
		})
	}
}

func TestSpreadIsIdempotent(t *testing.T) {
	d := newSpreadFixture(t, policy())
	first := d.Review(t.Context(), "worker-1", creation(podKind, `{"spec":{"containers":[]}}`))
	after := patched(t, `{"spec":{"containers":[]}}`, first.Patch)
	if again := d.Review(t.Context(), "worker-1", creation(podKind, after)); again.Patch != nil || again.AuditAnnotations["reason"] != "Unchanged" {
		t.Errorf("second review of %s: patch %s, reason %s; want no patch", after, again.Patch, again.AuditAnnotations["reason"])
	}
}

func TestAuditModeRejectsNothing(t *testing.T) {
	const own = `{"spec":{"nodeSelector":{"disk":"hdd"}}}`
	d := newHandlerFixture(t, policy(rejecting))
	d.audit = true
	response := d.Review(t.Context(), "worker-1", creation(podKind, own))
	if !response.Allowed || response.Result != nil || response.Patch != nil || response.AuditAnnotations["reason"] != "Rejected" {
		t.Errorf("response %+v, want the pod as it was sent, and the reason it would have been rejected for", response)
	}
	if len(response.Warnings) != 1 || !strings.HasPrefix(response.Warnings[0], "admitted, since Breakwater is on trial (--audit): Breakwater refuses: nodeSelector[disk]") {
		t.Errorf("warnings %q, want one with the reason of the refusal", response.Warnings)
	}
	if diff := cmp.Diff(map[Reason]float64{Rejected: 1}, counted(t, d.registry, "worker-1")); diff != "" {
		t.Errorf("counted reviews (-want +got):\n%s", diff)
	}
	if response = d.Review(t.Context(), "worker-1", creation(podKind, `{"spec":{}}`)); response.Patch == nil || len(response.Warnings) > 0 {
		t.Errorf("response %+v to a pod that contradicts nothing, want it changed without a warning", response)
	}
}

func TestMetricsAndReasonsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if _, err := newMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := newMetrics(registry); err == nil {
		t.Error("newMetrics() = nil for metric names that are registered, want an error")
	}
	descriptions := make(chan *prometheus.Desc, 100)
	registry.Describe(descriptions)
	close(descriptions)
	var words []string
	for d := range descriptions {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		words = append(words, name)
	}
	for _, reason := range []Reason{Injected, Unchanged, NoPolicy, Rejected, OtherCell, Ignored, UnknownCell, NotReady, NamespaceUnread, Invalid, Failed} {
		words = append(words, string(reason))
	}
	if len(words) != 3+11 {
		t.Errorf("%q", words)
	}
	for _, word := range words {
		if !strings.Contains(string(raw), "`"+word+"`") {
			t.Errorf("docs/reference/metrics.md does not have %q", word)
		}
	}
}

// spreadReviews returns the number of counted reviews that injected a spread constraint.
func spreadReviews(t *testing.T, registry *prometheus.Registry) (all float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "breakwater_scheduling_spread_injections_total" {
			for _, m := range family.GetMetric() {
				all += m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// patched applies a patch as an API server does.
func patched(t *testing.T, object string, patch []byte) string {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	after, err := decoded.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}
