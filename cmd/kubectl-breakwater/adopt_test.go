package main

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/succession"
)

// createSet creates a StatefulSet that selects pods with app=name.
func (h *hub) createSet(name string) *appsv1.StatefulSet {
	h.Helper()
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	h.must(h.Create(h.Context(), set))
	return set
}

func (h *hub) createPodOf(set *appsv1.StatefulSet, name string) {
	h.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.namespace, Name: name, Labels: set.Spec.Selector.MatchLabels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
	}}
	pod.Spec = set.Spec.Template.Spec
	h.must(h.Create(h.Context(), pod))
}

func (h *hub) owners(pod string) int {
	h.Helper()
	p := &corev1.Pod{}
	h.must(h.Get(h.Context(), objectKey(h.namespace, pod), p))
	return len(p.OwnerReferences)
}

func TestAdoptReleasesPodsOfRecreatedControllers(t *testing.T) {
	h := newHub(t)
	wantWords(t, h.mustRun("adopt"), "No pod in namespace "+h.namespace+" has a controller that was deleted")
	for name, deleted := range map[string]bool{"alive": false, "db": true, "gone": true, "kv": true} {
		set := h.createSet(name)
		h.createPodOf(set, name+"-0")
		if deleted {
			h.must(h.Delete(h.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	}
	h.createSet("db")
	h.createSet("kv")
	text := h.mustRun("adopt")
	wantWords(t, text, "POD CONTROLLER RESULT REASON", `db-0 StatefulSet/db Release another StatefulSet "db" exists and selects it`,
		`gone-0 StatefulSet/gone NoSuccessor StatefulSet "gone" was deleted: create it again`, "kv-0 StatefulSet/kv Release", "Nothing was changed. Add --yes to release 2 pods.")
	wantNoWords(t, text, "alive-0")
	wantNoWords(t, h.mustRun("adopt", "statefulset/db"), "kv-0", "gone-0")
	var list struct {
		Orphans []struct {
			Pod, Controller          string
			ControllerUID, Successor types.UID
			Decision                 succession.Decision
		}
	}
	out, _, err := runPlugin(t, "", append([]string{"adopt", "-o", "json"}, h.flags...)...)
	h.must(err)
	h.must(json.Unmarshal([]byte(out), &list))
	if len(list.Orphans) != 3 || list.Orphans[0].Decision != succession.Release || list.Orphans[0].Successor == "" || list.Orphans[0].Successor == list.Orphans[0].ControllerUID {
		t.Errorf("orphans %+v, want db-0, gone-0 and kv-0", list.Orphans)
	}
	if got := h.owners("db-0"); got != 1 {
		t.Errorf("pod db-0 has %d owners without --yes, want 1", got)
	}
	wantWords(t, h.mustRun("adopt", "StatefulSet/db", "--yes"), "pod/db-0 is released to StatefulSet/db")
	for pod, want := range map[string]int{"alive-0": 1, "db-0": 0, "gone-0": 1, "kv-0": 1} {
		if got := h.owners(pod); got != want {
			t.Errorf("pod %s has %d owners, want %d", pod, got, want)
		}
	}
	wantNoWords(t, h.mustRun("adopt"), "db-0")
}
