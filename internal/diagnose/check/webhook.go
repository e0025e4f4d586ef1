package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Dial opens a connection to a network address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

const (
	answerTimeout  = 10 * time.Second
	maxAnswerBytes = 1 << 20
	checkName      = "breakwater-check"
)

// CallWebhook sends the webhook a dry-run review of an object that does not exist, which consumes no budget. The error says what is wrong, in
// words that follow the webhook's name. CallWebhook uses only the Namespace and Dial of the Checker.
func (c *Checker) CallWebhook(ctx context.Context, hook *admissionregistrationv1.ValidatingWebhook) error {
	_, err := c.call(ctx, &hook.ClientConfig, c.newReview(hook))
	return err
}

// CallSchedulingWebhook sends a webhook of scheduling policies a dry-run review of a pod without labels. The error reads like that of Ask.
func (c *Checker) CallSchedulingWebhook(ctx context.Context, hook *admissionregistrationv1.MutatingWebhook) error {
	answer, err := c.call(ctx, &hook.ClientConfig, c.newPodReview())
	if err == nil && answer.AuditAnnotations["why"] != "" {
		err = fmt.Errorf("does not change pods (%s): %s", answer.AuditAnnotations["reason"], answer.AuditAnnotations["why"])
	}
	return err
}

// CallRingWebhook sends a sharder webhook a dry-run review of an object of the first resource in its rules. The error reads like that of Ask.
func (c *Checker) CallRingWebhook(ctx context.Context, hook *admissionregistrationv1.MutatingWebhook) error {
	_, err := c.call(ctx, &hook.ClientConfig, c.newObjectReview(hook))
	return err
}

// call sends a review to a webhook as the API server would and returns its response. A denial is an error. The request is a dry run about
// an object that does not exist, so nothing is written.
func (c *Checker) call(
	ctx context.Context, at *admissionregistrationv1.WebhookClientConfig, review *admissionv1.AdmissionReview,
) (*admissionv1.AdmissionResponse, error) {
	address, err := addressOf(at)
	if err != nil {
		return nil, err
	}
	httpClient, err := c.httpClient(at)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("its address %q cannot be parsed", webhookconfig.RedactCallerTokens(address))
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := httpClient.Do(request)
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		wrong.URL = webhookconfig.RedactCallerTokens(wrong.URL)
	}
	if err != nil {
		return nil, fmt.Errorf("does not answer; check that replicas of the webhook are ready, and that the caBundle verifies their certificate: %w", err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("sent an incomplete answer: %w", err)
	}
	return validateAnswer(review, response.StatusCode, raw)
}

func validateAnswer(review *admissionv1.AdmissionReview, status int, raw []byte) (*admissionv1.AdmissionResponse, error) {
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(raw, answer); status != http.StatusOK || err != nil || answer.Response == nil || answer.Response.UID != review.Request.UID {
		return nil, fmt.Errorf("answers, but is not a webhook: status %d, %.200q", status, raw)
	}
	switch {
	case answer.Response.Allowed:
		return answer.Response, nil
	case answer.Response.Result == nil:
		return nil, errors.New("denies a request that consumes no budget, without a message")
	}
	return nil, fmt.Errorf("denies a request that consumes no budget: %s", answer.Response.Result.Message)
}

func addressOf(config *admissionregistrationv1.WebhookClientConfig) (string, error) {
	if config.URL != nil {
		return *config.URL, nil
	}
	if config.Service == nil {
		return "", errors.New("has neither a Service nor a URL: sync the chart breakwater")
	}
	host := net.JoinHostPort(config.Service.Name+"."+config.Service.Namespace+".svc", fmt.Sprint(ptr.Deref(config.Service.Port, 443)))
	return "https://" + host + ptr.Deref(config.Service.Path, ""), nil
}

// httpClient trusts the caBundle, as the API server does. A webhook with a URL and no caBundle is verified with the roots of the local
// machine.
func (c *Checker) httpClient(config *admissionregistrationv1.WebhookClientConfig) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case len(config.CABundle) > 0:
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return nil, errors.New("has no certificate in its caBundle: fix the component that fills it (tls.mode of the chart)")
		}
	case config.URL == nil:
		return nil, errors.New("has no caBundle yet, so the API server cannot verify it: " +
			"check that cert-manager's cainjector, or breakwater certificates, runs (tls.mode of the chart)")
	}
	return &http.Client{Timeout: answerTimeout, Transport: &http.Transport{TLSClientConfig: trust, DialContext: c.Dial, DisableKeepAlives: true}}, nil
}

// newReview is a review of what the first rule of a webhook matches: the deletion of an unprotected pod, or the creation of a PodProtector
// without a target.
func (c *Checker) newReview(hook *admissionregistrationv1.ValidatingWebhook) *admissionv1.AdmissionReview {
	request := c.newRequest(admissionv1.Delete)
	if len(hook.Rules) > 0 && len(hook.Rules[0].APIGroups) > 0 && hook.Rules[0].APIGroups[0] == v1alpha1.GroupVersion.Group {
		request.Operation = admissionv1.Create
		request.Kind = metav1.GroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
		request.Resource = metav1.GroupVersionResource(v1alpha1.GroupVersion.WithResource("podprotectors"))
		request.Object = runtime.RawExtension{Object: &v1alpha1.PodProtector{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector"}, ObjectMeta: c.objectMeta(),
			Spec: v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{checkName: ""}}, MinAvailable: v1alpha1.Pods(0)},
		}}
	} else {
		request.Kind = metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		request.Resource = metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods"))
		request.OldObject = runtime.RawExtension{Object: &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: c.objectMeta(), Spec: corev1.PodSpec{NodeName: checkName},
		}}
	}
	return reviewOf(request)
}

// newRequest is a dry-run request about an object that does not exist.
func (c *Checker) newRequest(operation admissionv1.Operation) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: types.UID(fmt.Sprint(checkName, "-", time.Now().UnixNano())), Operation: operation, Namespace: c.Namespace, Name: checkName, DryRun: ptr.To(true),
	}
}

func (c *Checker) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: checkName, UID: checkName}
}

func reviewOf(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionReview {
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
}
