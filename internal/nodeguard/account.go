package nodeguard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Account sends requests of an account to the API server.
type Account struct {
	server   *url.URL
	upstream http.RoundTripper
	// tokenFile has the token of the account, which is read for each request; empty if a certificate authenticates it.
	tokenFile string
}

const requestTimeout = 10 * time.Second

// statusError is an answer of the API server that is not a success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.message) }

// do sends a request with a JSON body, and decodes the response into result unless that is nil.
func (a *Account) do(ctx context.Context, method, path, contentType string, body, result any) error {
	return a.send(ctx, method, a.server.JoinPath(path), contentType, body, result)
}

// query reads from a path with parameters.
func (a *Account) query(ctx context.Context, path string, parameters url.Values, result any) error {
	address := a.server.JoinPath(path)
	address.RawQuery = parameters.Encode()
	return a.send(ctx, http.MethodGet, address, "", nil, result)
}

func (a *Account) send(ctx context.Context, method string, address *url.URL, contentType string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var content io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, address.String(), content)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", accept(result))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "breakwater-node")
	if a.tokenFile != "" {
		token, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return fmt.Errorf("read the token of the guard's account: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := a.upstream.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		var status metav1.Status
		_ = json.Unmarshal(raw, &status) // a proxy may answer with text
		return &statusError{response.StatusCode, status.Message}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(raw, result)
}

// accept returns the media type of a result.
func accept(result any) string {
	if _, ok := result.(*metav1.PartialObjectMetadataList); ok {
		return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return "application/json"
}

func podPath(name types.NamespacedName) string {
	return "/api/v1/namespaces/" + name.Namespace + "/pods/" + name.Name
}

func (a *Account) getPod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	return p, a.do(ctx, http.MethodGet, podPath(name), "", nil, p)
}

func (a *Account) createPod(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	created := &corev1.Pod{}
	return created, a.do(ctx, http.MethodPost, "/api/v1/namespaces/"+p.Namespace+"/pods", "application/json", p, created)
}

// deletePod deletes a pod whose UID must be uid: at once, or with its grace period if it runs.
func (a *Account) deletePod(ctx context.Context, name types.NamespacedName, uid types.UID, runs bool) error {
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid}}
	if !runs {
		options.GracePeriodSeconds = new(int64)
	}
	return a.do(ctx, http.MethodDelete, podPath(name), "application/json", &options, nil)
}

// patchStatus sets the status of a pod whose UID must be uid.
func (a *Account) patchStatus(ctx context.Context, name types.NamespacedName, uid types.UID, status corev1.PodStatus) error {
	return a.do(ctx, http.MethodPatch, podPath(name)+"/status", "application/strategic-merge-patch+json",
		map[string]any{"metadata": map[string]any{"uid": uid}, "status": status}, nil)
}

// patchMetadata sets labels and owners of a pod whose UID must be uid.
func (a *Account) patchMetadata(
	ctx context.Context, name types.NamespacedName, uid types.UID, labels map[string]string, owners []metav1.OwnerReference,
) error {
	return a.do(ctx, http.MethodPatch, podPath(name), "application/merge-patch+json",
		map[string]any{"metadata": map[string]any{"uid": uid, "labels": labels, "ownerReferences": owners}}, nil)
}
