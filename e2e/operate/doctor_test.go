package operate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// runDoctor runs kubectl breakwater doctor with the given checks, and returns its findings.
func runDoctor(l *fixture, checks string) []findings.Finding {
	l.Helper()
	out, err := kubectlBreakwater(l, "doctor", "--check", checks, "-o", "json").Output()
	var output struct{ Findings []findings.Finding }
	if json.Unmarshal(out, &output) != nil {
		l.Fatalf("doctor: %v\n%s", err, out)
	}
	return output.Findings
}

// waitForFindings waits until doctor reports exactly the wanted problems. Each has the place and check, and a fragment of the finding.
func waitForFindings(l *fixture, checks string, want ...[2]string) {
	l.Helper()
	l.Eventually(func() string {
		found, left := runDoctor(l, checks), want
		for _, f := range found {
			if f.Verdict == findings.OK {
				continue
			}
			at := -1
			for i := range left {
				if left[i][0] == f.Where+" "+f.Check && strings.Contains(f.Found, left[i][1]) {
					at = i
				}
			}
			if at < 0 || f.Do == "" {
				return fmt.Sprintf("not expected: %+v", f)
			}
			left = append(append([][2]string{}, left[:at]...), left[at+1:]...)
		}
		if len(left) > 0 {
			return fmt.Sprintf("not found: %q in %+v", left, found)
		}
		return ""
	})
}

// deleteTemporarily deletes an object, and returns a function that creates it again.
func deleteTemporarily[T client.Object](l *fixture, c client.Client, name string, object T) (restore func()) {
	l.Helper()
	l.Must(c.Get(l.Context(), client.ObjectKey{Name: name}, object))
	l.Must(c.Delete(l.Context(), object))
	object.SetResourceVersion("")
	object.SetUID("")
	return func() {
		l.Helper()
		l.Must(c.Create(l.Context(), object))
	}
}

func TestDoctorReportsProtectionWebhooks(t *testing.T) {
	claim(t, "doctor finds a missing webhook for protectors, and a webhook that the API server does not trust", func(l *fixture) {
		const checks, name = "targets,certificate", "breakwater-core"
		waitForFindings(l, checks)
		aimed := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
		aimed.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		aimed.Spec.MinAvailable = v1alpha1.Pods(1)
		l.Must(l.Core.Create(l.Context(), aimed))

		back := deleteTemporarily(l, l.Core, name, &admissionregistrationv1.ValidatingWebhookConfiguration{})
		waitForFindings(l, checks, [2]string{"core targets", "The API server does not send protectors to the webhook"})
		back()
		waitForFindings(l, checks)

		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: name}, configuration))
		bundle := configuration.Webhooks[0].ClientConfig.CABundle
		other := l.Federation().Cores()[0].RESTConfig().CAData
		if len(other) == 0 {
			var err error
			other, err = os.ReadFile(l.Federation().Cores()[0].RESTConfig().CAFile)
			l.Must(err)
		}
		configuration.Webhooks[0].ClientConfig.CABundle = other
		l.Must(l.Core.Update(l.Context(), configuration))
		waitForFindings(l, checks, [2]string{"core certificate", "does not verify the certificate of podprotectors.breakwater.dev"},
			[2]string{"core targets", "it would store a second protector for the workload of " + l.Namespace + "/web"})
		configuration.Webhooks[0].ClientConfig.CABundle = bundle
		l.Must(l.Core.Update(l.Context(), configuration))
		waitForFindings(l, checks)
	})
}

// startSchedulingWebhook runs a scheduling webhook in addition to the webhooks of the suite, and makes the API server of a worker call it.
func startSchedulingWebhook(l *fixture, worker federation.Cluster, c client.Client) *admissionregistrationv1.MutatingWebhookConfiguration {
	l.Helper()
	address := testplane.FreeAddress(l)
	file := func(name string) string { return filepath.Join(l.Dir(), "webhook", name) }
	core := l.Federation().Cores()[0]
	processes := install.NewProcesses(l.TempDir(), 10*time.Second)
	l.Cleanup(processes.End)
	l.Must(processes.Start(l.Context(), "scheduling", l.Program(), "webhook", "--scheduling", "--listen="+address, "--tls-cert="+file("tls.crt"), "--tls-key="+file("tls.key"),
		"--core="+core.Name()+"="+core.Kubeconfig(), "--cell="+worker.Name()+"="+worker.Kubeconfig()))
	raw, err := exec.CommandContext(l.Context(), l.Program(), "webhook-config", "--scheduling", "--cell="+worker.Name(), "--url=https://"+address, "--ca-bundle="+file("ca.crt")).Output()
	l.Must(err)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	l.Must(yaml.Unmarshal(raw, configuration))
	l.Cleanup(func() { _ = c.Delete(context.Background(), configuration) })
	l.Must(c.Create(l.Context(), configuration))
	return configuration
}

