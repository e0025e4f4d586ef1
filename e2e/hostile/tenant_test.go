package hostile_test

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// newTenant gives a user the ClusterRole admin in the namespace of the fixture, in all clusters. It returns the user's clients, by cluster.
func newTenant(l *e2e.Fixture) map[string]*kubernetes.Clientset {
	l.Helper()
	user := "tenant-of-" + l.Namespace
	clients := map[string]*kubernetes.Clientset{}
	for _, cluster := range l.Federation().Clusters() {
		admin, err := install.Client(cluster)
		l.Must(err)
		l.Must(admin.Create(l.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "tenant"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}))
		config := cluster.RESTConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		clients[cluster.Name()], err = kubernetes.NewForConfig(config)
		l.Must(err)
	}
	return clients
}

func TestTenant(t *testing.T) {
	suite.Claim(t, "an administrator of a namespace removes pods down to the floor, and changes nothing that protects them", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		const pods, floor = 12, 8
		l.CreateProtector(floor)
		l.CreateBarePods(l.Application(pods))
		tenant := newTenant(l)
		worker := tenant[l.Cells[0].Name]
		selected := metav1.ListOptions{LabelSelector: "app=web"}
		// removing returns an attack on each pod of both cells. It must leave as many pods as the floor.
		removing := func(attempt string, try func(of *kubernetes.Clientset, pod *corev1.Pod) error) attack {
			return attack{attempt, func() (string, bool) {
				denied := 0
				for _, cell := range l.Cells {
					for _, pod := range l.ExistingPods(cell) {
						if err := try(tenant[cell.Name], &pod); err != nil {
							denied++
						}
					}
				}
				left := l.CountExistingPods()
				return fmt.Sprintf("%d attempts refused, %d pods left of the floor of %d", denied, left, floor), denied > 0 && left == floor
			}}
		}
		patch := func(pod, body string) error {
			_, err := worker.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod, types.MergePatchType, []byte(body), metav1.PatchOptions{})
			return err
		}
		force := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationForceDelete)
		runAttacks(l, "tenant", []attack{
			{"deletes all pods of a cell at once, twice", func() (string, bool) {
				for range 2 {
					for _, cell := range l.Cells {
						_ = tenant[cell.Name].CoreV1().Pods(l.Namespace).DeleteCollection(l.Context(), metav1.DeleteOptions{}, selected) // some of the removals are denied
					}
				}
				left := l.CountExistingPods()
				return fmt.Sprintf("%d pods left of the floor of %d", left, floor), left == floor
			}},
			removing("deletes each pod", func(of *kubernetes.Clientset, pod *corev1.Pod) error {
				return of.CoreV1().Pods(l.Namespace).Delete(l.Context(), pod.Name, metav1.DeleteOptions{})
			}),
			removing("relabels each pod", func(of *kubernetes.Clientset, pod *corev1.Pod) error {
				_, err := of.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":null}}}`), metav1.PatchOptions{})
				return err
			}),
			forbiddenAttack("sets force-delete on a pod", func() error { return patch(l.ExistingPods(l.Cells[0])[0].Name, force) }),
			forbiddenAttack("sets force-delete in a template", func() error {
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "forced"}}
				d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "forced"}}
				d.Spec.Template.Labels, d.Spec.Template.Annotations = d.Spec.Selector.MatchLabels, map[string]string{v1alpha1.AnnotationForceDelete: "true"}
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: storm.Image}}
				_, err := worker.AppsV1().Deployments(l.Namespace).Create(l.Context(), d, metav1.CreateOptions{})
				return err
			}),
			forbiddenAttack("marks a pod as not ready", func() error {
				_, err := worker.CoreV1().Pods(l.Namespace).Patch(l.Context(), l.ExistingPods(l.Cells[0])[0].Name, types.StrategicMergePatchType,
					[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
				return err
			}),
			forbiddenAttack("exempts its namespace", func() error {
				_, err := worker.CoreV1().Namespaces().Patch(l.Context(), l.Namespace, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, v1alpha1.LabelExempt), metav1.PatchOptions{})
				return err
			}),
			forbiddenAttack("deletes its namespace", func() error {
				return worker.CoreV1().Namespaces().Delete(l.Context(), l.Namespace, metav1.DeleteOptions{})
			}),
			forbiddenAttack("deletes the webhook configurations of the cluster", func() error {
				return worker.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(l.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			}),
			forbiddenAttack("changes a webhook configuration", func() error {
				_, err := worker.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(l.Context(),
					&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
				return err
			}),
			forbiddenAttack("deletes a pod of Breakwater", func() error {
				return worker.CoreV1().Pods(release.Namespace).DeleteCollection(l.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			}),
			forbiddenAttack("lowers the floor in the core", func() error {
				return tenant[l.Core.Name].RESTClient().Patch(types.MergePatchType).AbsPath("/apis/breakwater.dev/v1alpha1/namespaces", l.Namespace, "podprotectors", "web").
					Body([]byte(`{"spec":{"minAvailable":0}}`)).Do(l.Context()).Error()
			}),
		})
		l.WaitForSummary(e2e.AllAvailable(floor))
		runAttacks(l, "tenant", []attack{{"adds 2 ready pods with the same labels, and deletes 2 others", func() (string, bool) {
			cell := l.Cells[0]
			if len(l.ExistingPods(l.Cells[1])) > len(l.ExistingPods(cell)) {
				cell = l.Cells[1]
			}
			worker, first := tenant[cell.Name], l.ExistingPods(cell)
			for range 2 {
				dummy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "dummy-", Labels: first[0].Labels}, Spec: *first[0].Spec.DeepCopy()}
				_, err := worker.CoreV1().Pods(l.Namespace).Create(l.Context(), dummy, metav1.CreateOptions{})
				l.Must(err)
			}
			l.WaitForSummary(e2e.AllAvailable(floor + 2))
			var err error
			for _, pod := range first[:3] {
				err = worker.CoreV1().Pods(l.Namespace).Delete(l.Context(), pod.Name, metav1.DeleteOptions{})
			}
			left := l.CountExistingPods()
			return fmt.Sprintf("%d pods left of the floor of %d, 2 of them dummies: a floor counts pods, and not what they do", left, floor), err != nil && left == floor
		}}})
	})
}
