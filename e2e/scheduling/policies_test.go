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

// policy makes one for pods of the lab's namespace, of a spec as users write it.
func policy(l *lab, name, spec string) *v1alpha1.PodSchedulingPolicy {
	l.Helper()
	p := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name}}
	l.Must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	l.Must(l.Core.Create(l.Context(), p))
	return p
}

// clusterPolicy makes one, of which the name begins with that of the lab's namespace.
func clusterPolicy(l *lab, name, spec string) *v1alpha1.ClusterPodSchedulingPolicy {
	l.Helper()
	p := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace + "-" + name}}
	l.Must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	l.Must(l.Core.Create(l.Context(), p))
	l.Cleanup(func() { _ = l.Core.Delete(context.Background(), p) })
	return p
}

// change gives a policy another spec.
func change(l *lab, p *v1alpha1.PodSchedulingPolicy, spec string) {
	l.Helper()
	l.Eventually(func() string { // webhooks write its status meanwhile
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

// status is that of a policy now.
func status(l *lab, p *v1alpha1.PodSchedulingPolicy) v1alpha1.PodSchedulingPolicyStatus {
	l.Helper()
	l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(p), p))
	return p.Status
}

// probeKey is a label of nodes that only probes ask for.
const probeKey = "e2e.breakwater.dev/probe"

// awaitHeeded waits until all webhooks heed the policies of the core as they are now. They see those of a kind in the order of changes, so it
// makes one more of each, for a pod that is never made.
func awaitHeeded(l *lab) {
	l.Helper()
	probe := rand.String(10)
	pods := "podSelector: {matchLabels: {" + probeKey + ": " + probe + "}}\n"
	policy(l, "probe-"+probe, pods+"nodeSelector: {namespaced."+probeKey+": "+probe+"}")
	clusterPolicy(l, "probe-"+probe, "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+l.Namespace+"}}\n"+pods+
		"nodeSelector: {cluster."+probeKey+": "+probe+"}")
	pod := newPod("probe", "probe", func(pod *corev1.Pod) { pod.Labels[probeKey] = probe })
	awaitAnswers(l, pod, "namespaced."+probeKey, "cluster."+probeKey)
}

// awaitAnswers waits until each webhook adds all of these words to a pod of the cell here.
func awaitAnswers(l *lab, pod *corev1.Pod, words ...string) {
	l.Helper()
	asking := asker(l)
	defer asking.CloseIdleConnections()
	for _, address := range l.Breakwater.WebhookAddresses() {
		l.Eventually(func() string {
			patch, err := ask(l, asking, address, pod)
			if err != nil {
				return err.Error()
			}
			for _, word := range words {
				if !strings.Contains(patch, word) {
					return fmt.Sprintf("the webhook at %s does not add %s yet: %s", address, word, patch)
				}
			}
			return ""
		})
	}
}

// asker trusts the webhooks as apiservers do.
func asker(l *lab) *http.Client {
	l.Helper()
	authority, err := os.ReadFile(filepath.Join(l.Dir(), "webhook", "ca.crt"))
	l.Must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// ask sends a review of a dry run to one webhook and returns the patch of its answer.
func ask(l *lab, asking *http.Client, address string, pod *corev1.Pod) (patch string, err error) {
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
	answer, err := asking.Do(request)
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
