package aggregator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// publishedFor returns the selectors that node guards read, by protector.
func (l *fixture) publishedFor() map[string]string {
	l.Helper()
	list := &corev1.ConfigMapList{}
	if err := l.client.List(l.Context(), list, client.InNamespace(l.guardsIn), client.HasLabels{podhold.LabelProtected}); err != nil {
		l.Fatal(err)
	}
	found := map[string]string{}
	for i := range list.Items {
		var some []podhold.Protected
		if err := json.Unmarshal([]byte(list.Items[i].Data[podhold.ProtectedKey]), &some); err != nil {
			l.Fatal(err)
		}
		for _, p := range some {
			if p.Namespace == l.namespace {
				found[p.Name] = metav1.FormatLabelSelector(p.Selector)
			}
		}
	}
	return found
}

func (l *fixture) wantPublished(want map[string]string) {
	l.Helper()
	l.eventually(func() string {
		if diff := cmp.Diff(want, l.publishedFor()); diff != "" {
			return fmt.Sprintf("published (-want +got):\n%s", diff)
		}
		return ""
	})
}

// With the permissions that the chart grants, the aggregator publishes selectors, also those of workloads, and follows their changes.
func TestAggregatorPublishesProtectedPods(t *testing.T) {
	l := newFixture(t)
	l.guardsIn = l.namespace
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	api := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "api"}}
	api.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}
	api.Spec.MinAvailable = v1alpha1.Pods(1)
	l.create(api)
	l.deployment("api", 1)
	l.runAs(l.coreUser(), testplane.User(l, l.namespace+"-cell", append(roles.Rules(l, "aggregator.cell"), roles.Rules(l, "guards")...)))
	l.wantPublished(map[string]string{"web": "app in (web)", "api": "app in (web)"})

	p := l.protector()
	p.Spec.Selector.MatchLabels["tier"] = "front"
	if err := l.client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Delete(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	l.wantPublished(map[string]string{"web": "app in (web),tier in (front)"})
}

// With the permissions that the chart grants, the aggregator answers a node guard.
func TestAggregatorAnswersNodeGuards(t *testing.T) {
	l := newFixture(t)
	l.guardsIn = l.namespace
	l.createCell()
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("web-0", true)
	l.runAs(l.coreUser(), testplane.User(l, l.namespace+"-cell", append(roles.Rules(l, "aggregator.cell"), roles.Rules(l, "guards")...)))
	l.wantPublished(map[string]string{"web": "app in (web)"})
	list := &corev1.ConfigMapList{}
	if err := l.client.List(l.Context(), list, client.InNamespace(l.guardsIn), client.HasLabels{podhold.LabelProtected}); err != nil {
		t.Fatal(err)
	}
	var ref podhold.Ref
	for i := range list.Items {
		if name := list.Items[i].Name; strings.Contains(list.Items[i].Data[podhold.ProtectedKey], l.namespace) {
			ref = podhold.RefOf(podhold.Protected{List: name, Namespace: l.namespace, Name: "web"})
		}
	}
	status, err := json.Marshal(podhold.Status{Question: &podhold.Question{ID: "question", Protectors: []podhold.Ref{ref}}})
	if err != nil {
		t.Fatal(err)
	}
	l.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-of-" + l.namespace, Labels: map[string]string{podhold.LabelAsks: ""}, Annotations: map[string]string{podhold.AnnotationStatus: string(status)},
	}})
	l.eventually(func() string {
		if err := l.client.List(l.Context(), list, client.InNamespace(l.guardsIn), client.HasLabels{podhold.LabelAnswers}); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if text := list.Items[i].Data[podhold.AnswersKey]; strings.Contains(text, `"question":"question"`) && strings.Contains(text, string(ref)) {
				return ""
			}
		}
		return fmt.Sprintf("answers %v, want one about %s", list.Items, ref)
	})
}
