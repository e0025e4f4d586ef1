package main

import (
	"errors"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func TestConvertReadsTheCurrentContext(t *testing.T) {
	h := newHub(t)
	one := intstr.FromInt32(1)
	h.must(h.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}))
	wantWords(t, h.mustRun("convert"), "kind: PodProtector", "name: web namespace: "+h.namespace, "1 PodProtector created from 1 object")
	_, _, err := runPlugin(t, "", append([]string{"convert", "--fail-on-warning"}, h.flags...)...)
	exit := cli.ExitError{}
	if !errors.As(err, &exit) || exit.Code != 2 {
		t.Errorf("convert exited with %v, want exit code 2", err)
	}
	_, _, err = runPlugin(t, "", append([]string{"convert", "-f", "x.yaml"}, h.flags...)...)
	wantErrors(t, err, []string{"--filename reads files"})
	wantWords(t, h.mustRun("convert", "--help"), "kubectl breakwater convert --context worker-1 -A")
}

func TestReleaseUsesCore(t *testing.T) {
	h := newHub(t)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "web", Finalizers: []string{v1alpha1.FinalizerProtector}}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(1)
	h.must(h.Create(t.Context(), p))
	wantWords(t, h.mustRun("release"), "PodProtector "+h.namespace+" web breakwater.dev/protector in use", "Nothing was changed")
	wantWords(t, h.mustRun("release", "PodProtector/web", "--yes"), "released PodProtector "+h.namespace+"/web")
	wantWords(t, h.mustRun("release"), "No object has finalizers of Breakwater.")
	path := h.flags[1]
	_, _, err := runPlugin(t, "", "release", "-A", "--core", "a="+path, "--core", "b="+path)
	wantErrors(t, err, []string{"one core cluster at a time"})
}
