package scheduling_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

const (
	forPods      = selectsWeb + "targets: [Pods]\n"
	forTemplates = selectsWeb + "targets: [PodTemplates]\n"
	forUpdates   = forTemplates + "templateUpdates: Inject\n"
	tolerate     = "tolerations: [{key: %s, operator: Exists}]"
)

func TestPolicyChangesRollNoWorkload(t *testing.T) {
	claimAlone(t, "policy changes and controller restarts recreate no pod or revision; a rollout applies the current policies", func(l *fixture) {
		pods := createPolicy(l, "pods", forPods+fmt.Sprintf(tolerate, "old"))
		templates := createPolicy(l, "templates", forTemplates+fmt.Sprintf(tolerate, "old-template"))
		goes := createPolicy(l, "goes", forPods+fmt.Sprintf(tolerate, "gone"))
		goesToo := createPolicy(l, "goes-too", forTemplates+fmt.Sprintf(tolerate, "gone-template"))
		waitForPolicies(l)
		n := createWorkloads(l)
		before := readWorkloadState(l, n)
		for name, s := range before.Templates {
			if !tolerates(&s, "old-template") || !tolerates(&s, "gone-template") || tolerates(&s, "old") {
				l.Fatalf("the template of the %s was created with %+v", name, s.Tolerations)
			}
		}

		updatePolicySpec(l, pods, forPods+fmt.Sprintf(tolerate, "new"))
		updatePolicySpec(l, templates, forTemplates+fmt.Sprintf(tolerate, "new-template"))
		createPolicy(l, "comes", forPods+"nodeSelector: {worker.gardener.cloud/pool: general}")
		createPolicy(l, "comes-too", forTemplates+fmt.Sprintf(tolerate, "later-template"))
		l.Must(l.Core.Delete(l.Context(), goes))
		l.Must(l.Core.Delete(l.Context(), goesToo))
		waitForPolicies(l)
		touchAllWorkloads(l, 1)
		before.expectUnchanged(l, "policies changed")
		restartControllers(l, "later")
		touchAllWorkloads(l, 2)
		before.expectUnchanged(l, "all controllers restarted")

		createPolicy(l, "updates", forUpdates+fmt.Sprintf(tolerate, "update"))
		waitForPolicies(l)
		scaleWorkloads(l, 3)
		after := readWorkloadState(l, n+2)
		maps.DeleteFunc(after.Pods, func(name string, _ types.UID) bool { return before.Pods[name] == "" })
		if diff := cmp.Diff(before, after); diff != "" {
			l.Fatalf("workloads after they were scaled (-before +after):\n%s", diff)
		}

		changeImage(l, "registry.k8s.io/pause:next")
		waitForPods(l, "web", n+2, func(pod *corev1.Pod) string {
			s := &pod.Spec
			switch {
			case s.Containers[0].Image != "registry.k8s.io/pause:next":
				return "it has the old template"
			case !tolerates(s, "new") || !tolerates(s, "update") || tolerates(s, "old") || tolerates(s, "gone") || s.NodeSelector[poolKey] != "general":
				return fmt.Sprintf("it does not have the current policies: %+v, %v", s.Tolerations, s.NodeSelector)
			case !tolerates(s, "old-template") || tolerates(s, "new-template"):
				return fmt.Sprintf("an update changed the template by a policy for new templates only: %+v", s.Tolerations)
			}
			return ""
		})
	})
}

func TestPolicyForTemplateUpdates(t *testing.T) {
	claim(t, "a policy for updates rolls workloads with their next update only", func(l *fixture) {
		n := createWorkloads(l)
		before := readWorkloadState(l, n)
		createPolicy(l, "updates", forUpdates+fmt.Sprintf(tolerate, "new"))
		waitForPolicies(l)
		patchAllWorkloads(l, types.MergePatchType, `{"metadata":{"annotations":{"changed":"true"}}}`)
		before.expectUnchanged(l, "the policy was created and fields other than the spec changed")
		touchAllWorkloads(l, 1)
		waitForPods(l, "web", n, func(pod *corev1.Pod) string {
			if !tolerates(&pod.Spec, "new") {
				return "it has the old template"
			}
			return ""
		})
		for name, s := range readWorkloadState(l, n).Templates {
			if !tolerates(&s, "new") {
				l.Errorf("the template of the %s became %+v", name, s.Tolerations)
			}
		}
	})
}

func TestJobIsUnchanged(t *testing.T) {
	claim(t, "a running Job can be updated although policies for templates changed, and completes on its pool", func(l *fixture) {
		toEtcd := "tolerations: [{key: worker.gardener.cloud/pool, operator: Exists}]\nnodeSelector: {worker.gardener.cloud/pool: etcd-main}"
		p := createPolicy(l, "pool", forUpdates+toEtcd)
		waitForPolicies(l)
		two := int32(2)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		job.Spec.Parallelism, job.Spec.Completions = &two, &two
		job.Spec.Template = podTemplate("web", func(t *corev1.PodTemplateSpec) {
			t.Annotations, t.Spec.RestartPolicy = map[string]string{federation.CompleteAnnotation: "held"}, corev1.RestartPolicyNever
		})
		jobs := here(l).Client.BatchV1().Jobs(l.Namespace)
		made, err := jobs.Create(l.Context(), job, metav1.CreateOptions{})
		l.Must(err)
		expectPlacement(l, here(l), "web", poolOf, map[string]int{"pool etcd-main": 2})

		updatePolicySpec(l, p, forUpdates+fmt.Sprintf(tolerate, "new"))
		waitForPolicies(l)
		updated, err := jobs.Patch(l.Context(), "web", types.MergePatchType, []byte(`{"spec":{"backoffLimit":3}}`), metav1.PatchOptions{})
		l.Must(err)
		if diff := cmp.Diff(made.Spec.Template, updated.Spec.Template); diff != "" {
			l.Errorf("the template of a Job that was updated (-before +after):\n%s", diff)
		}
		for _, pod := range waitForRunning(l, here(l), "web", 2) {
			_, err := here(l).Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, federation.CompleteAnnotation), metav1.PatchOptions{})
			l.Must(err)
		}
		l.Eventually(func() string {
			job, err := jobs.Get(l.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return e2e.ErrorText(err)
			}
			if job.Status.Succeeded != 2 {
				return fmt.Sprintf("the Job is not complete: %+v", job.Status)
			}
			return ""
		})
	})
}
