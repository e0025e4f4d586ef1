package aggregator

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// assemble makes the first pods of the crowd on a real apiserver. They have no status of a kubelet: that would be a
// second write for each.
func assemble(b *testing.B, config *rest.Config, pods int) {
	b.Helper()
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	cell := kubernetes.NewForConfigOrDie(config)
	const clients = 32
	var next atomic.Int64
	running, ctx := errgroup.WithContext(b.Context())
	for range clients {
		running.Go(func() error {
			for i := int(next.Add(1)) - 1; i < pods; i = int(next.Add(1)) - 1 {
				p := crowdPod(i)
				if _, err := cell.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("create pod %d of the crowd: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		b.Fatal(err)
	}
}

// protect makes a protector for each application of the crowd, and their namespaces.
func protect(b *testing.B, core client.Client) {
	b.Helper()
	for app := range crowdNamespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crowdNamespace(app)}}
		if err := core.Create(b.Context(), namespace); err != nil {
			b.Fatal(err)
		}
	}
	for app := range crowdReplicaSets {
		if err := core.Create(b.Context(), crowdProtector(app)); err != nil {
			b.Fatal(err)
		}
	}
}
