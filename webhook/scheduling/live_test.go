package scheduling_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestCreatedPodsGetPolicies(t *testing.T) {
	p := newFixture(t)
	protector := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "web", Labels: map[string]string{"tier": "gold"}}}
	protector.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	protector.Spec.MinAvailable = v1alpha1.Pods(1)
	p.create(protector)
	p.create(p.policy("disk"))
	p.create(p.policy("spread", func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.PodSelector, s.NodeSelector = nil, nil
		s.ProtectorSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "gold"}}
		s.TopologySpreadConstraints = []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: string(corev1.ScheduleAnyway)}}
	}))
	everywhere := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	everywhere.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace, "team": "a"}}
	everywhere.Spec.PodSchedulingPolicySpec = p.policy("", func(s *v1alpha1.PodSchedulingPolicySpec) { s.NodeSelector = map[string]string{"team": "a"} }).Spec
	p.create(everywhere)
	p.relabel("team", "a")
	p.configure()

	pod := p.pod("", func(pod *corev1.Pod) { pod.GenerateName = "web-" })
	p.create(pod)
	if diff := cmp.Diff(map[string]string{"disk": "ssd", "team": "a"}, pod.Spec.NodeSelector); diff != "" {
		t.Errorf("nodeSelector of a pod without a name (-want +got):\n%s", diff)
	}
	want := []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	if diff := cmp.Diff(want, pod.Spec.TopologySpreadConstraints); diff != "" {
		t.Errorf("constraints of a pod that a protector covers (-want +got):\n%s", diff)
	}
	other := p.pod("other", func(pod *corev1.Pod) { pod.Labels["app"] = "other" })
	p.create(other)
	if len(other.Spec.NodeSelector)+len(other.Spec.TopologySpreadConstraints) > 0 {
		t.Errorf("a pod without policy has spec %+v, want it unchanged", other.Spec)
	}

	p.relabel("team", "b")
	p.eventually(func() string {
		probe := p.pod("probe")
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if probe.Spec.NodeSelector["team"] != "" {
			return "the namespace still counts as one of team a"
		}
		return ""
	})
}

func TestTemplatesOfAllKindsGetPolicies(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.Targets = []v1alpha1.SchedulingTarget{v1alpha1.TargetPodTemplates}
	}))
	p.configure()
	meta, selector := metav1.ObjectMeta{Namespace: p.namespace, Name: "web"}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: p.pod("").Spec}
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	stateful := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
	daemon := &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
	replica := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	replication := &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels, Template: &template}}
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}}
	cron := &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}}
	for _, object := range []client.Object{deployment, stateful, daemon, replica, replication, job, cron} {
		p.create(object)
	}
	for kind, spec := range map[string]corev1.PodSpec{
		"Deployment": deployment.Spec.Template.Spec, "StatefulSet": stateful.Spec.Template.Spec, "DaemonSet": daemon.Spec.Template.Spec,
		"ReplicaSet": replica.Spec.Template.Spec, "ReplicationController": replication.Spec.Template.Spec, "Job": job.Spec.Template.Spec,
		"CronJob": cron.Spec.JobTemplate.Spec.Template.Spec,
	} {
		t.Run(kind, func(t *testing.T) { wantDisk(t, spec.NodeSelector, "ssd") })
	}
	pod := p.pod("web")
	p.create(pod)
	wantDisk(t, pod.Spec.NodeSelector, "")
}

func TestPolicyChangeCausesNoRollout(t *testing.T) {
	p := newFixture(t)
	policy := p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.Targets = []v1alpha1.SchedulingTarget{v1alpha1.TargetPods, v1alpha1.TargetPodTemplates}
	})
	p.create(policy)
	p.configure()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: selector, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: p.pod("").Spec},
	}}
	pod := p.pod("web")
	p.create(deployment)
	p.create(pod)
	before := deployment.DeepCopy()

	policy.Spec.NodeSelector = map[string]string{"disk": "ssd", "cpu": "new"}
	if err := p.Update(p.Context(), policy); err != nil {
		t.Fatal(err)
	}
	p.awaitPolicy("later")
	fresh := p.pod("fresh")
	p.create(fresh)
	if fresh.Spec.NodeSelector["cpu"] != "new" {
		t.Fatalf("nodeSelector %v of a later pod, want the one of the current policy", fresh.Spec.NodeSelector)
	}
	for _, object := range []client.Object{deployment, pod} {
		version := object.GetResourceVersion()
		if err := p.Get(p.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		if object.GetResourceVersion() != version {
			t.Errorf("%T was written when the policy changed", object)
		}
	}
	deployment.Spec.Replicas = ptr.To[int32](7)
	if err := p.Update(p.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec.Template, deployment.Spec.Template); diff != "" {
		t.Errorf("template after an update of something else (-before +after):\n%s", diff)
	}
}

