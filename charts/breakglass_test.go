package charts_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// annotatableObjects returns the objects through which pods get the annotation, each with the metadata that holds it.
func annotatableObjects(namespace, name string) map[string]func() (client.Object, *metav1.ObjectMeta) {
	app := map[string]string{"app": name}
	meta, selector := metav1.ObjectMeta{Namespace: namespace, Name: name}, &metav1.LabelSelector{MatchLabels: app}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: spec}
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	suspended := true // only the template of a suspended Job can be changed
	return map[string]func() (client.Object, *metav1.ObjectMeta){
		"Pod": func() (client.Object, *metav1.ObjectMeta) {
			o := &corev1.Pod{ObjectMeta: meta, Spec: spec}
			return o, &o.ObjectMeta
		},
		"ReplicationController": func() (client.Object, *metav1.ObjectMeta) {
			o := &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: app, Template: template.DeepCopy()}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"Deployment": func() (client.Object, *metav1.ObjectMeta) {
			o := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"StatefulSet": func() (client.Object, *metav1.ObjectMeta) {
			o := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"DaemonSet": func() (client.Object, *metav1.ObjectMeta) {
			o := &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"ReplicaSet": func() (client.Object, *metav1.ObjectMeta) {
			o := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"Job": func() (client.Object, *metav1.ObjectMeta) {
			o := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Suspend: &suspended, Template: once}}
			return o, &o.Spec.Template.ObjectMeta
		},
		"CronJob": func() (client.Object, *metav1.ObjectMeta) {
			o := &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@yearly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}}
			return o, &o.Spec.JobTemplate.Spec.Template.ObjectMeta
		},
	}
}

func annotate(meta *metav1.ObjectMeta) {
	metav1.SetMetaDataAnnotation(meta, v1alpha1.AnnotationForceDelete, "true")
}

// clientFor returns a client of a user.
func clientFor(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// restrictBreakGlass installs the chart's objects for breakGlass.restrict.
func restrictBreakGlass(t *testing.T, c client.Client) {
	t.Helper()
	installed := 0
	for _, object := range render(t, "--values", "breakwater/ci/worker.yaml", "--set", "breakGlass.restrict=true") {
		if !strings.HasPrefix(object.GetName(), "breakwater-break-glass") {
			continue
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
		installed++
	}
	if installed != 4 {
		t.Fatalf("%d objects, want a policy, its binding, a role and its binding", installed)
	}
}

func wantDenied(t *testing.T, operation string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs the verb break-glass on podprotectors.breakwater.dev") {
		t.Errorf("%s: error %v, want a denial by the policy", operation, err)
	}
}

func wantAllowed(t *testing.T, operation string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: error %v, want it allowed", operation, err)
	}
}

func TestOnlyUsersWithTheRoleMayBreakTheGlass(t *testing.T) {
	c, namespace := apiserver(t), testplane.Namespace(t)
	restrictBreakGlass(t, c)
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{"", "apps", "batch"}, Verbs: []string{"get", "create", "patch"},
		Resources: []string{"pods", "pods/status", "replicationcontrollers", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs"},
	}}
	user, onCall := clientFor(t, testplane.User(t, "user-"+namespace, rules)), clientFor(t, testplane.User(t, "on-call-"+namespace, rules))
	if err := c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "on-call"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "breakwater-break-glass"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "on-call-" + namespace}},
	}); err != nil {
		t.Fatal(err)
	}
	testplane.Eventually(t, func() string { // policies are in force some time after they are created
		probe, meta := annotatableObjects(namespace, "probe")["Pod"]()
		annotate(meta)
		if err := user.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return "the policy is not in force yet: " + errorText(err)
		}
		if err := onCall.Create(t.Context(), probe, client.DryRunAll); err != nil {
			return "the role is not in force yet: " + errorText(err)
		}
		return ""
	})
	for kind, object := range annotatableObjects(namespace, "web") {
		t.Run(kind, func(t *testing.T) {
			o, meta := object()
			annotate(meta)
			wantDenied(t, "create with the annotation", user.Create(t.Context(), o))

			o, meta = object()
			wantAllowed(t, "create without the annotation", user.Create(t.Context(), o))
			if rc, ok := o.(*corev1.ReplicationController); ok {
				meta = &rc.Spec.Template.ObjectMeta // the response replaced the template
			}
			patch := func(as client.Client, change func()) error {
				before, ok := o.DeepCopyObject().(client.Object)
				if !ok {
					t.Fatalf("%T is not a client.Object", o)
				}
				change()
				return as.Patch(t.Context(), o, client.MergeFrom(before))
			}
			wantDenied(t, "add the annotation", patch(user, func() { annotate(meta) }))
			delete(meta.Annotations, v1alpha1.AnnotationForceDelete)
			wantAllowed(t, "add the annotation with the role", patch(onCall, func() { annotate(meta) }))
			wantAllowed(t, "change an object that has the annotation", patch(user, func() { metav1.SetMetaDataLabel(meta, "other", "true") }))
			wantAllowed(t, "remove the annotation", patch(user, func() { delete(meta.Annotations, v1alpha1.AnnotationForceDelete) }))
		})
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	annotation := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationForceDelete+`":"true"}}}`))
	wantDenied(t, "add the annotation through the status subresource", user.Status().Patch(t.Context(), pod, annotation))

	elsewhere, meta := annotatableObjects(testplane.Namespace(t), "web")["Pod"]()
	annotate(meta)
	wantDenied(t, "create with the annotation in a namespace without the role", onCall.Create(t.Context(), elsewhere))

	// Controllers of Kubernetes create objects from a template that was allowed.
	for controller, kind := range map[string]string{"replicaset-controller": "Pod", "deployment-controller": "ReplicaSet", "cronjob-controller": "Job"} {
		config := testplane.Config(t)
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:" + controller}
		o, meta := annotatableObjects(namespace, "copied")[kind]()
		annotate(meta)
		wantAllowed(t, controller+" creates a "+kind, clientFor(t, config).Create(t.Context(), o))
	}
}
