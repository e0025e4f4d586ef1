package review

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestDuplicateTargetRefIsDenied(t *testing.T) {
	web := v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	api := v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}
	first := targetRefProtector("first", web)
	for claim, c := range map[string]struct {
		core, namespace, name string
		now, before           *v1alpha1.TargetRef
		denied                bool
	}{
		"another workload":                     {name: "second", now: &api},
		"the same workload":                    {name: "second", now: &web, denied: true},
		"the same workload by a later change":  {name: "second", now: &web, before: &api, denied: true},
		"what it has named before":             {name: "second", now: &web, before: &web},
		"itself":                               {name: "first", now: &web},
		"a workload of another namespace":      {namespace: "elsewhere", name: "second", now: &web},
		"a selector":                           {name: "second"},
		"a core that this webhook has not got": {core: "other", name: "second", now: &web},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, first)
			review := &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Name: c.name, Namespace: "default",
				Resource: metav1.GroupVersionResource{Group: "breakwater.dev", Version: "v1alpha1", Resource: "podprotectors"},
			}
			review.Object.Raw = encodeProtector(t, c.now)
			if c.before != nil {
				review.Operation, review.OldObject.Raw = admissionv1.Update, encodeProtector(t, c.before)
			}
			if c.namespace != "" {
				review.Namespace = c.namespace
			}
			core := "core"
			if c.core != "" {
				core = c.core
			}
			answer := d.ReviewProtector(core, review)
			if answer.Allowed == c.denied {
				t.Fatalf("answer %+v", answer)
			}
			if c.denied && (answer.Status.Code != 422 || !strings.Contains(answer.Status.Message, `PodProtector "first" already has the same targetRef`)) {
				t.Errorf("refused by %+v", answer.Status)
			}
		})
	}
}

func targetRefProtector(name string, ref v1alpha1.TargetRef) *v1alpha1.PodProtector {
	p := memoryProtector(name, 1, 1)
	p.Spec.Selector, p.Spec.TargetRef = nil, &ref
	return p
}

func encodeProtector(t *testing.T, ref *v1alpha1.TargetRef) []byte {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	if p.Spec.TargetRef = ref; ref == nil {
		p.Spec.Selector = &v1alpha1.PodSelector{}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