func TestConflictPolicyRejectDenies(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) { s.ConflictPolicy = v1alpha1.ConflictReject }))
	p.configure()
	err := p.Create(t.Context(), p.pod("web", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "hdd"} }))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSchedulingPolicy "+p.namespace+"/disk") {
		t.Errorf("error %v, want 403 that names the policy", err)
	}
	p.create(p.pod("web"))
}

func TestPodsOfExemptNamespacesAreUnchanged(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) { s.ConflictPolicy = v1alpha1.ConflictReject }))
	p.configure()
	p.relabel(v1alpha1.LabelExempt, "true")
	p.eventually(func() string {
		probe := p.pod("probe")
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		return probe.Spec.NodeSelector["disk"]
	})
	p.create(p.pod("web", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "hdd"} }))
}

func TestPodsAreUnchangedWhileWebhookIsUnreachable(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) { s.ConflictPolicy = v1alpha1.ConflictReject }))
	p.configure()
	p.stop()
	pod := p.pod("web", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "hdd"} })
	p.create(pod)
	wantDisk(t, pod.Spec.NodeSelector, "hdd")
}

func TestFailurePolicyFailDeniesWhileWebhookIsUnreachable(t *testing.T) {
	p := newFixture(t)
	p.configure(func(o *register.Options) { o.FailurePolicy = admissionregistrationv1.Fail })
	p.stop()
	if err := p.Create(t.Context(), p.pod("web")); err == nil {
		t.Error("a pod was created although no webhook answered")
	}
}

// A replica without permission to read policies is ready anyway, and does not block users.
func TestReadinessDoesNotDependOnPolicies(t *testing.T) {
	p := newFixtureWithRules(t, append(roles.Rules(t, "webhook.core"), roles.Rules(t, "webhook.cell")...))
	p.eventually(func() string {
		if err := p.server.Ready(nil); err != nil {
			return err.Error()
		}
		return ""
	})
	response := p.review(`{"metadata":{"labels":{"app":"web"}},"spec":{}}`)
	if !response.Allowed || response.Patch != nil || response.AuditAnnotations["reason"] != "NotReady" {
		t.Errorf("response %+v, want the pod unchanged: no policy is read", response)
	}
}

// The API server drops unknown fields, so the test sends the pod of a newer API server to the webhook directly.
func TestUnknownFieldsArePreserved(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk", func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.Tolerations = []v1alpha1.Toleration{{Key: "spot", Operator: string(corev1.TolerationOpExists)}}
	}))
	p.configure()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"},"future":{"a":1}},
		"spec":{"quantum":{"spin":0.50,"big":12345678901234567890},"nodeSelector":{"zone":"a"},"tolerations":[{"key":"x","warp":9}],"containers":[{"name":"web","image":"web","new":[null]}]},
		"beside":true}`
	response := p.review(pod)
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatalf("patch %q: %v", response.Patch, err)
	}
	got, err := patch.Apply([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"},"future":{"a":1}},
		"spec":{"quantum":{"spin":0.50,"big":12345678901234567890},"nodeSelector":{"zone":"a","disk":"ssd"},
		"tolerations":[{"key":"x","warp":9},{"key":"spot","operator":"Exists"}],"containers":[{"name":"web","image":"web","new":[null]}]},
		"beside":true}`
	if diff := cmp.Diff(decoded(t, []byte(want)), decoded(t, got)); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

// decoded decodes JSON and keeps numbers as they are written.
func decoded(t *testing.T, raw []byte) (value any) {
	t.Helper()
	reader := json.NewDecoder(bytes.NewReader(raw))
	reader.UseNumber()
	if err := reader.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// review sends the review of a pod that is created.
func (p *fixture) review(pod string) *admissionv1.AdmissionResponse {
	p.Helper()
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},
		"operation":"CREATE","namespace":%q,"object":%s}}`, p.namespace, pod)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.authority)
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer asking.CloseIdleConnections()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodPost, "https://"+p.server.Address()+"/cells/"+p.cell+"/schedule?timeout=2s", strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	answer, err := asking.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(answer.Body).Decode(review); err != nil || review.Response == nil {
		p.Fatalf("status %s with response %+v, error %v", answer.Status, review.Response, err)
	}
	return review.Response
}
