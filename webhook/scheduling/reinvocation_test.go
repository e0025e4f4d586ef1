package scheduling_test

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Another webhook, which is called after Breakwater's, gives a pod the label by which a policy selects it.
func TestPodChangedByAnotherWebhookIsReviewedAgain(t *testing.T) {
	p := newFixture(t)
	p.create(p.policy("disk"))
	p.configure()
	p.relabelPods()
	pod := p.pod("web", func(pod *corev1.Pod) { pod.Labels["app"] = "unlabeled" })
	p.eventually(func() string {
		probe := pod.DeepCopy()
		if err := p.Create(p.Context(), probe); err != nil {
			return err.Error()
		}
		if probe.Labels["app"] != "web" {
			_ = p.Delete(p.Context(), probe)
			return "the API server does not call the other webhook yet"
		}
		pod = probe
		return ""
	})
	wantDisk(t, pod.Spec.NodeSelector, "ssd")
	if diff := len(pod.Spec.NodeSelector); diff != 1 {
		t.Errorf("nodeSelector %v, want one label", pod.Spec.NodeSelector)
	}
}

// relabelPods runs a webhook that labels pods app=web.
func (p *fixture) relabelPods() {
	p.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &kind, Patch: []byte(`[{"op":"add","path":"/metadata/labels/app","value":"web"}]`),
		}
		_ = json.NewEncoder(w).Encode(review) // an API server that has disconnected needs no answer
	})}
	go server.ServeTLS(listener, p.server.CertFile, p.server.KeyFile)
	p.Cleanup(func() { server.Close() })
	url := "https://" + listener.Addr().String() + "/"
	p.create(&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace + "-b"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "label.shop.test", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: p.authority},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}},
		}},
	})
}