func TestDoctorReportsSchedulingWebhooks(t *testing.T) {
	claim(t, "doctor finds that the API server of a cell does not call the webhook of scheduling policies, or not for all objects", func(l *fixture) {
		const checks = "scheduling,certificate"
		waitForFindings(l, checks) // no policies exist
		policy := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "pool"}}
		policy.Spec.PodSelector, policy.Spec.NodeSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "none"}}, v1alpha1.NodeLabels{"pool": "web"}
		l.Must(l.Core.Create(l.Context(), policy))
		l.Cleanup(func() { _ = l.Core.Delete(context.Background(), policy) })
		workers := l.Federation().Workers()
		var unasked [][2]string
		for _, worker := range workers {
			unasked = append(unasked, [2]string{"cell " + worker.Name() + " scheduling", "There are scheduling policies (" + l.Namespace + "/pool), but they do not apply to pods"})
		}
		waitForFindings(l, checks, unasked...)

		c, err := install.Client(workers[0])
		l.Must(err)
		configuration := startSchedulingWebhook(l, workers[0], c)
		waitForFindings(l, checks, unasked[1:]...)

		where := "cell " + workers[0].Name()
		was := configuration.DeepCopy()
		nowhere := *configuration.Webhooks[0].ClientConfig.URL + "d/cells/" + workers[0].Name() + "/schedule"
		configuration.Webhooks[0].ClientConfig.URL = &nowhere
		configuration.Webhooks[1].Rules = configuration.Webhooks[1].Rules[1:]
		l.Must(c.Update(l.Context(), configuration))
		waitForFindings(l, checks, append(unasked[1:], [2]string{where + " certificate", "answers, but is not a webhook: status 404"},
			[2]string{where + " scheduling", "no webhook is called for CREATE of replicationcontrollers"})...)
		was.ResourceVersion = configuration.ResourceVersion
		l.Must(c.Update(l.Context(), was))
		waitForFindings(l, checks, unasked[1:]...)
	})
}

func TestDoctorReportsRings(t *testing.T) {
	claim(t, "doctor finds a ring without a sharder, one without shards, and a sharder that is down", func(l *fixture) {
		const checks = "rings,certificate"
		waitForFindings(l, checks)
		ring := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}}
		ring.Spec.ShardNamespace = l.Namespace
		ring.Spec.Resources = []v1alpha1.RingResource{{GroupResource: v1alpha1.GroupResource{Resource: "configmaps"}}}
		ring.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.Namespace}}
		l.Must(l.Core.Create(l.Context(), ring))
		l.Cleanup(func() { _ = l.Core.Delete(context.Background(), ring) })
		noShard := [2]string{"core rings", "has no live shard, so no controller works on its objects: none has a Lease in namespace " + l.Namespace}
		waitForFindings(l, checks, noShard, [2]string{"core rings", "No sharder has reported the state of"}, [2]string{"core rings", "no MutatingWebhookConfiguration calls /rings/" + l.Namespace})

		processes := install.NewProcesses(l.TempDir(), 10*time.Second)
		l.Cleanup(processes.End)
		sharders, err := processes.StartSharders(l.Context(), l.Program(), l.Federation().Cores()[0].Kubeconfig(), 1)
		l.Must(err)
		l.Cleanup(sharders.Close)
		waitForFindings(l, checks, noShard)

		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "one", Labels: map[string]string{v1alpha1.LabelRing: ring.Name}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("one_1"), LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: &now, RenewTime: &now,
			},
		}
		l.Must(l.Core.Create(l.Context(), lease))
		waitForFindings(l, checks)

		l.Must(processes.Terminate(install.SharderName(0)))
		waitForFindings(l, checks, [2]string{"core certificate", "assign.rings.breakwater.dev in breakwater-ring-" + ring.Name})
		l.Must(l.Core.Delete(l.Context(), ring))
		waitForFindings(l, checks)
	})
}

// createComponentPod creates a pod with the labels that the chart gives to a component, and sets its Ready condition.
func createComponentPod(l *fixture, c client.Client, name, image string, ready corev1.ConditionStatus) *corev1.Pod {
	l.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name + "-0", Labels: map[string]string{
		findings.LabelPartOf: findings.PartOfBreakwater, findings.LabelComponent: name,
	}}}
	pod.Spec.Containers = []corev1.Container{{Name: name, Image: image}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "breakwater.dev/none"}} // so that no other component writes its status
	l.Must(c.Create(l.Context(), pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	l.Must(c.Status().Update(l.Context(), pod))
	return pod
}

func TestDoctorReportsComponentPods(t *testing.T) {
	claim(t, "doctor reports component pods that are not ready, and versions that differ by label or image", func(l *fixture) {
		const checks = "pods,versions"
		waitForFindings(l, checks)
		worker := l.Federation().Workers()[0]
		c, err := install.Client(worker)
		l.Must(err)
		where := "cell " + worker.Name()
		hook := createComponentPod(l, c, "webhook", "registry.example:5000/breakwater:v1@sha256:"+strings.Repeat("0", 64), corev1.ConditionTrue)
		waitForFindings(l, checks)
		aggregator := createComponentPod(l, c, "aggregator", "registry.example:5000/breakwater:v2", corev1.ConditionFalse)
		waitForFindings(l, checks, [2]string{where + " pods", "Pod " + l.Namespace + "/aggregator-0 (aggregator) is not ready."},
			[2]string{"all versions", "v1 is webhook in " + where + "; v2 is aggregator in " + where})
		aggregator.Labels["app.kubernetes.io/version"] = "v1"
		l.Must(c.Update(l.Context(), aggregator))
		waitForFindings(l, checks, [2]string{where + " pods", "aggregator-0"})
		for _, pod := range []*corev1.Pod{hook, aggregator} {
			l.Must(c.Delete(l.Context(), pod, client.GracePeriodSeconds(0)))
		}
		waitForFindings(l, checks)
	})
}
