// Command argo-sync syncs a cluster with manifests by the engine of Argo CD: it applies them, and prunes objects that it applied before and that are no
// longer among them. It reads the manifests of one Application from standard input as YAML, and prints the result of each object as JSON. Each namespaced
// object must name its namespace, because its tracking ID contains it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
)

// trackingID is the annotation by which Argo CD knows the objects of an Application.
const trackingID = "argocd.argoproj.io/tracking-id"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` that leads to the cluster")
	application := flag.String("application", "", "`name` of the Application that the manifests are of")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *kubeconfig, *application)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "argo-sync:", err)
		os.Exit(1)
	}
}

// result is what became of one object.
type result struct {
	Object  string `json:"object"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

func run(ctx context.Context, kubeconfig, application string) error {
	if application == "" {
		return errors.New("-application is required")
	}
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	wanted, err := kube.SplitYAML(bytes.TrimSpace(raw))
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	for _, object := range wanted {
		track(object, application)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	objects := cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetPopulateResourceInfoHandler(
		func(object *unstructured.Unstructured, _ bool) (info any, cached bool) {
			id := object.GetAnnotations()[trackingID]
			return id, id != ""
		}))
	argo := engine.NewEngine(config, objects, engine.WithLogr(logr.Discard()))
	stop, err := argo.Run()
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	defer stop()
	isOurs := func(r *cache.Resource) bool { return r.Info == idOf(application, r.ResourceKey()) }
	done, err := argo.Sync(ctx, wanted, isOurs, "HEAD", metav1.NamespaceDefault, sync.WithPrune(true), sync.WithLogr(logr.Discard()))
	results := []result{}
	for _, one := range done {
		results = append(results, result{one.ResourceKey.String(), string(one.Status), one.Message})
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(results))
}

func track(object *unstructured.Unstructured, application string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[trackingID] = idOf(application, kube.GetResourceKey(object))
	object.SetAnnotations(annotations)
}

func idOf(application string, key kube.ResourceKey) string {
	return fmt.Sprintf("%s:%s/%s:%s/%s", application, key.Group, key.Kind, key.Namespace, key.Name)
}
