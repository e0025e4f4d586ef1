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
	forPods      = ofWeb + "targets: [Pods]\n"
	forTemplates = ofWeb + "targets: [PodTemplates]\n"
	forUpdates   = forTemplates + "templateUpdates: Inject\n"
	tolerate     = "tolerations: [{key: %s, operator: Exists}]"
)

func TestPoliciesThatChangeRollNothing(t *testing.T) {
	claimAlone(t, "policies come, change and go, controllers start anew, and no pod or revision is another one; a user's rollout takes what is new", func(l *lab) {
		pods := policy(l, "pods", forPods+fmt.Sprintf(tolerate, "old"))
		templates := policy(l, "templates", forTemplates+fmt.Sprintf(tolerate, "old-template"))
		goes := policy(l, "goes", forPods+fmt.Sprintf(tolerate, "gone"))
		goesToo := policy(l, "goes-too", forTemplates+fmt.Sprintf(tolerate, "gone-template"))
		awaitHeeded(l)
		n := workloads(l)
		before := take(l, n)
		for name, s := range before.Templates {
			if !tolerates(&s, "old-template") || !tolerates(&s, "gone-template") || tolerates(&s, "old") {
				l.Fatalf("the template of the %s was made as %+v", name, s.Tolerations)
			}
		}

		change(l, pods, forPods+fmt.Sprintf(tolerate, "new"))
		change(l, templates, forTemplates+fmt.Sprintf(tolerate, "new-template"))
		policy(l, "comes", forPods+"nodeSelector: {worker.gardener.cloud/pool: general}")
		policy(l, "comes-too", forTemplates+fmt.Sprintf(tolerate, "later-template"))
		l.Must(l.Core.Delete(l.Context(), goes))
		l.Must(l.Core.Delete(l.Context(), goesToo))
		awaitHeeded(l)
		touch(l, 1)
		before.want(l, "policies changed")
		restartControllers(l, "later")
		touch(l, 2)
		before.want(l, "all controllers started anew")

		policy(l, "updates", forUpdates+fmt.Sprintf(tolerate, "update"))
		awaitHeeded(l)
		rescale(l, 3)
		after := take(l, n+2)
		maps.DeleteFunc(after.Pods, func(name string, _ types.UID) bool { return before.Pods[name] == "" })
		if diff := cmp.Diff(before, after); diff != "" {
			l.Fatalf("workloads after they were scaled (-before +after):\n%s", diff)
		}

		reroll(l, "registry.k8s.io/pause:next")
		awaitAll(l, "web", n+2, func(pod *corev1.Pod) string {
			s := &pod.Spec
			switch {
			case s.Containers[0].Image != "registry.k8s.io/pause:next":
				return "it is of the old template"
			case !tolerates(s, "new") || !tolerates(s, "update") || tolerates(s, "old") || tolerates(s, "gone") || s.NodeSelector[poolKey] != "general":
				return fmt.Sprintf("its policies are not those of now: %+v, %v", s.Tolerations, s.NodeSelector)
			case !tolerates(s, "old-template") || tolerates(s, "new-template"):
				return fmt.Sprintf("an update has changed the template by a policy that is for new ones: %+v", s.Tolerations)
			}
			return ""
		})
	})
}

func TestAPolicyForUpdatesOfTemplates(t *testing.T) {
	claim(t, "a policy for updates rolls workloads with their next one, whatever that is, and not before", func(l *lab) {
		n := workloads(l)
		before := take(l, n)
		policy(l, "updates", forUpdates+fmt.Sprintf(tolerate, "new"))
		awaitHeeded(l)
		patchAll(l, types.MergePatchType, `{"metadata":{"annotations":{"changed":"true"}}}`)
		before.want(l, "the policy came, and something else than their spec changed")
		touch(l, 1)
		awaitAll(l, "web", n, func(pod *corev1.Pod) string {
			if !tolerates(&pod.Spec, "new") {
				return "it is of the old template"
			}
			return ""
		})
		for name, s := range take(l, n).Templates {
			if !tolerates(&s, "new") {
				l.Errorf("the template of the %s became %+v", name, s.Tolerations)
			}
		}
	})
}

func TestAJobIsLeftAsItIs(t *testing.T) {
	claim(t, "a Job that is under way can be updated, whatever policies say of templates by then, and comes to its end on its pool", func(l *lab) {
		toEtcd := "tolerations: [{key: worker.gardener.cloud/pool, operator: Exists}]\nnodeSelector: {worker.gardener.cloud/pool: etcd-main}"
		p := policy(l, "pool", forUpdates+toEtcd)
		awaitHeeded(l)
		two := int32(2)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		job.Spec.Parallelism, job.Spec.Completions = &two, &two
		job.Spec.Template = template("web", func(t *corev1.PodTemplateSpec) {
			t.Annotations, t.Spec.RestartPolicy = map[string]string{federation.CompleteAnnotation: "held"}, corev1.RestartPolicyNever
		})
		jobs := here(l).Client.BatchV1().Jobs(l.Namespace)
		made, err := jobs.Create(l.Context(), job, metav1.CreateOptions{})
		l.Must(err)
		wantPlaces(l, here(l), "web", byPool, map[string]int{"pool etcd-main": 2})

		change(l, p, forUpdates+fmt.Sprintf(tolerate, "new"))
		awaitHeeded(l)
		updated, err := jobs.Patch(l.Context(), "web", types.MergePatchType, []byte(`{"spec":{"backoffLimit":3}}`), metav1.PatchOptions{})
		l.Must(err)
		if diff := cmp.Diff(made.Spec.Template, updated.Spec.Template); diff != "" {
			l.Errorf("the template of a Job that was updated (-before +after):\n%s", diff)
		}
		for _, pod := range landed(l, here(l), "web", 2) {
			_, err := here(l).Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, federation.CompleteAnnotation), metav1.PatchOptions{})
			l.Must(err)
		}
		l.Eventually(func() string {
			job, err := jobs.Get(l.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return e2e.Word(err)
			}
			if job.Status.Succeeded != 2 {
				return fmt.Sprintf("the Job is not done: %+v", job.Status)
			}
			return ""
		})
	})
}
