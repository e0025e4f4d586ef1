package scheduling_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// createPolicy creates a policy in the namespace of the test, from a spec in YAML.
func createPolicy(l *fixture, name, spec string) *v1alpha1.PodSchedulingPolicy {
	l.Helper()
	p := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name}}
	l.Must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	l.Must(l.Core.Create(l.Context(), p))
	return p
}

// createClusterPolicy creates a cluster-scoped policy. Its name begins with the namespace of the test.
func createClusterPolicy(l *fixture, name, spec string) *v1alpha1.ClusterPodSchedulingPolicy {
	l.Helper()
	p := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace + "-" + name}}
	l.Must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	l.Must(l.Core.Create(l.Context(), p))
	l.Cleanup(func() { _ = l.Core.Delete(context.Background(), p) })
	return p
}

// updatePolicySpec replaces the spec of a policy.
func updatePolicySpec(l *fixture, p *v1alpha1.PodSchedulingPolicy, spec string) {
	l.Helper()
	l.Eventually(func() string { // webhooks update its status at the same time
		if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err.Error()
		}
		p.Spec = v1alpha1.PodSchedulingPolicySpec{}
		l.Must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
		if err := l.Core.Update(l.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
}

// policyStatus returns the current status of a policy.
func policyStatus(l *fixture, p *v1alpha1.PodSchedulingPolicy) v1alpha1.PodSchedulingPolicyStatus {
	l.Helper()
	l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(p), p))
	return p.Status
}

// probeKey is a node label that only probe policies and probe pods use.
const probeKey = "e2e.breakwater.dev/probe"

// waitForPolicies waits until all webhooks apply the current policies of the core. Webhooks receive the policies of a kind in the order of
// changes. So it creates one more policy of each kind, for a pod that is never created, and waits for those.
func waitForPolicies(l *fixture) {
	l.Helper()
	probe := rand.String(10)
	pods := "podSelector: {matchLabels: {" + probeKey + ": " + probe + "}}\n"
	createPolicy(l, "probe-"+probe, pods+"nodeSelector: {namespaced."+probeKey+": "+probe+"}")
	createClusterPolicy(l, "probe-"+probe, "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+l.Namespace+"}}\n"+pods+
		"nodeSelector: {cluster."+probeKey+": "+probe+"}")
	pod := newPod("probe", "probe", func(pod *corev1.Pod) { pod.Labels[probeKey] = probe })
	waitForPatches(l, pod, "namespaced."+probeKey, "cluster."+probeKey)
}

// waitForPatches waits until the patch of each webhook for a pod in the cell here contains all fragments.
func waitForPatches(l *fixture, pod *corev1.Pod, fragments ...string) {
	l.Helper()
	httpClient := newReviewClient(l)
	defer httpClient.CloseIdleConnections()
	for _, address := range l.Breakwater.WebhookAddresses() {
		l.Eventually(func() string {
			patch, err := requestPatch(l, httpClient, address, pod)
			if err != nil {
				return err.Error()
			}
			for _, fragment := range fragments {
				if !strings.Contains(patch, fragment) {
					return fmt.Sprintf("the webhook at %s does not add %s yet: %s", address, fragment, patch)
				}
			}
			return ""
		})
	}
}

// newReviewClient returns a client that trusts the webhooks, as API servers do.
func newReviewClient(l *fixture) *http.Client {
	l.Helper()
	authority, err := os.ReadFile(filepath.Join(l.Dir(), "webhook", "ca.crt"))
	l.Must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// requestPatch sends a dry-run review to one webhook, and returns the patch of its answer.
func requestPatch(l *fixture, httpClient *http.Client, address string, pod *corev1.Pod) (patch string, err error) {
	l.Helper()
	raw, err := json.Marshal(pod)
	l.Must(err)
	dry := true
	review := &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "probe", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: l.Namespace, Name: pod.Name, Operation: admissionv1.Create, DryRun: &dry,
	}}
	review.APIVersion, review.Kind, review.Request.Object.Raw = admissionv1.SchemeGroupVersion.String(), "AdmissionReview", raw
	body, err := json.Marshal(review)
	l.Must(err)
	request, err := http.NewRequestWithContext(l.Context(), http.MethodPost, "https://"+address+"/cells/"+here(l).Name+"/schedule?timeout=2s", bytes.NewReader(body))
	l.Must(err)
	answer, err := httpClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	answered := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(answer.Body).Decode(answered); err != nil || answered.Response == nil {
		return "", errors.Join(err, fmt.Errorf("the webhook at %s answers %s without a response", address, answer.Status))
	}
	return string(answered.Response.Patch), nil
}
