package findings

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func deployment(name string, labels map[string]string) Labeled {
	return Labeled{On: v1alpha1.KeyOnWorkload, Kind: "Deployment", Object: &metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}}
}

func TestCheckKeysGroupsMistakes(t *testing.T) {
	controlled := deployment("copy", map[string]string{"breakwater.dev/protected": "true"})
	isController := true
	controlled.Object.SetOwnerReferences([]metav1.OwnerReference{{Controller: &isController}})
	all := []Labeled{
		deployment("a", map[string]string{"breakwater.dev/protected": "true"}), deployment("b", map[string]string{"breakwater.dev/protected": "true"}),
		deployment("c", map[string]string{v1alpha1.LabelProtect: "true"}), controlled,
		{On: v1alpha1.KeyOnNamespace, Kind: "Namespace", Object: &metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"breakwater.dev/exempted": "true"}}},
	}
	got := checkKeys("core", Result[[]Labeled]{Value: all})
	want := []string{"on Deployment shop/a, Deployment shop/b.", "on Namespace shop."}
	if len(got) != len(want) {
		t.Fatalf("checkKeys() = %+v, want %d findings", got, len(want))
	}
	for i := range got {
		if got[i].Verdict != Warning || !strings.HasSuffix(got[i].Found, want[i]) || !strings.HasPrefix(got[i].Do, "Did you mean the label breakwater.dev/") {
			t.Errorf("finding %d = %+v, want a warning that ends with %q", i, got[i], want[i])
		}
	}
	if got := checkKeys("core", Result[[]Labeled]{Value: all[2:4]}); len(got) != 1 || got[0].Verdict != OK {
		t.Errorf("checkKeys() without mistakes = %+v, want ok", got)
	}
}

func TestCheckIgnoredLabels(t *testing.T) {
	generated := v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-known"}}
	cores := []Core{{Protectors: Result[[]v1alpha1.PodProtector]{Value: []v1alpha1.PodProtector{generated}}}}
	protect := map[string]string{v1alpha1.LabelProtect: "true"}
	cell := &Cell{Name: "a", Requesting: Result[[]Labeled]{Value: []Labeled{
		deployment("known", protect), deployment("lost", protect), deployment("out", map[string]string{v1alpha1.LabelProtect: "false"}),
	}}}
	got := checkIgnoredLabels(cell, cores)
	if len(got) != 1 || got[0].Verdict != Warning || !strings.HasSuffix(got[0].Found, "for: Deployment shop/lost.") {
		t.Errorf("checkIgnoredLabels() = %+v, want a warning about Deployment shop/lost", got)
	}
	cell.Namespaces = []string{"other"}
	if got := checkIgnoredLabels(cell, cores); len(got) != 1 || got[0].Verdict != OK {
		t.Errorf("checkIgnoredLabels() of a cell without the namespace = %+v, want ok", got)
	}
}

func TestExemptLabelIsNoMistake(t *testing.T) {
	kubeSystem := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", Labels: map[string]string{v1alpha1.LabelExempt: "true"}}}
	if got := checkKeys("cell a", namespacesOf(&Cell{NamespaceObjects: Result[[]corev1.Namespace]{Value: []corev1.Namespace{kubeSystem}}})); got[0].Verdict != OK {
		t.Errorf("checkKeys() of an exempt namespace = %+v, want ok", got)
	}
}
